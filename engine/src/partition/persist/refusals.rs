//! The search for the events of a commit that SQL refuses.
//!
//! It halves each part that SQL refuses until events are alone. A commit may have so many of them
//! that one call does not find all in its time. So the process remembers how far each partition's
//! search has come, and the next call goes on from there.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ranking::board::Board;
use ranking::commit::Commit;
use ranking::id::{BoardNo, PartitionNo};
use sea_orm::ActiveValue::Set;

use super::write_into;
use crate::partition::Partition;
use entity::error::{Result, is_refused_content};
use entity::history::{dead_letter, log_cursor};
use entity::sql::begin;

/// Events that SQL refuses, by (seq, index), with the reason.
pub(super) type Refused = BTreeMap<(u64, usize), String>;

/// The last search of each partition.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<u16, Search>>);

/// A search in one commit.
#[derive(Debug)]
struct Search {
    /// The commit's id.
    commit: String,
    /// The ranges of events that were not tried yet, the next one last.
    left: Vec<(usize, usize)>,
    refused: Refused,
}

impl Refusals {
    /// True if a search in a commit has begun.
    pub(super) fn has_begun(&self, partition: PartitionNo, commit: &Commit) -> bool {
        self.lock().get(&partition.0).is_some_and(|search| search.commit == commit.id)
    }

    /// Forgets the search in a partition.
    pub(super) fn forget(&self, partition: PartitionNo) {
        self.lock().remove(&partition.0);
    }

    /// The next range of events to try, or all that were found. Begins the search if it has to.
    fn next(
        &self,
        partition: PartitionNo,
        commit: &Commit,
    ) -> std::result::Result<(usize, usize), Refused> {
        let mut searches = self.lock();
        let search = searches.entry(partition.0).or_insert_with(|| Search::of(commit));
        if search.commit != commit.id {
            *search = Search::of(commit);
        }
        search.left.last().copied().ok_or_else(|| search.refused.clone())
    }

    /// Notes that SQL takes a range, or the reason why it refuses that. Another call may have noted
    /// it first.
    fn note(
        &self,
        partition: PartitionNo,
        commit: &Commit,
        (index, end): (usize, usize),
        reason: Option<String>,
    ) {
        let mut searches = self.lock();
        let search = searches.get_mut(&partition.0);
        let is_next = |search: &&mut Search| {
            search.commit == commit.id && search.left.last() == Some(&(index, end))
        };
        let Some(search) = search.filter(is_next) else {
            return;
        };
        search.left.pop();
        match reason {
            Some(_) if end - index > 1 => {
                let middle = index.midpoint(end);
                search.left.extend([(middle, end), (index, middle)]);
            }
            Some(reason) => {
                tracing::error!(%partition, seq = commit.seq, index, reason, "SQL refuses an event; it becomes a dead letter");
                search.refused.insert((commit.seq, index), reason);
            }
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Search>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Search {
    fn of(commit: &Commit) -> Self {
        let left = vec![(0, commit.events.len())];
        Self { commit: commit.id.clone(), left, refused: Refused::new() }
    }
}

impl Partition<'_> {
    /// Finds the events of a commit that SQL refuses, each part in a transaction that is rolled
    /// back. A call that is dropped loses no more than the part that it tried.
    pub(super) async fn find_refused(
        self,
        cursor: &log_cursor::Model,
        commit: &Commit,
        boards: &HashMap<BoardNo, Board>,
    ) -> Result<Refused> {
        loop {
            let (index, end) = match self.refusals.next(self.no, commit) {
                Ok(range) => range,
                Err(refused) => return Ok(refused),
            };
            let events = commit.events[index..end].to_vec();
            let part = Commit { events, positions: vec![], ..commit.clone() };
            let transaction = begin(&self.db).await?;
            let within = self.within(&transaction, boards);
            let tried =
                write_into(within, cursor, std::slice::from_ref(&part), &Refused::new()).await;
            transaction.rollback().await?;
            let reason = match tried {
                Ok(_) => None,
                Err(error) if is_refused_content(&error) => Some(error.to_string()),
                Err(error) => return Err(error.into()),
            };
            self.refusals.note(self.no, commit, (index, end), reason);
        }
    }
}

/// The row of an event that SQL refuses, as of an instant in Unix milliseconds.
pub(super) fn letter(
    partition: PartitionNo,
    (commit, index): (&Commit, usize),
    reason: &str,
    now_ms: i64,
) -> dead_letter::ActiveModel {
    dead_letter::ActiveModel {
        partition: Set(partition.into()),
        seq: Set(commit.seq as i64),
        event_index: Set(index as i32),
        payload: Set(commit.events[index].to_text()),
        reason: Set(reason.to_owned()),
        state: Set(dead_letter::State::Pending),
        created_at_ms: Set(now_ms),
    }
}
