//! Many events of one board appended to a partition's history at once, without Redis' part in each.
//!
//! The partition is closed as for a recovery, so no commit and no persister comes between. SQL gets
//! commits as a persister would have written them, by its fastest statements, in transactions that
//! move the cursor from exactly where it was. Each also has the all-time rows that its events lead
//! to. Then Redis gets the board's standings and event ids, and the head last.
//!
//! A process that ends in the middle leaves a partition without a head. SQL has whole transactions
//! of it, and any other process loads the partition from there. The same events appended again go
//! on after the last one that SQL has.

mod chain;
mod copy;
pub mod marks;
mod writer;

use std::collections::HashMap;
use std::time::Duration;

use ranking::board::Board;
use ranking::commit::{Commit, Event, EventPlace};
use ranking::fold::replay::Replay;
use ranking::id::BoardNo;
use ranking::store::recovery::Recovery;
use ranking::store::write::Writes;
use ranking::submission::Wanted;
use ranking::submission::event_ids::seen_entry;
use sea_orm::{ColumnTrait, DbBackend, EntityTrait, QueryFilter, QuerySelect};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use self::chain::{Block, Chain};
use self::marks::MemberMarks;
use self::writer::Writer;
use crate::failpoint;
use crate::partition::Partition;
use crate::partition::recovery::{in_time, under_lease};
use crate::seal::correction::sealing_until_ms;
use entity::board;
use entity::error::Result;
use entity::history::{log_cursor, score_event};

/// Attempts to close a level partition: Redis may restart, or a commit may come in between.
const ATTEMPTS_MAX: usize = 8;

/// Blocks that are made while another one is written.
const BLOCKS_AHEAD: usize = 2;

/// Rows of the history that one SELECT compares with the events.
const ROWS_MAX: u64 = 5000;

/// The pause between two transactions on SQLite, which has one writer: others look for their turn
/// at most this far apart.
const TURN: Duration = Duration::from_millis(100);

/// The most keys that one step drops.
const KEYS_MAX: usize = 500;

/// Events to append, in order.
pub trait Source: Send + Sync {
    /// The next events, at most `count`; none at the end.
    ///
    /// # Errors
    /// If they cannot be read.
    fn next(&mut self, count: usize) -> ranking::Result<Vec<Event>>;
}

/// The events of one board that one partition appends.
pub struct Share {
    /// The board, as the events were checked against it.
    pub board: Board,
    /// The marks of members, as they were then.
    pub marks: MemberMarks,
    /// The earliest time of an event, in Unix milliseconds.
    pub first_at_ms: i64,
    /// The events.
    pub events: Box<dyn Source>,
}

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The events that were written.
    pub written: usize,
    /// The events that the history had already, from an append that was interrupted.
    pub known: usize,
}

impl Partition<'_> {
    /// Appends events to the partition's history and to the board's standings. Each call of
    /// `advance` has the number of events written since the call before.
    ///
    /// The partition is closed meanwhile, for all of its boards.
    ///
    /// # Errors
    /// `Invalid` if the board or a member changed since the events were checked, or if the
    /// partition has events of the board that are not the first ones of the share; `Unavailable` if
    /// a store fails. SQL then has whole transactions, and the call may be repeated.
    pub async fn append(self, share: Share, advance: &(dyn Fn(usize) + Sync)) -> Result<Appended> {
        for _ in 0..ATTEMPTS_MAX {
            self.settle().await?;
            // The deployment's clock, by which event ids are kept.
            let clock_ms = self.snapshot(&Wanted::default()).await?.clock_ms;
            let recovery = self.wait_for_recovery().await?;
            let closed = under_lease(&recovery, self.close_level(&recovery)).await?;
            let Some(cursor) = closed else {
                recovery.abandon().await?;
                continue;
            };
            failpoint::hit("append-closed");
            let append = self.append_closed(&recovery, cursor, clock_ms, share, advance);
            return under_lease(&recovery, append).await;
        }
        Err(ranking::Error::NotLevel(self.no.0).into())
    }

    /// Closes the partition if Redis has all that it had. Returns SQL's cursor then.
    async fn close_level(self, recovery: &Recovery) -> Result<Option<log_cursor::Model>> {
        in_time(self.take(recovery)).await?;
        let cursor = in_time(self.cursor_or_root()).await?;
        let seq = cursor.seq.unsigned_abs();
        let found = recovery.find(seq, &cursor.commit_id).await?;
        let is_whole = found.leads_on(seq, &cursor.commit_id) && !found.has_others;
        let is_whole = is_whole && !found.had_more(seq);
        let is_own = found
            .head
            .is_some_and(|head| cursor.accepts(&head) && head.deployment == *self.identity);
        match is_whole && is_own {
            true => self.close(recovery, true).await.map(Some),
            false => Ok(None),
        }
    }

    async fn append_closed(
        self,
        recovery: &Recovery,
        cursor: log_cursor::Model,
        clock_ms: i64,
        mut share: Share,
        advance: &(dyn Fn(usize) + Sync),
    ) -> Result<Appended> {
        let board = self.unchanged(&share).await?;
        let last = in_time(self.commit(cursor.seq)).await?;
        let last_ms = last.as_ref().map_or(0, |commit| commit.accepted_at_ms);
        let clock_ms = last.as_ref().map_or(clock_ms, |commit| commit.clock_ms.max(clock_ms));
        // As where the partition is loaded: not before its last commit.
        let now_ms = self.clock.now_ms().max(last_ms);
        let mut replay = Replay::without(Default::default(), now_ms);
        let fold = |place, event: &Event| replay.apply(&board, place, event);
        let known = self.take_known(&board, &mut *share.events, fold).await?;
        let chain = Chain::after(self, &cursor, (clock_ms, now_ms), board.clone(), replay);
        let (blocks, mut made) = mpsc::channel(BLOCKS_AHEAD);
        let events = share.events;
        let making = spawn_blocking(move || chain.make(events, &blocks));
        let written = self.write_all(recovery, cursor, &mut made, advance).await;
        drop(made);
        let replay = making.await.map_err(|error| {
            ranking::Error::Unavailable(format!("the events were not made into commits: {error}"))
        })?;
        let ((cursor, written), replay) = (written?, replay?);
        if written > 0 {
            if known > 0 {
                self.drop_standings(recovery, board.no).await?;
            }
            recovery.drop_log().await?;
            let boards = HashMap::from([(board.no, board)]);
            self.put_rolled(recovery, &boards, replay.changes()?, now_ms).await?;
            failpoint::hit("append-loaded");
        }
        let (tip, epoch) = ((cursor.seq as u64, &*cursor.commit_id), cursor.epoch.unsigned_abs());
        recovery.finish(tip, epoch, clock_ms, written > 0).await?;
        Ok(Appended { written, known })
    }

    /// The board as it is now.
    ///
    /// # Errors
    /// `Invalid` unless all that the events were checked against is as it was.
    async fn unchanged(self, share: &Share) -> Result<Board> {
        let changed = |what: &str| {
            let text = format!("{what} while the file was read: expected the same import again");
            ranking::Error::Invalid(text)
        };
        let no = share.board.no;
        let row = in_time(board::of_numbers(&self.db, &[no.0])).await?.pop();
        let row = row.filter(|row| row.deleted_at_ms.is_none() && row.reshard.is_none());
        let row = row.ok_or_else(|| changed("the board was deleted or moved"))?;
        let board = row.to_ranking()?;
        let is_settled = row.window_rows()?.iter().all(|window| window.is_settled());
        if board.generation != share.board.generation || !is_settled {
            return Err(changed("the windows of the board changed").into());
        }
        if share.first_at_ms < sealing_until_ms(&board) {
            return Err(changed("a period of the board was sealed").into());
        }
        if in_time(self.deployment.member_marks()).await? != share.marks {
            return Err(changed("a member was banned, merged or erased").into());
        }
        Ok(board)
    }

    /// The number of events of a board that the partition has, which must be the first ones of
    /// these.
    ///
    /// # Errors
    /// `Invalid` if the partition has others of the board.
    pub async fn count_known(self, board: &Board, events: &mut dyn Source) -> Result<usize> {
        self.settle().await?;
        self.take_known(board, events, |_, _| Ok(())).await
    }

    /// Takes the events of a board that the history has from a source, and hands them to `fold`.
    /// Returns their number.
    ///
    /// # Errors
    /// `Invalid` if the history has others of the board.
    async fn take_known(
        self,
        board: &Board,
        events: &mut dyn Source,
        mut fold: impl FnMut(EventPlace, &Event) -> ranking::Result<()>,
    ) -> Result<usize> {
        let of_board = || score_event::Column::BoardNo.eq(board.no.0);
        let any = score_event::Entity::find().select_only().column(score_event::Column::Seq);
        let any = any.filter(of_board()).limit(1).into_tuple::<i64>().one(&self.db);
        if in_time(any).await?.is_none() {
            return Ok(0);
        }
        let (mut last, mut known) = ((0, 0), 0);
        loop {
            let page = score_event::page_after(self.no, last, ROWS_MAX).filter(of_board());
            let rows = in_time(page.all(&self.db)).await?;
            let Some(row) = rows.last() else { return Ok(known) };
            last = (row.seq, row.event_index);
            let mut events = events.next(rows.len())?.into_iter();
            for row in rows {
                let (place, held) = (row.place()?, row.to_ranking()?);
                // The member may have other attributes by now.
                let same = events.next().map(|event| Event {
                    generation: held.generation,
                    segments: held.segments.clone(),
                    ..event
                });
                if same.as_ref() != Some(&held) {
                    return Err(ranking::Error::Invalid(format!(
                        "the board has an event {place} that this file does not have there: expected a board without events, or the file whose import was interrupted; an import without --bulk skips what the history holds"
                    ))
                    .into());
                }
                fold(place, &held)?;
                known += 1;
            }
        }
    }

    /// Writes blocks to SQL and their event ids to Redis. Returns SQL's cursor, and the number of
    /// events.
    async fn write_all(
        self,
        recovery: &Recovery,
        mut cursor: log_cursor::Model,
        made: &mut mpsc::Receiver<Block>,
        advance: &(dyn Fn(usize) + Sync),
    ) -> Result<(log_cursor::Model, usize)> {
        let (mut open, mut written, mut tip) = (None, 0, cursor.clone());
        while let Some(Block { commits, standings }) = made.recv().await {
            let mut writer = match open.take() {
                Some(writer) => writer,
                None => in_time(Writer::begin(&self.db)).await?,
            };
            let events = commits.iter().map(|commit| commit.events.len()).sum();
            tokio::try_join!(
                in_time(writer.write(self.no, &commits)),
                self.remember_ids(recovery, &commits)
            )?;
            if let Some(last) = commits.last() {
                (tip.seq, tip.commit_id) = (last.seq as i64, last.id.clone());
            }
            written += events;
            advance(events);
            let Some(standings) = standings else {
                open = Some(writer);
                continue;
            };
            in_time(writer.set_standings(standings)).await?;
            if !in_time(writer.move_cursor(&cursor, &tip)).await? {
                return Err(ranking::Error::NotLevel(self.no.0).into());
            }
            in_time(writer.commit()).await?;
            cursor = tip.clone();
            failpoint::hit("append-written");
            if self.db.get_database_backend() == DbBackend::Sqlite {
                sleep(TURN).await;
            }
        }
        // Without the end of its transaction, a block leaves nothing.
        Ok((cursor, written))
    }

    /// Puts the event ids of commits into Redis, a commit at a time.
    async fn remember_ids(self, recovery: &Recovery, commits: &[Commit]) -> Result<()> {
        for commit in commits {
            let of_event = |event| seen_entry(event, commit.accepted_at_ms, commit.seq);
            let seen: Vec<_> = commit.events.iter().filter_map(of_event).collect();
            let (mut writes, bucket) = (Writes::default(), self.dedup.bucket(commit.clock_ms));
            writes.set_seen(self.store.keys(), (self.no, bucket), &seen, self.dedup);
            recovery.apply(&writes).await?;
        }
        Ok(())
    }

    /// Drops the standings of a board that the partition has.
    async fn drop_standings(self, recovery: &Recovery, board: BoardNo) -> Result<()> {
        let mut keys = self.store.standings_keys(self.no, Some(board)).await?;
        keys.extend(self.store.periods_keys(self.no, board).await?);
        keys.push(self.store.keys().rolls(self.no, board));
        for some in keys.chunks(KEYS_MAX) {
            let mut writes = Writes::default();
            some.iter().for_each(|key| writes.drop_key(key));
            recovery.apply(&writes).await?;
        }
        Ok(())
    }
}
