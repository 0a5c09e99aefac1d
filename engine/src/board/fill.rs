//! Filling new windows: the history is folded event by event and swapped in, one partition at a
//! time, without stopping writers.

use std::collections::BTreeSet;

use ranking::board::Board;
use ranking::fold::replay::Replay;
use ranking::window::Window;

use crate::partition::Partition;
use crate::partition::home::fold_row;
use crate::stage::{Staged, Step};
use entity::error::Result;
use entity::history::score_event;

/// The number of attempts before the background work turns to something else.
const STAGES_MAX: usize = 5;

/// The most standings that one commit swaps in.
const STANDINGS_MAX: usize = 500;

/// Fills windows in one partition.
pub(crate) async fn fill(
    partition: Partition<'_>,
    board: &Board,
    windows: &BTreeSet<(Window, u32)>,
) -> Result<()> {
    let mark = partition.archive_mark(board.no).await?;
    // The archive has no event of a season that is not sealed.
    let is_of_archive = |(window, _): &(Window, u32)| !window.has_seasons();
    if mark.closing_seq > 0 && windows.iter().any(is_of_archive) {
        return Err(ranking::Error::Corrupt(format!(
            "board {} has windows to fill, but events of it are archived",
            board.no
        ))
        .into());
    }
    for _ in 0..STAGES_MAX {
        let shown = windows.iter().map(|(window, _)| *window).collect();
        let mut staged = Staged::begin(partition, board, shown).await?;
        let filled = stage_and_put(partition, board, &mut staged).await;
        staged.discard().await;
        if filled? == Step::Done {
            return Ok(());
        }
    }
    Err(ranking::Error::Unavailable(
        "Redis restarts or a rolling window moves on each time a window is filled; try again later"
            .into(),
    )
    .into())
}

/// Folds the history from SQL, and swaps it in together with later events.
async fn stage_and_put(
    partition: Partition<'_>,
    board: &Board,
    staged: &mut Staged<'_>,
) -> Result<Step> {
    let replay = replay(partition, board, staged).await?;
    for change in replay.changes()? {
        let (id, entries) = (change.id.clone(), change.entries_set());
        let period = id.window.period_named(&id.period, &board.rules.calendar)?;
        let loaded = staged.load(id, period, entries.len(), |index| entries[index]).await?;
        staged.add(loaded)?;
    }
    drop(replay);
    if !staged.catch_up().await? {
        return Ok(Step::Stale);
    }
    loop {
        match staged.put(STANDINGS_MAX).await? {
            Step::GoesOn => {}
            // A season that was taken back may have entries.
            Step::Done if staged.windows().contains(&Window::Season) => {
                return staged.drop_others().await;
            }
            step => return Ok(step),
        }
    }
}

/// Folds the history in SQL up to the head of the stage.
async fn replay(partition: Partition<'_>, board: &Board, staged: &Staged<'_>) -> Result<Replay> {
    let (db, seq) = (&partition.db, staged.head().seq);
    let voided = match board.has_moved() {
        true => score_event::voided_on(db, board.no).await?,
        false => score_event::voided(db, partition.no, seq).await?,
    };
    let replay = Replay::without(voided, staged.rolls().now_ms);
    let replay = replay.rolled(board.no, staged.rolls().clone());
    let mut replay = replay.only(staged.windows().iter().copied());
    // No more events are added to former layouts.
    let is_present = |layout: usize| layout == board.layout();
    let through = |layout, _| {
        if is_present(layout) { seq as i64 } else { i64::MAX }
    };
    partition.each_event(board, through, |row| fold_row(&mut replay, board, row)).await?;
    Ok(replay)
}
