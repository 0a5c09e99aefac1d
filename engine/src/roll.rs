//! The roller moves rolling windows into their next period. When a period begins, its standings are
//! complete, as the roller has carried all members into them ahead of time.
//!
//! Each step is one commit, or nothing if another process already took it. So the roller can stop
//! anywhere, and any number of processes can run it.

mod carry;
mod series;

use self::carry::PLACES_MAX;
use self::series::Series;
use std::collections::{BTreeSet, HashMap};

use ranking::board::Board;
use ranking::roll::{RollMark, Rolls};
use ranking::standings_id::StandingsId;
use ranking::store::write::Writes;
use tokio::time::{Duration, Instant, timeout};

use crate::deployment::Deployment;
use crate::partition::Partition;
use entity::board;
use entity::error::Result;

/// The time limit of one commit.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time for the list of boards: on a silent connection no window would roll any more.
const BOARDS_TIMEOUT: Duration = Duration::from_secs(60);

/// Rolls every board's windows to an instant, and prepares the period after it. A board that fails
/// does not stop the others. Returns the number of boards with rolling windows.
///
/// # Errors
/// The last board's error; completed steps stay.
pub async fn roll(deployment: &Deployment, now_ms: i64) -> Result<usize> {
    let boards = timeout(BOARDS_TIMEOUT, board::all(&deployment.db)).await;
    let boards = boards.map_err(|_| {
        ranking::Error::Unavailable("the database took too long to list the boards".into())
    })??;
    let rolling: Vec<&Board> = boards.values().filter(|board| rolls(board)).collect();
    let mut places: Vec<(Partition<'_>, &Board)> = vec![];
    for &board in &rolling {
        let partitions = deployment.partitions_of(board);
        places.extend(partitions.into_iter().map(|partition| (partition, board)));
    }
    let mut failed = None;
    for places in places.chunks(PLACES_MAX) {
        let names: Vec<_> =
            places.iter().map(|(partition, board)| (partition.no, board.no)).collect();
        let marks = deployment.store.many_rolls(&names).await?;
        for (&(partition, board), marks) in places.iter().zip(marks) {
            if !is_due(board, &marks, now_ms)? {
                continue;
            }
            if let Err(error) = roll_in(partition, board, now_ms).await {
                failed = Some(error);
            }
        }
    }
    failed.map_or(Ok(rolling.len()), Err)
}

/// Rolls a board's windows to an instant.
pub async fn roll_board(deployment: &Deployment, board: &Board, now_ms: i64) -> Result<()> {
    if !rolls(board) {
        return Ok(());
    }
    for partition in deployment.partitions_of(board) {
        roll_in(partition, board, now_ms).await?;
    }
    Ok(())
}

fn rolls(board: &Board) -> bool {
    let mut windows = board.rules.windows.iter();
    windows.any(|window| window.rolling().is_some())
}

/// True if a board with these marks needs a step.
fn is_due(board: &Board, marks: &HashMap<String, RollMark>, now_ms: i64) -> Result<bool> {
    for (name, mark) in marks {
        if let Some(series) = Series::parse(board, name)
            && (!mark.is_ready || mark.begun_ms < series.at(now_ms)?.present_from_ms)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rolls a board's windows in one partition.
pub(crate) async fn roll_in(partition: Partition<'_>, board: &Board, now_ms: i64) -> Result<()> {
    let mut done = BTreeSet::new();
    loop {
        let marks = partition.rolls(board.no).await?;
        let mut left = marks.into_iter().filter(|(name, _)| !done.contains(name));
        let Some((name, mark)) = left.next() else {
            return Ok(());
        };
        let series = match Series::parse(board, &name) {
            Some(series) => series,
            // The window was dropped, or this process does not know it yet.
            None => {
                done.insert(name);
                continue;
            }
        };
        if !series.step(partition, mark, now_ms).await? {
            done.insert(name);
        }
    }
}

fn deadline() -> Instant {
    Instant::now() + COMMIT_TIMEOUT
}

/// Marks the series of a rolling window as complete up to the period after the present one.
pub fn mark_rolled(
    writes: &mut Writes,
    partition: Partition<'_>,
    board: &Board,
    id: &StandingsId,
    rolls: &Rolls,
) -> ranking::Result<()> {
    if id.window.rolling().is_some() {
        let begun = id.window.period_at(rolls.begun_ms(id), &board.rules.zone)?;
        let mark = RollMark { begun_ms: begun.present_from_ms, is_ready: true };
        writes.mark_roll(partition.store.keys(), partition.no, board.no, &id.series(), mark);
    }
    Ok(())
}

/// As [`mark_rolled`], unless the series already has a mark.
pub(crate) fn mark_new(
    writes: &mut Writes,
    partition: Partition<'_>,
    board: &Board,
    id: &StandingsId,
    rolls: &Rolls,
) -> ranking::Result<()> {
    if rolls.marks.contains_key(&id.series()) {
        return Ok(());
    }
    mark_rolled(writes, partition, board, id, rolls)
}
