//! A board's windows, added and dropped while people play.
//!
//! The row says first what is to be, in a new generation. Then every partition that the board lies in learns of the generation by a commit:
//! from there on, whoever writes without knowing of it is refused, so every later event is in a new window, and in no dropped one. What came
//! before is folded from SQL, staged, and put in place by a commit that also has what came meanwhile. Each step can be taken again.

use std::collections::BTreeSet;

use ranking::board::Board;
use ranking::board_mark::BoardMark;
use ranking::id::Partition;
use ranking::store::write::Writes;
use ranking::window::Window;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use tokio::time::{Duration, Instant};

use crate::board::{self, WindowRow, WindowState, windows_text};
use crate::change::{Change, Proposal, carry_out};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::fill::fill;
use crate::job;

/// How long a job of another process is taken to be still at it, in milliseconds. Two at once do no harm.
const JOB_ALONE_MS: i64 = 60_000;

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
