//! The marks of a partition that is loaded from SQL.

use std::collections::HashMap;

use entity::board;
use entity::board::reshard::Step;
use entity::error::Result;
use entity::member::{ban, erasure, merge};
use ranking::board::Board;
use ranking::board::mark::BoardMark;
use ranking::id::{BoardNo, MemberId};
use ranking::merge::MemberMark;
use ranking::store::recovery::Recovery;
use ranking::store::write::Writes;
use ranking::window::seal::{NEVER_MS, SealMark, SealName};

use crate::partition::Partition;
use crate::partition::recovery::in_time;

/// The rows of one SELECT of merges or bans.
const ROWS_MAX: u64 = 1000;

impl Partition<'_> {
    /// Restores the marks of the partition: deleted boards, generations after the first, layouts
    /// and seals. Those that a row no longer tells are left out.
    pub(super) async fn load_marks(
        self,
        recovery: &Recovery,
        rows: &[board::Model],
        boards: &HashMap<BoardNo, Board>,
        seq: u64,
    ) -> Result<()> {
        let keys = self.store.keys();
        let mut writes = Writes::default();
        for row in rows {
            let windows = row.window_rows().unwrap_or_default().into_iter();
            for window in windows.filter(|_| row.deleted_at_ms.is_none()) {
                let Ok(rule) = window.name.parse() else {
                    continue;
                };
                let name =
                    SealName { board: BoardNo(row.no), generation: window.since, window: rule };
                let sealed = window.sealed();
                let mark = SealMark {
                    sealing_before_ms: sealed.sealing_before_ms,
                    dropped_before_ms: sealed.sealed_before_ms,
                    seq,
                };
                if sealed.sealing_before_ms > NEVER_MS {
                    writes.mark_seal(keys, self.no, name, mark);
                }
            }
            let no = BoardNo(row.no);
            if let Some(former) = boards.get(&no).and_then(|board| board.layouts.former.last()) {
                writes.mark_layout(keys, self.no, no, former.before);
            }
            let reshard = row.reshard().unwrap_or_default();
            let is_held = reshard.is_some_and(|reshard| reshard.step == Step::Held);
            if row.deleted_at_ms.is_none() && row.generation == 1 && !is_held {
                continue;
            }
            let generation = row.generation.unsigned_abs();
            let mark = match row.deleted_at_ms {
                Some(_) => BoardMark::Deleted,
                None if is_held => BoardMark::Held(generation + 1),
                None => BoardMark::Generation(generation),
            };
            writes.mark_board(keys, self.no, no, mark);
        }
        recovery.apply(&writes).await?;
        self.load_member_marks(recovery).await
    }

    /// Restores the marks of members that were merged or take part in a merge.
    async fn load_member_marks(self, recovery: &Recovery) -> Result<()> {
        let mut last = String::new();
        loop {
            let page = merge::page_after(&self.db, &last, ROWS_MAX);
            let rows = in_time(page).await?;
            let Some(row) = rows.last() else { return self.load_bans(recovery).await };
            last = row.source.clone();
            let mut marks = vec![];
            for row in &rows {
                let of_row = row.marks()?.into_iter();
                marks.extend(of_row.filter(|(_, mark)| *mark != MemberMark::None));
            }
            let mut writes = Writes::default();
            writes.mark_members(self.store.keys(), self.no, &marks);
            recovery.apply(&writes).await?;
        }
    }

    /// Restores the marks of members that are banned.
    async fn load_bans(self, recovery: &Recovery) -> Result<()> {
        let mut last = String::new();
        loop {
            let rows = in_time(ban::page_after(&self.db, &last, ROWS_MAX)).await?;
            let Some(row) = rows.last() else { return self.load_erasures(recovery).await };
            last = row.member.clone();
            let mut marks = vec![];
            for row in &rows {
                let mark = row.mark()?;
                if mark != MemberMark::None {
                    marks.push((MemberId::new(&row.member)?, mark));
                }
            }
            let mut writes = Writes::default();
            writes.mark_members(self.store.keys(), self.no, &marks);
            recovery.apply(&writes).await?;
        }
    }

    /// Restores the marks of members that are being erased, in place of others.
    async fn load_erasures(self, recovery: &Recovery) -> Result<()> {
        let mut marks = vec![];
        for row in in_time(erasure::under_way(&self.db, i64::MAX)).await? {
            if row.mark() != MemberMark::None {
                marks.push((row.member_id()?, row.mark()));
            }
        }
        let mut writes = Writes::default();
        writes.mark_members(self.store.keys(), self.no, &marks);
        Ok(recovery.apply(&writes).await?)
    }
}
