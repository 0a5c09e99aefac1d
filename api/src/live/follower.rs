//! The follower: it looks at the heads of partitions, and wakes the topics that their commits are
//! about. One for the process, however many follow.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::deployment::Deployment;
use futures::future::join_all;
use ranking::commit::{Commit, Head};
use ranking::id::{BoardNo, PartitionNo};
use ranking::store::Store;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Topics;
use super::topic::Topic;
use crate::cache::sql::FRESH;

/// The time between two looks at the heads.
const LOOKS_INTERVAL: Duration = Duration::from_millis(30);

/// The time between two changes of visibility that wake all topics: a member may hide and show
/// itself all the time, and other processes learn of it within a second as well.
const VISIBILITY_TURNS_INTERVAL: Duration = Duration::from_secs(1);

/// The most commits that are read to learn which boards they are about. If there are more, each
/// topic of the partition is woken.
const COMMITS_MAX: usize = 100;

/// Follows the partitions.
pub struct Follower {
    topics: Weak<Topics>,
    deployment: Deployment,
    store: Store,
    /// Tells of members who hide, or show themselves.
    visibility: watch::Receiver<u64>,
    /// When they last woke the topics.
    turned_at: Option<Instant>,
    /// The last known head of each partition; `None` if its commits were not followed.
    heads: Vec<Option<Head>>,
    /// When the topics of a partition turn again, as boards are cached for a moment.
    again_at: Vec<Option<Instant>>,
}

/// The boards that commits are about.
#[derive(Debug, PartialEq, Eq)]
enum Touched {
    Boards(HashSet<BoardNo>),
    /// Any: a commit without events may be about anything.
    All,
}

impl Follower {
    /// Follows nothing yet.
    pub fn new(
        topics: &Arc<Topics>,
        deployment: &Deployment,
        visibility: watch::Receiver<u64>,
    ) -> Self {
        Self {
            topics: Arc::downgrade(topics),
            store: deployment.store.for_reads(),
            deployment: deployment.clone(),
            visibility,
            turned_at: None,
            heads: vec![],
            again_at: vec![],
        }
    }

    /// Follows as long as there are topics, and begins again with the next one.
    pub async fn run(mut self) {
        while let Some(topics) = self.topics.upgrade() {
            if topics.followed().is_empty() {
                self.heads.clear();
                self.again_at.clear();
                topics.begun.notified().await;
                continue;
            }
            self.look(&topics).await;
            drop(topics);
            sleep(LOOKS_INTERVAL).await;
        }
    }

    /// Wakes the topics that something has changed for since the last look. Those that begin
    /// meanwhile may have read before a change that this look takes for seen, so the topics are
    /// asked for again after each answer.
    async fn look(&mut self, topics: &Topics) {
        let now_ms = self.deployment.clock.now_ms();
        topics.followed().iter().for_each(|topic| topic.look_at_clock(now_ms));
        let may_turn = self.turned_at.is_none_or(|at| at.elapsed() >= VISIBILITY_TURNS_INTERVAL);
        if may_turn && self.visibility.has_changed().unwrap_or(false) {
            self.visibility.mark_unchanged();
            self.turned_at = Some(Instant::now());
            topics.followed().iter().for_each(|topic| topic.turn());
        }
        let Some(heads) = self.heads_of_those_here().await else {
            // When Redis is back, anything may have changed.
            self.heads.clear();
            return;
        };
        let followed = topics.followed();
        self.heads.resize(heads.len(), None);
        self.again_at.resize(heads.len(), None);
        let moved = heads.into_iter().enumerate().filter_map(|(index, head)| {
            let no = PartitionNo(u16::try_from(index).ok()?);
            let known = std::mem::replace(&mut self.heads[index], head);
            let is_moved = self.heads[index].is_some() && self.heads[index] != known;
            (is_moved && followed.iter().any(|topic| is_in(topic, no))).then_some((no, known))
        });
        let moved: Vec<(PartitionNo, Option<Head>)> = moved.collect();
        let store = &self.store;
        let read = moved.into_iter().map(|(no, known)| async move {
            let read = match known {
                Some(known) => touched(store, no, &known).await,
                None => None,
            };
            (no, read)
        });
        let read = join_all(read).await;
        let followed = topics.followed();
        for (no, read) in read {
            let index = usize::from(no.0);
            let of_partition = followed.iter().filter(|topic| is_in(topic, no));
            let touched = match read {
                Some((head, touched)) => {
                    self.heads[index] = Some(head);
                    touched
                }
                None => Touched::All,
            };
            match touched {
                Touched::Boards(boards) => of_partition
                    .filter(|topic| boards.contains(&topic.state.standings.id.board))
                    .for_each(|topic| topic.touch()),
                Touched::All => {
                    of_partition.for_each(|topic| topic.turn());
                    self.again_at[index] = Some(Instant::now() + FRESH);
                }
            }
        }
        self.turn_again(&followed);
    }

    /// The heads of the partitions that can be read, in order; `None` if no server answers. Those
    /// that are known to give no answer are not waited for.
    async fn heads_of_those_here(&self) -> Option<Vec<Option<Head>>> {
        let mut servers = self.store.partitions_by_server().await.ok()?;
        let redis = &self.deployment.redis_health;
        for partitions in &mut servers {
            partitions.retain(|no| !redis.is_away(&[*no]));
        }
        servers.retain(|partitions| !partitions.is_empty());
        let asked = servers.iter().map(|partitions| async move {
            tokio::select! {
                biased;
                () = redis.until_away(partitions) => None,
                heads = self.store.heads_of(partitions) => heads.ok(),
            }
        });
        let told = join_all(asked).await;
        let mut heads = vec![None; usize::from(self.store.partitions().count())];
        for (partitions, told) in servers.iter().zip(&told) {
            for (no, head) in partitions.iter().zip(told.iter().flatten()) {
                heads[usize::from(no.0)] = head.as_ref().ok().cloned();
            }
        }
        told.iter().any(Option::is_some).then_some(heads)
    }

    /// Wakes the topics again whose boards were perhaps read before they changed.
    fn turn_again(&mut self, followed: &[Arc<Topic>]) {
        for (index, at) in self.again_at.iter_mut().enumerate() {
            if at.is_some_and(|at| at <= Instant::now()) {
                *at = None;
                let is_of = |topic: &&Arc<Topic>| {
                    u16::try_from(index).is_ok_and(|no| is_in(topic, PartitionNo(no)))
                };
                followed.iter().filter(is_of).for_each(|topic| topic.turn());
            }
        }
    }
}

fn is_in(topic: &Topic, partition: PartitionNo) -> bool {
    topic.state.standings.partitions().contains(&partition)
}

/// The boards that the commits of a partition since a head are about, and the head of now; `None`
/// if the log does not tell.
async fn touched(store: &Store, no: PartitionNo, known: &Head) -> Option<(Head, Touched)> {
    let log = store.log_after(no, known.seq, COMMITS_MAX).await.ok()?;
    let is_whole = log.head.run_id == known.run_id
        && log.head.epoch == known.epoch
        && leads(known, &log.commits, &log.head);
    is_whole.then(|| (log.head, boards_of(&log.commits)))
}

/// True if commits lead from one head to another.
fn leads(from: &Head, commits: &[Commit], to: &Head) -> bool {
    let (mut seq, mut id) = (from.seq, &from.commit);
    for commit in commits {
        if commit.seq != seq + 1 || commit.parent != *id {
            return false;
        }
        (seq, id) = (commit.seq, &commit.id);
    }
    (seq, id) == (to.seq, &to.commit)
}

fn boards_of(commits: &[Commit]) -> Touched {
    if commits.iter().any(|commit| commit.events.is_empty()) {
        return Touched::All;
    }
    let events = commits.iter().flat_map(|commit| &commit.events);
    Touched::Boards(events.map(|event| event.board).collect())
}

#[cfg(test)]
mod tests {
    use ranking::commit::{Event, EventKind};
    use ranking::id::MemberId;

    use super::*;

    fn head(seq: u64, commit: &str) -> Head {
        Head {
            seq,
            commit: commit.to_owned(),
            clock_ms: 0,
            epoch: 1,
            deployment: String::new(),
            run_id: String::new(),
        }
    }

    fn commit(seq: u64, id: &str, parent: &str, boards: &[i64]) -> Commit {
        let event = |board: &i64| Event {
            board: BoardNo(*board),
            generation: 1,
            member: MemberId::new("m").unwrap(),
            kind: EventKind::Removal,
            event_id: None,
            segments: vec![],
            metadata: None,
            origin: None,
        };
        Commit {
            seq,
            id: id.to_owned(),
            parent: parent.to_owned(),
            accepted_at_ms: 0,
            clock_ms: 0,
            random: Default::default(),
            leaves: vec![],
            positions: vec![],
            events: boards.iter().map(event).collect(),
        }
    }

    #[test]
    fn commits_tell_their_boards_and_one_without_events_tells_nothing() {
        let with_events = [commit(1, "a", "", &[3, 4]), commit(2, "b", "a", &[3])];
        let boards = [BoardNo(3), BoardNo(4)].into();
        assert_eq!(boards_of(&with_events), Touched::Boards(boards));
        assert_eq!(boards_of(&[commit(1, "a", "", &[3]), commit(2, "b", "a", &[])]), Touched::All);
    }

    #[test]
    fn only_a_whole_log_leads_to_the_head() {
        let log = [commit(6, "f", "e", &[1]), commit(7, "g", "f", &[1])];
        assert!(leads(&head(5, "e"), &log, &head(7, "g")));
        assert!(leads(&head(7, "g"), &[], &head(7, "g")));
        // It was trimmed, it is longer, or another history took its place.
        assert!(!leads(&head(4, "d"), &log, &head(7, "g")));
        assert!(!leads(&head(5, "e"), &log, &head(9, "i")));
        assert!(!leads(&head(5, "x"), &log, &head(7, "g")));
    }
}
