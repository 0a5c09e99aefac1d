//! A partition of Redis loaded from SQL: all its standings, marks, event ids and positions in
//! sources.

mod all_time;
mod entrants;
mod marks;
pub(crate) mod positions;
mod put;
mod seen;

use crate::partition::Partition;
use crate::partition::home::fold_row_or_skip;
use crate::partition::persist::one_transaction;
use crate::partition::recovery::in_time;
use all_time::AllTime;
use entity::board;
use entity::error::Result;
use entity::history::{log_cursor, score_event};
use entity::sql::blocks::Columns;
use futures::TryStreamExt;
use ranking::board::Board;
use ranking::commit::Head;
use ranking::fold::replay::Replay;
use ranking::id::BoardNo;
use ranking::store::recovery::Recovery;
use ranking::store::write::Writes;
use ranking::submission::StandingsChange;
use ranking::window::Window;
use ranking::window::roll::RollMark;
use std::collections::{BTreeSet, HashMap};

/// The rows of one SELECT.
const ROWS_MAX: u64 = 10_000;

/// The most boards whose rows one call reads.
const BOARDS_AT_ONCE: usize = 5000;

impl Partition<'_> {
    /// Loads the whole partition from SQL, which first gets the commits that the log has for it,
    /// unless they do not fit. Only begins a new log if all else in Redis is as of the head that
    /// `at_tip` names and SQL then has all up to it.
    pub(super) async fn load(
        self,
        recovery: &Recovery,
        at_tip: Option<Head>,
        fits: bool,
    ) -> Result<()> {
        let cursor = self.close(recovery, fits).await?;
        let is_at = |head: &Head| head.seq == cursor.seq as u64 && head.commit == cursor.commit_id;
        if let Some(head) = at_tip.filter(is_at) {
            tracing::warn!(partition = %self, seq = cursor.seq, "another program has written to the log in Redis: the partition begins a new one");
            recovery.drop_log().await?;
            let epoch = cursor.epoch.unsigned_abs();
            return Ok(recovery
                .finish((head.seq, &head.commit), epoch, head.clock_ms, true)
                .await?);
        }
        if cursor.seq > 0 {
            tracing::warn!(partition = %self, seq = cursor.seq, "Redis is not level with SQL: the partition is loaded from SQL");
        }
        recovery.clear().await?;
        // One read for marks and standings: a period that is not loaded because it is sealed must
        // be marked as sealed.
        let rows = self.boards().await?;
        let boards = rules_of(&rows);
        self.load_marks(recovery, &rows, &boards, cursor.seq as u64).await?;
        drop(rows);
        // Not before the partition's last commit: another process' clock may have been ahead.
        let last = in_time(self.commit(cursor.seq)).await?;
        let last_ms = last.as_ref().map_or(0, |commit| commit.accepted_at_ms);
        let now_ms = self.clock.now_ms().max(last_ms);
        let standings = self.load_standings(&boards, now_ms).await?;
        self.put_rolled(recovery, &boards, standings, now_ms).await?;
        let seen_ms = self.load_seen(recovery, &boards).await?;
        let clock_ms = seen_ms.max(last.map_or(0, |commit| commit.clock_ms));
        self.load_entrants(recovery, boards.values()).await?;
        self.load_positions(recovery, &boards).await?;
        let epoch = cursor.epoch.unsigned_abs();
        Ok(recovery.finish((cursor.seq as u64, &cursor.commit_id), epoch, clock_ms, true).await?)
    }

    /// Closes the partition: no commit is accepted and no persister writes from here on. SQL gets
    /// the commits that the log has for it, unless they do not fit. Returns SQL's cursor then.
    pub(super) async fn close(self, recovery: &Recovery, fits: bool) -> Result<log_cursor::Model> {
        // The head goes first: from here on no commit is accepted and no persister starts.
        recovery.close().await?;
        // A persister that has started may still end. The next epoch waits for it or makes it fail.
        in_time(self.begin_epoch(recovery.run_id())).await?;
        loop {
            let cursor = in_time(self.accept_run(recovery.run_id(), 0)).await?;
            let found = recovery.find(cursor.seq as u64, &cursor.commit_id).await?;
            if found.descendants.is_empty() || !fits {
                return Ok(cursor);
            }
            let commits = one_transaction(found.descendants);
            in_time(self.persist_commits(&cursor, &commits)).await?;
        }
    }

    /// Puts standings into Redis, whose rolling windows have rolled to an instant.
    pub(super) async fn put_rolled(
        self,
        recovery: &Recovery,
        boards: &HashMap<BoardNo, Board>,
        standings: Vec<StandingsChange>,
        now_ms: i64,
    ) -> Result<()> {
        let rolled: BTreeSet<_> = standings
            .iter()
            .filter(|change| change.id.window.rolling().is_some())
            .map(|change| (change.id.board, change.id.series(), change.id.window))
            .collect();
        self.put_standings(recovery, standings).await?;
        let keys = self.store.keys();
        let mut writes = Writes::default();
        for (no, series, window) in rolled {
            let Some(board) = boards.get(&no) else {
                continue;
            };
            let begun_ms = window.period_at(now_ms, &board.rules.calendar)?.present_from_ms;
            let mark = RollMark { begun_ms, is_ready: true };
            writes.mark_roll(keys, self.no, no, &series, mark);
        }
        Ok(recovery.apply(&writes).await?)
    }

    /// The boards of which the partition may hold something, even if they were deleted: a shard, or
    /// what a move or a deletion leaves. All other rows are many and stay where they are.
    async fn boards(self) -> Result<Vec<board::Model>> {
        let (mut numbers, mut last) = (vec![], i64::MIN);
        loop {
            let page = in_time(board::shards_after(&self.db, last)).await?;
            let Some(&(end, _)) = page.last() else { break };
            last = end;
            let held = page.into_iter().filter(|&(no, shards)| {
                let shards = u16::try_from(shards).ok().filter(|shards| *shards > 0);
                let partitions = self.store.partitions();
                shards.is_none_or(|shards| partitions.holds(self.no, BoardNo(no), shards))
            });
            numbers.extend(held.map(|(no, _)| no));
        }
        let mut rows = vec![];
        for some in numbers.chunks(BOARDS_AT_ONCE) {
            rows.append(&mut in_time(board::of_numbers(&self.db, some)).await?);
        }
        Ok(rows)
    }

    /// The partition's entries, in rank order: those of `all` from the table `standing`, all
    /// others from events.
    async fn load_standings(
        self,
        boards: &HashMap<BoardNo, Board>,
        now_ms: i64,
    ) -> Result<Vec<StandingsChange>> {
        let mut all_time = AllTime::default();
        let mut blocks =
            Columns::of_standing(self.no, None).with(&["rank_key", "board_no"]).read(&self.db);
        while let Some(block) = in_time(blocks.try_next()).await? {
            for (segment, member, [key, no]) in block.rows(["rank_key", "board_no"])?.iter() {
                let board = no.and_then(|no| boards.get(&BoardNo(no)));
                if let Some(board) = board.filter(|board| !board.has_moved()) {
                    all_time.add(board, segment, member, key);
                }
            }
        }
        drop(blocks);
        let moved = || boards.values().filter(|board| board.has_moved());
        let voided = score_event::voided(&self.db, self.no, i64::MAX as u64);
        let mut voided = in_time(voided).await?;
        for board in moved() {
            voided.extend(in_time(score_event::voided_on(&self.db, board.no)).await?);
            let add = |segment: &str, member: &str, key| all_time.add(board, segment, member, key);
            self.each_standing(board, add).await?;
        }
        self.fold_unreadable(boards, &mut all_time).await?;
        let mut replay = Replay::without(voided, now_ms)
            .skipping_unfit()
            .skipping_before(sealed_before_ms(boards));
        // Missing archived events do not matter: they belong to no period that is loaded.
        let mut last = (0, 0);
        loop {
            let page = score_event::page_after(self.no, last, ROWS_MAX);
            let rows = in_time(page.all(&self.db)).await?;
            let Some(row) = rows.last() else { break };
            last = (row.seq, row.event_index);
            for row in rows {
                let board = boards.get(&BoardNo(row.board_no));
                if let Some(board) = board.filter(|board| !board.has_moved()) {
                    fold_row_or_skip(&mut replay, board, &row);
                }
            }
        }
        for board in moved() {
            let all = |_, _| i64::MAX;
            let fold = |row: &score_event::Model| {
                fold_row_or_skip(&mut replay, board, row);
                Ok(())
            };
            self.each_event(board, all, fold).await?;
        }
        let mut standings = all_time.into_changes();
        standings.append(&mut replay.changes()?);
        Ok(standings)
    }
}

/// The rules of the boards that are not deleted. One whose row cannot be read is left out: it must
/// not keep all others closed.
fn rules_of(rows: &[board::Model]) -> HashMap<BoardNo, Board> {
    let mut boards = HashMap::new();
    for row in rows.iter().filter(|row| row.deleted_at_ms.is_none()) {
        match row.to_ranking() {
            Ok(board) => {
                boards.insert(BoardNo(row.no), board);
            }
            Err(error) => {
                tracing::error!(board = row.slug, %error, "the row of a board cannot be read, so its standings are not loaded; mend the row, then rebuild the board");
            }
        }
    }
    boards
}

/// The instants before which events do not make periods of a window: sealed periods are in SQL.
/// `all` comes from `standing`, as some of its events may be in files.
fn sealed_before_ms(
    boards: &HashMap<BoardNo, Board>,
) -> impl Iterator<Item = ((BoardNo, Window), i64)> {
    boards.values().flat_map(|board| {
        let windows = board.added.iter();
        windows
            .map(|(&window, added)| ((board.no, window), added.sealed.sealed_before_ms))
            .chain([((board.no, Window::All), i64::MAX)])
    })
}
