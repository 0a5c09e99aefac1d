//! A topic: standings that are followed, read once a change for all who follow a part of them.

mod contents;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ranking::id::MemberId;
use ranking::store::read::{RankedEntry, Standings};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use self::contents::{Contents, Mark, Snapshot};
use super::Topics;
use crate::error::{Error, Result};
use crate::loader::Found;
use crate::metrics::METRICS;

/// The shortest time between two reads of the same standings, so between two pushes.
const READS_INTERVAL: Duration = Duration::from_millis(100);

/// The topics that read at the same time.
pub(super) const TOPICS_AT_ONCE: usize = 4;

/// The longest time for which a read keeps its place among them.
const PLACE_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause before standings that could not be read are read again.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The most members of one look-up.
const MEMBERS_MAX: usize = 1000;

/// A part of standings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// So many entries from the front, and if there are more.
    Page(usize),
    /// A member's entry.
    Entry(MemberId),
}

/// A part of standings as it was read. Its order and its keys make it another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The first entries, and true if there are more.
    Page(Vec<RankedEntry>, bool),
    /// The entry; `None` without one.
    Entry(Option<Found>),
}

/// Standings that are followed. Their reads end with the last watch.
pub struct Topic {
    pub(super) state: Arc<State>,
    topics: Weak<Topics>,
    _reading: AbortOnDropHandle<()>,
}

/// The state that a topic shares with its reads.
pub(super) struct State {
    pub(super) standings: Arc<Standings>,
    wants: Mutex<Wants>,
    changed: Notify,
    /// How often something else than entries may have changed.
    turns: AtomicU64,
    /// True if the period was over when the topic began, or the followers know that it is.
    is_over: AtomicBool,
    snapshots: watch::Sender<Snapshot>,
}

/// The parts that are wanted, each with the number of its watches.
#[derive(Default)]
struct Wants {
    pages: BTreeMap<usize, usize>,
    members: HashMap<MemberId, usize>,
}

/// A part of standings that is followed until this is dropped.
pub struct Watch {
    topic: Arc<Topic>,
    want: Want,
    snapshots: watch::Receiver<Snapshot>,
    turn: u64,
    last: Option<Mark>,
    /// The reads since [`Watch::part`], until someone [takes](Watch::take_reads) them.
    reads: u64,
}

impl Topic {
    /// Standings without followers.
    pub(super) fn new(topics: &Arc<Topics>, standings: Arc<Standings>) -> Arc<Self> {
        let state = Arc::new(State {
            standings,
            wants: Mutex::default(),
            changed: Notify::new(),
            turns: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            snapshots: watch::Sender::default(),
        });
        let reading = tokio::spawn(read_on(state.clone(), topics.clone()));
        let _reading = AbortOnDropHandle::new(reading);
        Arc::new(Self { state, topics: Arc::downgrade(topics), _reading })
    }

    /// True if it follows these standings, where they lie now.
    pub(super) fn is_of(&self, standings: &Standings) -> bool {
        let own = &self.state.standings;
        own.id == standings.id && own.is_laid_out_as(standings)
    }

    /// Follows a part. If it is not among those that are read, all are read again; so they are if
    /// it was not among the wants, as a read may be under way without it.
    pub(super) fn watch(self: Arc<Self>, want: Want) -> Watch {
        let snapshots = self.state.snapshots.subscribe();
        let is_new = self.state.wants().add(&want);
        if is_new || snapshots.borrow().part(&want).is_none() {
            self.state.changed.notify_one();
        }
        let turn = snapshots.borrow().turn;
        Watch { topic: self, want, snapshots, turn, last: None, reads: 0 }
    }

    /// Notes that entries may have changed.
    pub(super) fn touch(&self) {
        self.state.changed.notify_one();
    }

    /// Notes that anything may have changed: the board, its windows, the period.
    pub(super) fn turn(&self) {
        self.state.turns.fetch_add(1, SeqCst);
        self.state.changed.notify_one();
    }

    /// Turns once the period is over.
    pub(super) fn look_at_clock(&self, now_ms: i64) {
        let is_over = self.state.standings.period.end_ms.is_some_and(|end_ms| end_ms <= now_ms);
        if is_over && !self.state.is_over.swap(true, SeqCst) {
            self.turn();
        }
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        if let Some(topics) = self.topics.upgrade() {
            topics.forget(&self.state.standings.id);
        }
    }
}

impl State {
    fn wants(&self) -> MutexGuard<'_, Wants> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all that is wanted: a page from the front, and the entries of members.
    async fn read(&self, topics: &Topics) -> Result<Contents> {
        let (limit, members) = {
            let wants = self.wants();
            let limit = wants.pages.last_key_value().map_or(0, |(first, _)| first + 1);
            (limit, wants.members.keys().cloned().collect::<Vec<_>>())
        };
        let (reader, standings) = (&topics.reader, &*self.standings);
        let entries = match limit {
            0 => vec![],
            limit => reader.forward_from(standings, 0, limit).await?,
        };
        let mut contents = Contents { entries, limit, ..Contents::default() };
        for members in members.chunks(MEMBERS_MAX) {
            let found = reader.find(standings, members).await?;
            let found = found.into_iter().map(|found| {
                found.map(|(RankedEntry { key, .. }, position)| Found { key, position })
            });
            contents.members.extend(members.iter().cloned().zip(found));
        }
        Ok(contents)
    }
}

/// Reads standings whenever they have changed. It rests as long as it reads, and keeps its place
/// among the topics meanwhile, so that the reads of busy topics leave half of the time to others. A
/// read that a store keeps waiting leaves its place.
async fn read_on(state: Arc<State>, topics: Arc<Topics>) {
    let (mut reads, mut last): (u64, Option<Arc<Result<Contents>>>) = (0, None);
    loop {
        state.changed.notified().await;
        let Ok(place) = topics.places.acquire().await else { return };
        let (began, turn) = (Instant::now(), state.turns.load(SeqCst));
        let mut reading = std::pin::pin!(state.read(&topics));
        let (mut read, place) = match timeout(PLACE_TIMEOUT, &mut reading).await {
            Ok(read) => (read, Some(place)),
            Err(_) => {
                drop(place);
                (reading.await, None)
            }
        };
        METRICS.live.reads.inc();
        reads += 1;
        if let Ok(contents) = &mut read {
            let wanted: Vec<usize> = state.wants().pages.keys().copied().collect();
            contents.compare(last.as_deref(), &wanted, reads);
        }
        let has_failed = read.is_err();
        let read = Arc::new(read);
        if !has_failed {
            last = Some(read.clone());
        }
        state.snapshots.send_replace(Snapshot { turn, read: Some(read) });
        if !has_failed && place.is_some() {
            sleep(began.elapsed()).await;
        }
        drop(place);
        sleep_until(began + READS_INTERVAL).await;
        if has_failed {
            // A failed read is repeated, also where nothing has changed since.
            let _ = timeout(RETRY_PAUSE, state.changed.notified()).await;
            state.changed.notify_one();
        }
    }
}

impl Wants {
    /// Adds a watch; true if it is the first of its part.
    fn add(&mut self, want: &Want) -> bool {
        let count = match want {
            Want::Page(first) => self.pages.entry(*first).or_default(),
            Want::Entry(member) => self.members.entry(member.clone()).or_default(),
        };
        *count += 1;
        *count == 1
    }

    fn remove(&mut self, want: &Want) {
        match want {
            Want::Page(first) => {
                if let Some(count) = self.pages.get_mut(first) {
                    *count -= 1;
                }
                self.pages.retain(|_, count| *count > 0);
            }
            Want::Entry(member) => {
                if let Some(count) = self.members.get_mut(member) {
                    *count -= 1;
                    if *count == 0 {
                        self.members.remove(member);
                    }
                }
            }
        }
    }
}

impl Watch {
    /// True if it follows this part of these standings.
    pub fn is_of(&self, standings: &Standings, want: &Want) -> bool {
        self.topic.is_of(standings) && self.want == *want
    }

    /// The part as it was read last; waits for the first read.
    ///
    /// # Errors
    /// That of the read.
    pub async fn part(&mut self) -> Result<Part> {
        loop {
            let snapshot = self.snapshots.borrow_and_update().clone();
            self.turn = snapshot.turn;
            if let Some(part) = snapshot.part(&self.want) {
                self.last = snapshot.mark(&self.want);
                return part;
            }
            self.next().await?;
        }
    }

    /// Waits until the part is another one than [`Self::part`] told, or anything else may have
    /// changed: true; or until so many reads have found it the same: false.
    ///
    /// # Errors
    /// `INTERNAL` if the reads have ended.
    pub async fn changed(&mut self, reads_max: u64) -> Result<bool> {
        while self.reads < reads_max {
            self.next().await?;
            self.reads += 1;
            let snapshot = self.snapshots.borrow_and_update().clone();
            let mark = snapshot.mark(&self.want);
            if snapshot.turn != self.turn || (mark.is_some() && mark != self.last) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The reads since the last call, and since [`Self::part`].
    pub fn take_reads(&mut self) -> u64 {
        std::mem::take(&mut self.reads)
    }

    async fn next(&mut self) -> Result<()> {
        self.snapshots.changed().await.map_err(|error| Error::internal(&error))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.topic.state.wants().remove(&self.want);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> MemberId {
        MemberId::new(name).unwrap()
    }

    #[test]
    fn a_want_stays_as_long_as_anyone_has_it() {
        let mut wants = Wants::default();
        let added = [Want::Page(10), Want::Page(10), Want::Page(3), Want::Entry(member("m"))];
        assert_eq!(added.map(|want| wants.add(&want)), [true, false, true, true]);
        wants.remove(&Want::Page(10));
        wants.remove(&Want::Entry(member("m")));
        assert_eq!(wants.pages, [(3, 1), (10, 1)].into());
        assert!(wants.members.is_empty());
        wants.remove(&Want::Page(10));
        assert_eq!(wants.pages.last_key_value(), Some((&3, &1)));
    }
}
