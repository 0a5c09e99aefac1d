//! Standings that subscriptions follow: each is read once a change, for all who follow it.
//!
//! ```text
//! heads ──> follower ──> topics ──> feeds ──> sockets
//!           one a        one for    one for   any
//!           process      standings  a text    number
//! ```
//!
//! The follower looks at the heads of all partitions, in one round trip. Where one has moved it
//! reads the log, and wakes the topics of the boards that its commits are about. A topic reads its
//! standings: the longest page and all members that anyone follows. A feed learns when its part
//! is another one than before. All of them keep the last value only, so that nothing queues.

mod follower;
mod topic;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use engine::deployment::Deployment;
use engine::read::reader::Reader;
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use crate::visibility::Visibilities;
use follower::Follower;
pub(crate) use topic::{Part, RETRY_PAUSE, Want, Watch};
use topic::{TOPICS_AT_ONCE, Topic};

/// The standings that are followed, and the follower.
pub struct Live {
    topics: Arc<Topics>,
    _following: AbortOnDropHandle<()>,
}

/// The topics, by the names of their standings.
pub(crate) struct Topics {
    reader: Reader,
    by_name: Mutex<HashMap<StandingsId, Weak<Topic>>>,
    /// The places of topics that read.
    places: Semaphore,
    /// Wakes the follower for the first topic.
    begun: Notify,
}

impl Live {
    /// Follows nothing yet. The reader must be one of [`Reader::with_fallback`].
    pub fn start(deployment: &Deployment, reader: &Reader, visibilities: &Visibilities) -> Self {
        let topics = Arc::new(Topics {
            reader: reader.clone(),
            by_name: Mutex::default(),
            places: Semaphore::new(TOPICS_AT_ONCE),
            begun: Notify::new(),
        });
        let follower = Follower::new(&topics, deployment, visibilities.follow());
        let _following = AbortOnDropHandle::new(tokio::spawn(follower.run()));
        Self { topics, _following }
    }

    /// Follows a part of standings until the watch is dropped.
    pub(crate) fn watch(&self, standings: &Arc<Standings>, want: Want) -> Watch {
        let mut by_name = self.topics.lock();
        let known = by_name.get(&standings.id).and_then(Weak::upgrade);
        let present = known.as_ref().filter(|topic| topic.is_of(standings)).cloned();
        let topic = present.unwrap_or_else(|| {
            let topic = Topic::new(&self.topics, standings.clone());
            by_name.insert(standings.id.clone(), Arc::downgrade(&topic));
            self.topics.begun.notify_one();
            topic
        });
        drop(by_name);
        // The last owner of a topic needs the lock.
        drop(known);
        topic.watch(want)
    }
}

impl Topics {
    /// The topics that anyone follows.
    fn followed(&self) -> Vec<Arc<Topic>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Forgets a topic without followers.
    fn forget(&self, name: &StandingsId) {
        let mut by_name = self.lock();
        if by_name.get(name).is_some_and(|topic| topic.strong_count() == 0) {
            by_name.remove(name);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<StandingsId, Weak<Topic>>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
