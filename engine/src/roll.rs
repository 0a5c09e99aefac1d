//! The roller moves rolling windows into their next period. When a period begins, its standings are
//! complete, as the roller has carried all members into them ahead of time.
//!
//! Each step is one commit, or nothing if another process already took it. So the roller can stop
//! anywhere, and any number of processes can run it.

mod carry;
mod series;

use self::carry::PLACES_MAX;
use self::series::Series;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ranking::board::Board;
use ranking::id::BoardNo;
use ranking::standings_id::StandingsId;
use ranking::store::write::Writes;
use ranking::window::roll::{RollMark, Rolls};
use tokio::time::{Duration, Instant, timeout};

use crate::board::agenda::{Agenda, Work};
use crate::deployment::{Deployment, redis_health};
use crate::partition::Partition;
use entity::board;
use entity::error::{Error, Result};

/// The time limit of one commit.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long after the beginning of a period a board is looked at once more, in milliseconds. A
/// commit that was folded before may come in between, with a mark of the period before.
const SECOND_LOOK_MS: i64 = 5 * 60_000;

/// The longest time for the list of boards: on a silent connection no window would roll any more.
const BOARDS_TIMEOUT: Duration = Duration::from_secs(60);

/// Rolls every board's windows to an instant, and prepares the period after it. A board that fails
/// does not stop the others. Returns the number of boards with rolling windows.
///
/// # Errors
/// The last board's error; completed steps stay.
pub async fn roll(deployment: &Deployment, now_ms: i64) -> Result<usize> {
    let boards = in_time(board::all(&deployment.db)).await?;
    let rolling: Vec<&Board> = boards.values().filter(|board| rolls(board)).collect();
    let rolled = roll_boards(deployment, &rolling, now_ms).await?;
    rolled.failed.map_or(Ok(rolling.len()), Err)
}

/// As [`roll`], for the boards of an agenda that are due. A board that was found at the present is
/// due again when one of its windows comes to its next period, and some minutes after that.
///
/// # Errors
/// As [`roll`].
pub async fn roll_due(deployment: &Deployment, agenda: &Agenda, now_ms: i64) -> Result<()> {
    let mut failed = None;
    for entries in agenda.due(Work::Roll, now_ms).chunks(PLACES_MAX) {
        let numbers: Vec<i64> = entries.iter().map(|entry| entry.board).collect();
        let rows = in_time(board::living_of_numbers(&deployment.db, &numbers)).await?;
        let (mut boards, mut corrupt) = (BTreeMap::new(), BTreeSet::new());
        for row in rows.values() {
            match row.to_ranking() {
                Ok(board) => {
                    boards.insert(row.no, board);
                }
                Err(error) => {
                    corrupt.insert(row.no);
                    failed = Some(error.into());
                }
            }
        }
        let rolling: Vec<&Board> = boards.values().filter(|board| rolls(board)).collect();
        let rolled = roll_boards(deployment, &rolling, now_ms).await?;
        failed = rolled.failed.or(failed);
        for &entry in entries {
            // The next round finds out whether a board that took steps needs more of them.
            let is_late = rolled.late.contains(&BoardNo(entry.board));
            if is_late || corrupt.contains(&entry.board) {
                continue;
            }
            match boards.get(&entry.board).map_or(Ok(None), |board| next_ms(board, now_ms)) {
                Ok(next_ms) => agenda.put(Work::Roll, entry, next_ms),
                Err(error) => failed = Some(error.into()),
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The findings of [`roll_boards`].
#[derive(Debug, Default)]
struct Rolled {
    /// The boards that were not at the present before, or failed.
    late: BTreeSet<BoardNo>,
    /// The last error of a board.
    failed: Option<Error>,
}

/// Rolls boards with rolling windows.
async fn roll_boards(deployment: &Deployment, boards: &[&Board], now_ms: i64) -> Result<Rolled> {
    let mut rolled = Rolled::default();
    let mut places: Vec<(Partition<'_>, &Board)> = vec![];
    for &board in boards {
        for partition in deployment.partitions_of(board) {
            // It would let the others wait.
            if deployment.redis_health.is_away(&[partition.no]) {
                rolled.late.insert(board.no);
                rolled.failed = Some(redis_health::away().into());
            } else {
                places.push((partition, board));
            }
        }
    }
    for places in places.chunks(PLACES_MAX) {
        let names: Vec<_> =
            places.iter().map(|(partition, board)| (partition.no, board.no)).collect();
        let marks = match deployment.store.many_rolls(&names).await {
            Ok(marks) => marks,
            // A board that fails does not stop the others.
            Err(error) => {
                rolled.late.extend(names.iter().map(|(_, board)| *board));
                rolled.failed = Some(error.into());
                continue;
            }
        };
        for (&(partition, board), marks) in places.iter().zip(marks) {
            let due = marks.map_err(Error::from).and_then(|marks| is_due(board, &marks, now_ms));
            let done = match due {
                Ok(false) => continue,
                Ok(true) => roll_in(partition, board, now_ms, Goal::Next).await,
                Err(error) => Err(error),
            };
            // The next round looks again.
            rolled.late.insert(board.no);
            if let Err(error) = done {
                rolled.failed = Some(error);
            }
        }
    }
    Ok(rolled)
}

/// Waits for rows of boards, up to [`BOARDS_TIMEOUT`].
async fn in_time<T, E>(rows: impl Future<Output = Result<T, E>>) -> Result<T>
where
    Error: From<E>,
{
    let late = "the database took too long to list the boards";
    let rows = timeout(BOARDS_TIMEOUT, rows).await;
    Ok(rows.map_err(|_| ranking::Error::Unavailable(late.into()))??)
}

/// The instant of the next look at a board, in Unix milliseconds: [`SECOND_LOOK_MS`] after one of
/// its rolling windows came to its present period, or when the first comes to its next one. `None`
/// if it has none.
fn next_ms(board: &Board, now_ms: i64) -> ranking::Result<Option<i64>> {
    let windows = board.rules.windows.iter().filter_map(|window| window.rolling());
    let mut looks = BTreeSet::new();
    for rolling in windows {
        let period = rolling.base().period_at(now_ms, &board.rules.calendar)?;
        let second_ms = period.start_ms + SECOND_LOOK_MS;
        looks.extend(if now_ms < second_ms { Some(second_ms) } else { period.end_ms });
    }
    Ok(looks.first().copied())
}

/// Rolls a board's windows to an instant, and prepares the periods after it.
pub async fn roll_board(deployment: &Deployment, board: &Board, now_ms: i64) -> Result<()> {
    roll_to(deployment, board, now_ms, Goal::Next).await
}

/// Rolls a board's windows to a goal.
pub(crate) async fn roll_to(
    deployment: &Deployment,
    board: &Board,
    now_ms: i64,
    goal: Goal,
) -> Result<()> {
    if !rolls(board) {
        return Ok(());
    }
    for partition in deployment.partitions_of(board) {
        roll_in(partition, board, now_ms, goal).await?;
    }
    Ok(())
}

/// How far windows are rolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The present period is complete: all that a read or a commit waits for.
    Present,
    /// So is the one after it, which takes a walk through all members.
    Next,
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
pub(crate) async fn roll_in(
    partition: Partition<'_>,
    board: &Board,
    now_ms: i64,
    goal: Goal,
) -> Result<()> {
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
        let has_begun = mark.begun_ms >= series.at(now_ms)?.present_from_ms;
        let is_there = goal == Goal::Present && has_begun;
        if is_there || !series.step(partition, mark, now_ms).await? {
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
        let begun = id.window.period_at(rolls.begun_ms(id), &board.rules.calendar)?;
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
