//! The events of the logs that SQL may not have yet, as far as entries' metadata needs them: scores
//! with metadata, removals and voids, by member.
//!
//! A process reads each commit of a log once, and only if a client asks for metadata there. It
//! forgets a commit once SQL has it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use entity::history::makers::Events;
use futures::future::try_join_all;
use ranking::commit::{Commit, EventKind};
use ranking::id::{BoardNo, MemberId, PartitionNo};
use ranking::shard::shard_of;
use ranking::store::Store;
use ranking::store::log::LogRead;
use ranking::store::read::Standings;
use ranking::{Error, Result};
use tokio::sync::Mutex as AsyncMutex;

/// The commits of the first read of a log, and of one read at most: each may have a thousand
/// events, or one.
const COMMITS_AT_FIRST: usize = 8;
const COMMITS_AT_ONCE: usize = 500;

/// The events of one read, about.
const EVENTS_AT_ONCE: usize = 5000;

/// The most commits that SQL may be behind a partition's log while entries still show their
/// metadata.
pub const METADATA_COMMITS_MAX: u64 = 20_000;

/// The reads of a log that may find another one in its place.
const ATTEMPTS_MAX: usize = 3;

/// The ends of the logs of all partitions.
#[derive(Debug, Default)]
pub(crate) struct LogTails(Mutex<HashMap<PartitionNo, Arc<AsyncMutex<LogTail>>>>);

/// The end of a partition's log.
#[derive(Debug, Default)]
struct LogTail {
    /// The seq and the id of the last commit that was read; `None` before the first read.
    last: Option<(u64, String)>,
    /// The events, by their members.
    events: HashMap<(BoardNo, MemberId), Events>,
    /// The members of the events of each commit, by seq.
    members: BTreeMap<u64, Vec<(BoardNo, MemberId)>>,
}

impl LogTails {
    /// The events of some members of the standings' board in the logs. One round trip for each
    /// partition that has some of the members, and one for each 500 commits that are new to the
    /// process.
    ///
    /// # Errors
    /// As [`Store::log_after`]; `Unavailable` if SQL is more than 20,000 commits behind.
    pub(crate) async fn events(
        &self,
        store: &Store,
        standings: &Standings,
        members: &BTreeSet<MemberId>,
    ) -> Result<Events> {
        let mut by_partition: BTreeMap<PartitionNo, Vec<&MemberId>> = BTreeMap::new();
        for member in members {
            let shard = usize::from(shard_of(member, standings.rules.shards));
            by_partition.entry(standings.partitions()[shard]).or_default().push(member);
        }
        let reads = by_partition.into_iter().map(|(partition, members)| async move {
            let tail = self.of(partition);
            let mut tail = tail.lock().await;
            tail.catch_up(store, partition).await?;
            let no = standings.id.board;
            let of_member = |member: &MemberId| tail.events.get(&(no, member.clone()));
            Ok::<Events, Error>(
                members.into_iter().filter_map(of_member).flatten().cloned().collect(),
            )
        });
        Ok(try_join_all(reads).await?.into_iter().flatten().collect())
    }

    fn of(&self, partition: PartitionNo) -> Arc<AsyncMutex<LogTail>> {
        let mut tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tails.entry(partition).or_default().clone()
    }
}

impl LogTail {
    /// Reads the log up to its head.
    async fn catch_up(&mut self, store: &Store, partition: PartitionNo) -> Result<()> {
        let (mut attempts, mut commits) = (0, COMMITS_AT_FIRST);
        loop {
            let (seq, count) = match &self.last {
                Some((seq, _)) => (*seq, commits),
                // Only the head, and the seq from which on SQL may lack commits.
                None => (u64::MAX - 1, 1),
            };
            let read = store.log_after(partition, seq, count).await?;
            let behind = read.head.seq.saturating_sub(read.settled);
            if behind > METADATA_COMMITS_MAX {
                return Err(Error::Unavailable(format!(
                    "the database is more than {METADATA_COMMITS_MAX} commits behind, so metadata cannot be read; try again later"
                )));
            }
            let events: usize = read.commits.iter().map(|commit| commit.events.len()).sum();
            commits = match events * 4 <= EVENTS_AT_ONCE {
                true => (commits * 4).min(COMMITS_AT_ONCE),
                false => COMMITS_AT_FIRST,
            };
            match self.take(partition, read) {
                Taken::All => return Ok(()),
                Taken::Some => {}
                Taken::None if attempts < ATTEMPTS_MAX => {
                    // Redis has begun another log, or dropped the commits after the last one.
                    attempts += 1;
                    *self = Self::default();
                }
                Taken::None => return Err(Error::NotLevel(partition.0)),
            }
        }
    }

    fn seq(&self) -> u64 {
        self.last.as_ref().map_or(0, |(seq, _)| *seq)
    }

    /// Adds the commits that follow the last one.
    fn take(&mut self, partition: PartitionNo, read: LogRead) -> Taken {
        let LogRead { head, commits, settled } = read;
        let Some((seq, id)) = self.last.clone() else {
            // SQL has the commits up to here; the id of an earlier one is not known.
            let seq = settled.min(head.seq);
            let id = if seq == head.seq { head.commit } else { String::new() };
            self.last = Some((seq, id));
            return if seq == head.seq { Taken::All } else { Taken::Some };
        };
        let follows = commits
            .first()
            .is_some_and(|first| first.seq == seq + 1 && (id.is_empty() || first.parent == id));
        if !follows {
            let is_head = (seq, id) == (head.seq, head.commit);
            if is_head {
                self.forget(settled);
            }
            return if is_head { Taken::All } else { Taken::None };
        }
        for commit in &commits {
            self.add(partition, commit);
        }
        self.forget(settled);
        match self.seq() >= head.seq {
            true => Taken::All,
            false => Taken::Some,
        }
    }

    fn add(&mut self, partition: PartitionNo, commit: &Commit) {
        let mut members = vec![];
        for (place, event) in commit.places(partition) {
            if event.metadata.is_none() && matches!(event.kind, EventKind::Score { .. }) {
                continue;
            }
            let member = (event.board, event.member.clone());
            self.events.entry(member.clone()).or_default().push((place, event.clone()));
            members.push(member);
        }
        if !members.is_empty() {
            self.members.insert(commit.seq, members);
        }
        self.last = Some((commit.seq, commit.id.clone()));
    }

    /// Forgets the commits up to a seq, which SQL has.
    fn forget(&mut self, settled: u64) {
        while let Some(first) = self.members.first_entry()
            && *first.key() <= settled
        {
            let (seq, members) = first.remove_entry();
            for member in members {
                if let Some(events) = self.events.get_mut(&member) {
                    events.retain(|(place, _)| place.seq != seq);
                    if events.is_empty() {
                        self.events.remove(&member);
                    }
                }
            }
        }
    }
}

/// The outcome of a read of a log.
enum Taken {
    /// Its commits lead to the head.
    All,
    /// Its commits follow the last one; more may come.
    Some,
    /// Its commits do not follow the last one.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ranking::commit::{Event, Head, ROOT_COMMIT};
    use ranking::metadata::Metadata;

    const PARTITION: PartitionNo = PartitionNo(3);

    fn head() -> Head {
        let (deployment, run_id) = ("d".to_owned(), "r".to_owned());
        let commit = ROOT_COMMIT.to_owned();
        Head { seq: 0, commit, clock_ms: 1, epoch: 1, deployment, run_id }
    }

    /// Commits with a score of ann each, the first of them without metadata.
    fn commits(count: u8, random: u8) -> Vec<(Head, Commit)> {
        let mut head = head();
        let commits = (0..count).map(|number| {
            let metadata = (number > 0).then(|| Metadata::parse("{}").unwrap());
            let score = Event {
                board: BoardNo(1),
                generation: 1,
                member: MemberId::new("ann").unwrap(),
                kind: EventKind::Score { score: 1, at_ms: 1, at_sent: false },
                event_id: None,
                segments: vec![],
                metadata,
                origin: None,
            };
            let commit = head.next([random + number; 32], 1, vec![score]);
            head = head.moved_to(&commit);
            (head.clone(), commit)
        });
        commits.collect()
    }

    /// Lets a tail read commits, the last of which is the head.
    fn take(tail: &mut LogTail, read: &[(Head, Commit)], settled: u64) -> Taken {
        let head = read.last().map_or_else(head, |(head, _)| head.clone());
        let commits = read.iter().map(|(_, commit)| commit.clone()).collect();
        tail.take(PARTITION, LogRead { head, commits, settled })
    }

    fn seqs(tail: &LogTail) -> Vec<u64> {
        tail.events.values().flatten().map(|(place, _)| place.seq).collect()
    }

    #[test]
    fn a_tail_has_the_events_that_sql_may_lack_and_forgets_the_others() {
        let all = commits(5, 0);
        let mut tail = LogTail::default();
        // The first read is of the head alone.
        let Taken::Some = take(&mut tail, &all[4..], 1) else { panic!("more commits come") };
        let Taken::All = take(&mut tail, &all[1..], 1) else { panic!("it is level") };
        assert_eq!(seqs(&tail), [2, 3, 4, 5]);
        let Taken::All =
            tail.take(PARTITION, LogRead { head: all[4].0.clone(), commits: vec![], settled: 4 })
        else {
            panic!("it is still level")
        };
        assert_eq!(seqs(&tail), [5]);
    }

    #[test]
    fn another_log_in_its_place_is_not_followed() {
        let (one, other) = (commits(3, 0), commits(4, 100));
        let mut tail = LogTail::default();
        take(&mut tail, &one[2..], 0);
        let Taken::All = take(&mut tail, &one, 0) else { panic!("it is level") };
        assert!(matches!(take(&mut tail, &other[3..], 0), Taken::None));
        // The same seq with another id.
        let again = LogRead { head: other[2].0.clone(), commits: vec![], settled: 0 };
        assert!(matches!(tail.take(PARTITION, again), Taken::None));
    }
}
