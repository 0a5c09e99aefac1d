//! Adding and dropping a board's windows without stopping writers.
//!
//! The board's row records the new windows first, in a new generation. Then a commit tells every
//! partition of the board about the generation. From there on, writers that do not know of it are
//! refused. So every later event counts in the new windows, and in no dropped one. Earlier events
//! are folded from SQL, staged, and swapped in by a commit that also covers what came since. Each
//! step can be repeated.

use std::collections::{BTreeMap, BTreeSet};

use ranking::board::mark::BoardMark;
use ranking::board::rules::bases;
use ranking::window::Window;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};

use crate::board::fill::fill;
use crate::board::season;
use crate::deployment::Deployment;
use crate::job::{self, Begun};
use crate::seal;
use entity::board::{self, WindowRow, WindowState, windows_text};
use entity::error::{Error, Result};

/// The pause after a failed job, in milliseconds.
const JOB_AGAIN_MS: i64 = 10_000;

/// The windows that a board's row is to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The windows besides `all`.
    pub windows: Vec<WindowRow>,
    /// The generation; a new one if windows are added or dropped.
    pub generation: u32,
}

/// Plans a change of a board's windows. `windows` lists those that the board is to have besides
/// `all`, with the past periods that they retain where the client says so.
///
/// Present windows stay as they are, new ones are to be filled, and those that are not listed are
/// to be dropped. A window of attempts goes with the window that it counts. Where a new rolling
/// window is made of periods that are sealed, its base and all that is made of it are filled
/// again, as if they were dropped and added. `None` if nothing changes.
///
/// # Errors
/// `Invalid` for a new window of a board with archived events, as it could not be filled. `Corrupt`
/// if the row is invalid.
pub fn change(
    row: &board::Model,
    windows: &BTreeMap<Window, Option<u32>>,
    now_ms: i64,
) -> Result<Option<Changed>> {
    let generation = row.generation.unsigned_abs() + 1;
    let (mut rows, mut known, mut changes) = (vec![], BTreeSet::new(), false);
    let shown: BTreeSet<Window> = windows.keys().copied().collect();
    let needed: BTreeSet<Window> = shown.union(&bases(&shown)).copied().collect();
    let is_needed = |window: Window| match window.counted() {
        Some(counted) => counted == Window::All || shown.contains(&counted),
        None => needed.contains(&window),
    };
    let is_hidden = |window: Window| !shown.contains(&window);
    let again = to_fill_again(row, &shown, now_ms)?;
    let (mut retains, mut retained) = (false, BTreeMap::new());
    for mut window in row.window_rows()? {
        let named: Window = window.name.parse()?;
        if window.state != WindowState::Dropped {
            retained.insert(named, window.retained());
            if !is_needed(named) || again.contains(&named) {
                window.state = WindowState::Dropped;
                changes = true;
                rows.push(window);
                continue;
            }
            known.insert(named);
            if window.hidden != is_hidden(named) {
                window.hidden = is_hidden(named);
                changes = true;
            }
            if let Some(&Some(retain)) = windows.get(&named.of_periods())
                && retain != window.retained()
            {
                window.retain = retain;
                retains = true;
            }
        }
        rows.push(window);
    }
    let added: Vec<Window> = needed
        .into_iter()
        .filter(|window| *window != Window::All && !known.contains(window))
        .collect();
    let first = added.iter().find(|window| !again.contains(window));
    if let (Some(window), Some(_)) = (first, row.archived_before_ms) {
        return Err(ranking::Error::Invalid(format!(
            "invalid window \"{window}\": expected only windows that the board has, as it has archived events and a new window could not be filled"
        ))
        .into());
    }
    for window in added {
        let mut new = WindowRow::new(window, generation, WindowState::Filling);
        let asked = windows.get(&window).copied().flatten();
        let retain = asked.or(retained.get(&window).copied().filter(|_| again.contains(&window)));
        new.retain = retain.unwrap_or(new.retain);
        new.hidden = is_hidden(window);
        rows.push(new);
        changes = true;
    }
    let changed = Changed { windows: rows, generation: generation - u32::from(!changes) };
    Ok((changes || retains).then_some(changed))
}

/// The bases of new rolling windows that have sealed periods which those cover, and the rolling
/// windows that are made of them. The steps of a rolling window take what leaves it from Redis.
fn to_fill_again(
    row: &board::Model,
    shown: &BTreeSet<Window>,
    now_ms: i64,
) -> Result<BTreeSet<Window>> {
    let board = row.to_ranking()?;
    let present = &board.rules.windows;
    let mut again = BTreeSet::new();
    for &new in shown.iter().filter(|window| !present.contains(window)) {
        let Some(rolling) = new.rolling() else { continue };
        let base = rolling.base();
        let covered = seal::due::first_period(&board, new, now_ms)?;
        if covered.start_ms < board.sealed(base).sealing_before_ms {
            let is_made_of = |window: &Window| {
                *window == base || window.rolling().is_some_and(|of| of.base() == base)
            };
            again.extend(present.iter().copied().filter(is_made_of));
        }
    }
    Ok(again)
}

/// Those of some boards, by number, that have windows to fill or drop; and the error of the last
/// board whose row is corrupt.
///
/// # Errors
/// If SQL fails.
pub async fn unfinished(
    deployment: &Deployment,
    numbers: &[i64],
) -> Result<(Vec<board::Model>, Option<Error>)> {
    let (mut unfinished, mut failed) = (vec![], None);
    for row in board::living_of_numbers(&deployment.db, numbers).await?.into_values() {
        match row.window_rows() {
            Ok(windows) if windows.iter().all(WindowRow::is_settled) || row.reshard.is_some() => {}
            Ok(_) => unfinished.push(row),
            Err(error) => failed = Some(error.into()),
        }
    }
    Ok((unfinished, failed))
}

/// Fills a board's new windows and removes dropped ones, as a job. Does nothing if another job
/// rebuilds its standings, or if the job failed a moment ago. If the history does not fit into a
/// window, as late scores may exceed its range, the window is dropped again; so is a season.
///
/// # Errors
/// If a store fails, or the board changes in between; call it again.
pub async fn finish(deployment: &Deployment, row: &board::Model) -> Result<()> {
    let (db, kind) = (&deployment.db, entity::job::REBUILD);
    let since_ms = deployment.clock.now_ms() - JOB_AGAIN_MS;
    if job::failed_since(db, kind, Some(row.no), since_ms).await? {
        return Ok(());
    }
    let Begun::Running(job) = job::begin(db, &deployment.clock, kind, Some(row.no)).await? else {
        return Ok(());
    };
    // The row may have changed while another job was running.
    let row = match board::find(db, row.no).await? {
        Some(row) if row.deleted_at_ms.is_none() && row.reshard.is_none() => row,
        _ => return job.end(Ok("the board has changed")).await,
    };
    let finished = fill_and_drop(deployment, &row).await;
    let reason = finished.as_ref().err().map(ToString::to_string);
    let outcome = reason.as_deref().map_or(Ok("the windows match the board's row"), Err);
    job.end(outcome).await?;
    match finished {
        Err(Error::Ranking(ranking::Error::OutOfRange(reason))) => {
            tracing::error!(
                board = row.slug,
                reason,
                "the history does not fit into a new window or season; it is dropped"
            );
            let mut windows = row.window_rows()?;
            for window in &mut windows {
                let seasons = window.seasons.iter_mut().map(|season| &mut season.state);
                for state in seasons.chain([&mut window.state]) {
                    if *state == WindowState::Filling {
                        *state = WindowState::Dropped;
                    }
                }
            }
            put_windows(deployment, &row, &windows, row.generation + 1).await
        }
        finished => finished,
    }
}

/// Writes a board's windows, unless the board has changed.
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
        .filter(board::Column::Windows.eq(&row.windows))
        .exec(&deployment.db)
        .await?;
    Ok(())
}

async fn fill_and_drop(deployment: &Deployment, row: &board::Model) -> Result<()> {
    let board = row.to_ranking()?;
    let partitions = deployment.partitions_of(&board);
    let generation = BoardMark::Generation(board.generation);
    for &partition in &partitions {
        partition.mark(board.no, generation).await?;
    }
    let of_state = |state: WindowState| {
        let windows = row.window_rows()?.into_iter();
        windows
            .filter(|window| window.state == state)
            .map(|window| Ok((window.name.parse()?, window.since)))
            .collect::<Result<BTreeSet<(Window, u32)>>>()
    };
    let (mut filling, dropped) = (of_state(WindowState::Filling)?, of_state(WindowState::Dropped)?);
    if of_state(WindowState::Whole)?.iter().any(|(window, _)| !board.is_whole(*window)) {
        for &partition in &partitions {
            partition.settle().await?;
        }
        if season::needs_fill(deployment, row).await? {
            let windows = board.rules.windows.iter().filter(|window| window.has_seasons());
            filling.extend(windows.map(|&window| (window, board.generation_of(window))));
        }
    }
    for &partition in &partitions {
        if !filling.is_empty() {
            fill(partition, &board, &filling).await?;
        }
        if !dropped.is_empty() {
            let keys = deployment.store.keys();
            let is_dropped = |key: &str| {
                let window = keys.window_of(partition.no, key);
                window.is_some_and(|window| dropped.contains(&window))
            };
            partition.drop_keys(&board, is_dropped).await?;
        }
    }
    for window in dropped {
        if seal::has(deployment, board.no, window.0).await? {
            // Once SQL has those commits, no persister corrects the sealed standings of dropped
            // windows.
            for &partition in &partitions {
                partition.settle().await?;
            }
            seal::purge(deployment, board.no, Some(window)).await?;
        }
    }
    let whole: Vec<WindowRow> = row
        .window_rows()?
        .into_iter()
        .filter(|window| window.state != WindowState::Dropped)
        .map(WindowRow::settled)
        .collect();
    put_windows(deployment, row, &whole, row.generation).await
}
