//! The all-time entries of a partition that is loaded from SQL: the rows of `standing`.
//!
//! They follow from history. So a member whose row cannot be read gets what its history adds up to,
//! and no other member waits for the repair of that row.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use entity::error::Result;
use ranking::board::Board;
use ranking::id::{BoardNo, MemberId};
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::submission::StandingsChange;
use ranking::window::Period;

use crate::partition::Partition;
use crate::partition::all_time_rows::recompute;
use crate::partition::recovery::in_time;

/// The most members whose history is folded in place of their rows: each costs a few reads.
const FOLDED_MAX: usize = 1000;

/// All-time entries, and the rows that cannot be read.
#[derive(Debug, Default)]
pub(super) struct AllTime {
    entries: BTreeMap<StandingsId, Vec<(MemberId, Option<RankKey>)>>,
    /// Their segments, by board and member.
    unreadable: BTreeMap<(BoardNo, String), BTreeSet<String>>,
}

impl AllTime {
    /// Adds a row.
    pub(super) fn add(&mut self, board: &Board, segment: &str, member: &str, key: Option<i64>) {
        let read = RankKey::from_i64(key.unwrap_or(-1));
        let Ok((member, key)) = read.and_then(|key| Ok((MemberId::new(member)?, key))) else {
            let segments = self.unreadable.entry((board.no, member.to_owned())).or_default();
            segments.insert(segment.to_owned());
            return;
        };
        let id = StandingsId::all_time(board, segment.to_owned());
        self.entries.entry(id).or_default().push((member, Some(key)));
    }

    /// The entries as changes, in rank order.
    pub(super) fn into_changes(self) -> Vec<StandingsChange> {
        let present_from_ms = Period::all().present_from_ms;
        let change = |(id, mut entries): (StandingsId, Vec<(MemberId, Option<RankKey>)>)| {
            entries.sort_unstable_by(|(a, a_key), (b, b_key)| (a_key, a).cmp(&(b_key, b)));
            StandingsChange { id, present_from_ms, entries }
        };
        self.entries.into_iter().map(change).collect()
    }
}

impl Partition<'_> {
    /// Adds what history says in place of the rows that cannot be read.
    pub(super) async fn fold_unreadable(
        self,
        boards: &HashMap<BoardNo, Board>,
        all_time: &mut AllTime,
    ) -> Result<()> {
        let unreadable = std::mem::take(&mut all_time.unreadable);
        let left_out = unreadable.len().saturating_sub(FOLDED_MAX);
        if left_out > 0 {
            tracing::error!(partition = %self, left_out, "too many rows of standing cannot be read: these members have no all-time entries; rebuild the boards");
        }
        for ((no, member), segments) in unreadable.into_iter().take(FOLDED_MAX) {
            tracing::error!(board = %no, member, "a row of standing cannot be read and is folded from history; rebuild the board");
            let Some(board) = boards.get(&no) else {
                continue;
            };
            let view = in_time(self.view()).await?;
            // The rows are not written, so their commit does not matter.
            let rows = in_time(recompute(&view, self.no, board, &member, 0)).await;
            in_time(view.rollback()).await?;
            for row in rows?.into_iter().filter(|row| segments.contains(&row.segment)) {
                all_time.add(board, &row.segment, &row.member, Some(row.rank_key));
            }
        }
        Ok(())
    }
}
