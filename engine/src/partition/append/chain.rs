//! The commits that events are made into, one the parent of the next, and what they add up to.

use std::collections::{BTreeMap, HashMap};

use ranking::board::Board;
use ranking::commit::{COMMIT_EVENTS_MAX, Commit, Event, Head};
use ranking::fold::replay::Replay;
use ranking::id::{MemberId, PartitionNo};
use ranking::standings_id::StandingsId;
use tokio::sync::mpsc;

use super::Source;
use crate::failpoint;
use crate::partition::Partition;
use crate::partition::all_time_rows::row_of;
use entity::error::Result;
use entity::history::log_cursor;
use entity::standings::standing;

/// The commits of a block, which one statement may write.
const COMMITS_OF_BLOCK: usize = 20;

/// The events of a transaction, about. Memory has the members of one, and other writers of SQLite
/// wait for it.
const EVENTS_OF_TRANSACTION: usize = 200_000;

/// Commits to write.
pub(super) struct Block {
    pub(super) commits: Vec<Commit>,
    /// At the end of a transaction, the all-time rows that its events changed.
    pub(super) standings: Option<Vec<standing::Model>>,
}

/// The end of a partition's history, to which commits are added.
pub(super) struct Chain {
    partition: PartitionNo,
    board: Board,
    head: Head,
    now_ms: i64,
    replay: Replay,
    /// The members and segments with events in this transaction, and the seq of the last one.
    touched: HashMap<MemberId, BTreeMap<String, u64>>,
}

impl Chain {
    /// The chain after SQL's cursor, with the deployment's clock and the time of acceptance, both
    /// in Unix milliseconds. `replay` has what the board had until then.
    pub(super) fn after(
        partition: Partition<'_>,
        cursor: &log_cursor::Model,
        (clock_ms, now_ms): (i64, i64),
        board: Board,
        replay: Replay,
    ) -> Self {
        let head = Head {
            seq: cursor.seq.unsigned_abs(),
            commit: cursor.commit_id.clone(),
            clock_ms,
            epoch: cursor.epoch.unsigned_abs(),
            deployment: partition.identity.to_string(),
            run_id: cursor.run_id.clone(),
        };
        let touched = HashMap::new();
        Self { partition: partition.no, board, head, now_ms, replay, touched }
    }

    /// Makes blocks of all events, until their reader is gone. Returns what the events add up to.
    pub(super) fn make(
        mut self,
        mut events: Box<dyn Source>,
        blocks: &mpsc::Sender<Block>,
    ) -> Result<Replay> {
        let (of_commit, of_block, of_transaction) = (
            failpoint::batch_size(COMMIT_EVENTS_MAX),
            failpoint::batch_size(COMMITS_OF_BLOCK),
            failpoint::batch_size(EVENTS_OF_TRANSACTION),
        );
        let (mut in_transaction, mut has_ended) = (0, false);
        while !has_ended {
            let mut commits = vec![];
            while commits.len() < of_block {
                let some = events.next(of_commit)?;
                has_ended = some.is_empty();
                if has_ended {
                    break;
                }
                in_transaction += some.len();
                commits.push(self.commit(some)?);
            }
            let mut standings = None;
            if in_transaction >= of_transaction || (has_ended && in_transaction > 0) {
                standings = Some(self.standings()?);
                in_transaction = 0;
            }
            if (!commits.is_empty() || standings.is_some())
                && blocks.blocking_send(Block { commits, standings }).is_err()
            {
                break;
            }
        }
        Ok(self.replay)
    }

    /// The next commit.
    fn commit(&mut self, events: Vec<Event>) -> Result<Commit> {
        let commit = self.head.next(rand::random(), self.now_ms, events);
        for (place, event) in commit.places(self.partition) {
            self.replay.apply(&self.board, place, event)?;
            if !self.touched.contains_key(&event.member) {
                self.touched.insert(event.member.clone(), BTreeMap::new());
            }
            if let Some(segments) = self.touched.get_mut(&event.member) {
                for segment in [String::new()].iter().chain(&event.segments) {
                    segments.insert(segment.clone(), commit.seq);
                }
            }
        }
        self.head = self.head.moved_to(&commit);
        Ok(commit)
    }

    /// The all-time rows of the members with events since the last call.
    fn standings(&mut self) -> Result<Vec<standing::Model>> {
        let mut rows = vec![];
        for (member, segments) in self.touched.drain() {
            for (segment, seq) in segments {
                let id = StandingsId::all_time(&self.board, segment);
                let Some(state) = self.replay.state_of(&id, &member) else { continue };
                let name = member.as_str();
                rows.push(row_of(&self.board, id.segment, name, state, self.partition, seq)?);
            }
        }
        // Rows that lie beside each other in an index cost less one after the other.
        rows.sort_unstable_by(|one, other| {
            (&one.member, &one.segment).cmp(&(&other.member, &other.segment))
        });
        Ok(rows)
    }
}
