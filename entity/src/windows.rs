//! A board's windows, added and dropped while people play.
//!
//! The row says first what is to be, in a new generation. Then every partition that the board lies in learns of the generation by a commit:
//! from there on, whoever writes without knowing of it is refused, so every later event is in a new window, and in no dropped one. What came
//! before is folded from SQL, staged, and put in place by a commit that also has what came meanwhile. Each step can be taken again.

use std::collections::BTreeSet;

use ranking::board::Board;
use ranking::commit::EventKind;
use ranking::id::{MemberId, Partition};
use ranking::key::StandingsId;
use ranking::rank_key::RankKey;
use ranking::replay::Replay;
use ranking::store::history::Tail;
use ranking::store::write::Writes;
use ranking::submission::{BoardMark, Periods, StandingsChange};
use ranking::window::Window;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use tokio::time::{Duration, Instant};

use crate::board::{self, WindowRow, WindowState, windows_text};
use crate::change::{Change, Proposal, carry_out};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::persist::descends;
use crate::recovery::settle;
use crate::{job, log_cursor, score_event};

/// How long a job of another process is taken to be still at it, in milliseconds. Two at once do no harm.
const JOB_ALONE_MS: i64 = 60_000;

/// How many events are read from SQL at once.
const ROWS_MAX: u64 = 10_000;

/// How much of the log is read at once; where there is more, SQL gets it first.
const TAIL_MAX: usize = 500;

/// How many keys one commit drops.
const KEYS_MAX: usize = 500;

/// How long one commit is tried for.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The windows besides `all` that a board is to have, as a new row would say it: those that it has stay as they are, new ones are to be
/// filled, those that are not named are to be dropped. `None` where nothing changes.
///
/// # Errors
/// `Corrupt` where the row is broken.
pub fn change(row: &board::Model, windows: &BTreeSet<Window>) -> Result<Option<Vec<WindowRow>>> {
    let generation = row.generation.unsigned_abs() + 1;
    let (mut rows, mut known, mut changes) = (vec![], BTreeSet::new(), false);
    for mut window in row.window_rows()? {
        let named: Window = window.name.parse()?;
        if window.state != WindowState::Dropped {
            known.insert(named);
            if !windows.contains(&named) {
                window.state = WindowState::Dropped;
                changes = true;
            }
        }
        rows.push(window);
    }
    for &window in windows
        .difference(&known)
        .filter(|&&window| window != Window::All)
    {
        rows.push(WindowRow::new(window, generation, WindowState::Filling));
        changes = true;
    }
    Ok(changes.then_some(rows))
}

/// The boards whose windows are being filled or dropped.
///
/// # Errors
/// Where SQL does not answer, or a row is broken.
pub async fn unfinished(deployment: &Deployment) -> Result<Vec<board::Model>> {
    let mut unfinished = vec![];
    for row in board::living()
        .filter(board::Column::Generation.gt(1))
        .all(&deployment.db)
        .await?
    {
        let windows = row.window_rows()?;
        if windows
            .iter()
            .any(|window| window.state != WindowState::Whole)
        {
            unfinished.push(row);
        }
    }
    Ok(unfinished)
}

/// Fills a board's new windows and takes dropped ones away, as a job; nothing where another process began it a moment ago. A window that
/// the history does not fit into is dropped again: late scores may have led out of its range.
///
/// # Errors
/// What the stores say, or where the board changes meanwhile: call it again.
pub async fn finish(deployment: &Deployment, row: &board::Model) -> Result<()> {
    let db = &deployment.db;
    let now_ms = crate::now_ms();
    let others = job::Entity::find()
        .filter(job::Column::BoardNo.eq(row.no))
        .filter(job::Column::State.eq("RUNNING"))
        .filter(job::Column::StartedAtMs.gt(now_ms - JOB_ALONE_MS));
    if others.count(db).await? > 0 {
        return Ok(());
    }
    let begun = job::ActiveModel {
        kind: Set("REBUILD".to_owned()),
        board_no: Set(Some(row.no)),
        state: Set("RUNNING".to_owned()),
        progress: Set(0.0),
        started_at_ms: Set(now_ms),
        ..Default::default()
    };
    let id = job::Entity::insert(begun).exec(db).await?.last_insert_id;
    let finished = fill_and_drop(deployment, row).await;
    let (state, summary) = match &finished {
        Ok(()) => ("DONE", "the windows are as the board says".to_owned()),
        Err(error) => ("FAILED", error.to_string()),
    };
    let ended = job::ActiveModel {
        id: Set(id),
        state: Set(state.to_owned()),
        progress: Set(if finished.is_ok() { 1.0 } else { 0.0 }),
        finished_at_ms: Set(Some(crate::now_ms())),
        summary: Set(Some(summary)),
        ..Default::default()
    };
    job::Entity::update(ended)
        .exec_without_returning(db)
        .await?;
    match finished {
        Err(Error::Ranking(ranking::Error::OutOfRange(reason))) => {
            tracing::error!(
                board = row.slug,
                reason,
                "the history does not fit into a new window: it is dropped"
            );
            let mut windows = row.window_rows()?;
            for window in windows
                .iter_mut()
                .filter(|window| window.state == WindowState::Filling)
            {
                window.state = WindowState::Dropped;
            }
            put_windows(deployment, row, &windows, row.generation + 1).await
        }
        finished => finished,
    }
}

/// Writes a board's windows, unless it is in another generation by now.
async fn put_windows(
    deployment: &Deployment,
    row: &board::Model,
    windows: &[WindowRow],
    generation: i32,
) -> Result<()> {
    let changed = board::ActiveModel {
        windows: Set(windows_text(windows)),
        generation: Set(generation),
        ..Default::default()
    };
    board::Entity::update_many()
        .set(changed)
        .filter(board::Column::No.eq(row.no))
        .filter(board::Column::Generation.eq(row.generation))
        .exec(&deployment.db)
        .await?;
    Ok(())
}

async fn fill_and_drop(deployment: &Deployment, row: &board::Model) -> Result<()> {
    let board = row.to_ranking()?;
    let mut partitions: Vec<Partition> = (0..board.rules.shards)
        .map(|shard| deployment.store.partitions().of(&board, shard))
        .collect();
    partitions.sort_unstable();
    partitions.dedup();
    for &partition in &partitions {
        let mut fence = Fence { board: &board };
        carry_out(
            deployment,
            partition,
            &mut fence,
            Instant::now() + COMMIT_TIMEOUT,
        )
        .await?;
    }
    let of_state = |state: WindowState| {
        let windows = row.window_rows()?.into_iter();
        windows
            .filter(|window| window.state == state)
            .map(|window| Ok((window.name.parse()?, window.since)))
            .collect::<Result<BTreeSet<(Window, u32)>>>()
    };
    let (filling, dropped) = (
        of_state(WindowState::Filling)?,
        of_state(WindowState::Dropped)?,
    );
    for &partition in &partitions {
        if !filling.is_empty() {
            fill(deployment, &board, partition, &filling).await?;
        }
        if !dropped.is_empty() {
            drop_keys(deployment, &board, partition, &dropped).await?;
        }
    }
    let whole: Vec<WindowRow> = row
        .window_rows()?
        .into_iter()
        .filter(|window| window.state != WindowState::Dropped)
        .map(|window| WindowRow {
            state: WindowState::Whole,
            ..window
        })
        .collect();
    put_windows(deployment, row, &whole, row.generation).await
}

/// The commit by which a partition learns of a board's generation.
struct Fence<'a> {
    board: &'a Board,
}

impl Change for Fence<'_> {
    type Outcome = ();

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<()>> {
        let tail = deployment
            .store
            .tail(partition, u64::MAX - 1, 1, self.board.no, None)
            .await?;
        let generation = self.board.generation;
        let known = match tail.board {
            BoardMark::Generation(known) if known <= generation => known == generation,
            _ => return Err(ranking::Error::BoardGone.into()),
        };
        let mut writes = Writes::default();
        let mark = BoardMark::Generation(generation);
        writes.mark_board(deployment.store.keys(), partition, self.board.no, mark);
        let commit = tail.head.next(crate::random_id(), crate::now_ms(), vec![]);
        Ok(Proposal {
            log_len: 0,
            commit: (!known).then_some((commit, writes)),
            head: tail.head,
            outcome: (),
        })
    }
}

/// Fills windows in one partition.
async fn fill(
    deployment: &Deployment,
    board: &Board,
    partition: Partition,
    windows: &BTreeSet<(Window, u32)>,
) -> Result<()> {
    loop {
        let mut filling = Filling::stage(deployment, board, partition, windows).await?;
        while !filling.left.is_empty() {
            let deadline = Instant::now() + COMMIT_TIMEOUT;
            let done = carry_out(deployment, partition, &mut filling, deadline).await?;
            if done.outcome == Filled::Again {
                break;
            }
            let some = filling.left.len().min(KEYS_MAX);
            filling.left.drain(..some);
        }
        if filling.left.is_empty() {
            return Ok(());
        }
    }
}

/// What an attempt to put staged standings in place came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// The first of those left are in place.
    Some,
    /// The log went on without us, or something was taken back: stage again.
    Again,
}

/// Windows' standings of one partition, staged up to a commit, with what came after it.
struct Filling<'a> {
    board: &'a Board,
    replay: Replay,
    /// How far the replay reaches.
    cursor: log_cursor::Model,
    /// The staged standings that are not in place yet: where their periods start, and their stages.
    left: Vec<(StandingsId, i64, String)>,
    /// The entries that came to differ from what was staged.
    touched: BTreeSet<(StandingsId, MemberId)>,
    periods: Periods,
}

impl<'a> Filling<'a> {
    async fn stage(
        deployment: &Deployment,
        board: &'a Board,
        partition: Partition,
        windows: &BTreeSet<(Window, u32)>,
    ) -> Result<Self> {
        let Deployment { db, store, .. } = deployment;
        settle(deployment, partition).await?;
        let cursor = log_cursor::Entity::find_by_id(i32::from(partition.0))
            .one(db)
            .await?
            .ok_or(ranking::Error::NotLevel(partition.0))?;
        let voided = score_event::voided(db, partition, cursor.seq as u64).await?;
        let mut replay = Replay::without(voided).only(windows.iter().map(|(window, _)| *window));
        let mut last = (0, 0);
        loop {
            let rows = score_event::page_after(partition, last, ROWS_MAX)
                .filter(score_event::Column::BoardNo.eq(board.no.0))
                .filter(score_event::Column::Seq.lte(cursor.seq))
                .all(db)
                .await?;
            let Some(row) = rows.last() else { break };
            last = (row.seq, row.event_index);
            for row in rows {
                replay.apply(board, row.place()?, &row.to_ranking()?)?;
            }
        }
        let (id, mut left) = (crate::random_id(), vec![]);
        for change in replay.changes()? {
            let entries = change.entries.into_iter();
            let mut pairs: Vec<(MemberId, RankKey)> = entries
                .filter_map(|(member, key)| Some((member, key?)))
                .collect();
            pairs.sort_unstable_by(|(a, a_key), (b, b_key)| (a_key, a).cmp(&(b_key, b)));
            let stage = store.stage(partition, &id, &change.id, &pairs).await?;
            left.push((change.id, change.start_ms, stage));
        }
        Ok(Self {
            board,
            replay,
            cursor,
            left,
            touched: BTreeSet::new(),
            periods: Periods::default(),
        })
    }

    /// Takes in what was committed since; whether it could.
    fn catch_up(&mut self, partition: Partition, tail: &Tail) -> ranking::Result<bool> {
        let end = tail.commits.last().map_or(
            (self.cursor.seq as u64, self.cursor.commit_id.clone()),
            |commit| (commit.seq, commit.id.clone()),
        );
        if !descends(&self.cursor, &tail.commits)
            || end != (tail.head.seq, tail.head.commit.clone())
        {
            return Ok(false);
        }
        for commit in &tail.commits {
            for (place, event) in commit.places(partition) {
                if event.board != self.board.no {
                    continue;
                }
                let EventKind::Score { at_ms, .. } = event.kind else {
                    return Ok(false);
                };
                self.replay.apply(self.board, place, event)?;
                let standings = self.periods.standings(self.board, &event.segments, at_ms)?;
                let touched = standings
                    .into_iter()
                    .map(|(id, _)| (id, event.member.clone()));
                self.touched.extend(touched);
            }
        }
        (self.cursor.seq, self.cursor.commit_id) = (end.0 as i64, end.1);
        Ok(true)
    }
}

impl Change for Filling<'_> {
    type Outcome = Filled;

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<Filled>> {
        let from = self.cursor.seq as u64;
        let tail = deployment
            .store
            .tail(partition, from, TAIL_MAX, self.board.no, None)
            .await?;
        tail.board.check(self.board)?;
        let log_len = tail.commits.len() as u64;
        if !self.catch_up(partition, &tail)? {
            return Ok(Proposal {
                head: tail.head,
                log_len,
                commit: None,
                outcome: Filled::Again,
            });
        }
        let keys = deployment.store.keys();
        let mut writes = Writes::default();
        for (id, start_ms, stage) in self.left.iter().take(KEYS_MAX) {
            writes.swap_in(stage, &keys.standings(partition, id));
            writes.note_period(keys, partition, id, *start_ms);
            let touched = self.touched.iter().filter(|(touched, _)| touched == id);
            let entries: Vec<_> = touched
                .map(|(_, member)| Ok((member.clone(), self.replay.key_of(id, member)?)))
                .collect::<ranking::Result<_>>()?;
            let change = StandingsChange {
                id: id.clone(),
                start_ms: *start_ms,
                entries,
            };
            writes.change(keys, partition, &change);
        }
        let commit = tail.head.next(crate::random_id(), crate::now_ms(), vec![]);
        Ok(Proposal {
            head: tail.head,
            log_len,
            commit: Some((commit, writes)),
            outcome: Filled::Some,
        })
    }
}

/// Takes the keys of dropped windows away in one partition.
async fn drop_keys(
    deployment: &Deployment,
    board: &Board,
    partition: Partition,
    dropped: &BTreeSet<(Window, u32)>,
) -> Result<()> {
    loop {
        let mut drop = Drop {
            board,
            dropped,
            left: false,
        };
        let deadline = Instant::now() + COMMIT_TIMEOUT;
        carry_out(deployment, partition, &mut drop, deadline).await?;
        if !drop.left {
            return Ok(());
        }
    }
}

/// A commit that drops keys of dropped windows.
struct Drop<'a> {
    board: &'a Board,
    dropped: &'a BTreeSet<(Window, u32)>,
    /// Whether there are more than one commit drops.
    left: bool,
}

impl Change for Drop<'_> {
    type Outcome = ();

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<()>> {
        let store = &deployment.store;
        let tail = store
            .tail(partition, u64::MAX - 1, 1, self.board.no, None)
            .await?;
        let mut found = vec![];
        for key in store.board_keys(partition, self.board.no).await? {
            let window = store.keys().window_of(partition, &key);
            if window.is_some_and(|window| self.dropped.contains(&window)) {
                found.push(key);
            }
        }
        self.left = found.len() > KEYS_MAX;
        let mut writes = Writes::default();
        for key in found.iter().take(KEYS_MAX) {
            writes.drop_key(key);
        }
        let commit = tail.head.next(crate::random_id(), crate::now_ms(), vec![]);
        Ok(Proposal {
            log_len: 0,
            commit: (!found.is_empty()).then_some((commit, writes)),
            head: tail.head,
            outcome: (),
        })
    }
}
