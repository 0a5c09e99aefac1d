//! The next step of a board's seal, and the instant of the one after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::window::seal::{NEVER_MS, RETAIN_MAX, kept_from_ms};
use ranking::window::{Period, Window};

use super::BOARDS_MAX;
use crate::board::agenda::{AT_ONCE_MS, Agenda, Work};
use crate::deployment::{Deployment, redis_health};
use crate::webhook::ended::GRACE_MS;
use entity::board::{self, WindowRow};
use entity::error::Result;

/// How long a board that failed is not looked at, in milliseconds.
const FAILED_AGAIN_MS: i64 = 10_000;

/// The next step of a window's seal.
pub(super) enum Step {
    /// Record in the board's row that periods before an instant are being sealed.
    Decide(i64),
    /// Mark, copy, and record in the row that they are sealed.
    Copy(i64),
    /// Drop the sealed periods from Redis.
    Drop(i64),
}

/// The next step of a board.
pub(super) struct Due {
    pub(super) board: Board,
    pub(super) windows: Vec<WindowRow>,
    /// The window that the step is for.
    pub(super) index: usize,
    pub(super) step: Step,
}

/// The outlook of a board.
pub(super) enum Outlook {
    /// It has a step to take.
    Now(Box<Due>),
    /// It may have one from an instant on, in Unix milliseconds; `None` for not before its row
    /// changes.
    From(Option<i64>),
}

/// The boards of the agenda for which [`super::seal_boards`] finds work at an instant: at most
/// [`BOARDS_MAX`]. Notes in the agenda when the others are to be looked at again.
///
/// # Errors
/// The error of the last board that failed, if no other one is due.
pub async fn boards(
    deployment: &Deployment,
    agenda: &Agenda,
    now_ms: i64,
) -> Result<Vec<board::Model>> {
    let (mut found, mut failed) = (vec![], None);
    for entries in agenda.due(Work::Seal, now_ms).chunks(BOARDS_MAX) {
        let numbers: Vec<i64> = entries.iter().map(|entry| entry.board).collect();
        let mut rows = board::living_of_numbers(&deployment.db, &numbers).await?;
        for &entry in entries {
            let Some(row) = rows.remove(&entry.board) else {
                agenda.put(Work::Seal, entry, None);
                continue;
            };
            match outlook(deployment, &row, now_ms).await {
                Ok(Outlook::Now(_)) => {
                    // Next time it comes after boards that were not looked at yet.
                    agenda.put(Work::Seal, entry, Some(AT_ONCE_MS));
                    found.push(row);
                }
                Ok(Outlook::From(next_ms)) => agenda.put(Work::Seal, entry, next_ms),
                // A board that fails does not stop the others, and comes after them next time.
                Err(error) => {
                    agenda.put(Work::Seal, entry, Some(now_ms + FAILED_AGAIN_MS));
                    failed = Some(error);
                }
            }
            if found.len() == BOARDS_MAX {
                return Ok(found);
            }
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

/// The next step of a board, or when there may be one.
pub(super) async fn outlook(
    deployment: &Deployment,
    row: &board::Model,
    now_ms: i64,
) -> Result<Outlook> {
    let (board, windows) = (row.to_ranking()?, row.window_rows()?);
    // Fills, drops and moves to another number of shards go first; each ends with a change of the
    // row.
    if !windows.iter().all(WindowRow::is_settled) || row.reshard.is_some() {
        return Ok(Outlook::From(None));
    }
    let mut times = BTreeSet::new();
    for (index, window) in windows.iter().enumerate() {
        if window.retained() < RETAIN_MAX {
            let named: Window = window.name.parse()?;
            times.extend(named.period_at(now_ms, &board.rules.calendar)?.end_ms);
        }
        let Some(mut step) = step(window, &board, now_ms)? else {
            continue;
        };
        if let Step::Decide(before_ms) = &mut step {
            let open = Open::read(deployment, &board, window.name.parse()?, now_ms).await?;
            *before_ms = open.from_ms.min(*before_ms);
            if *before_ms <= window.sealed().sealing_before_ms {
                times.extend(open.next_ms);
                continue;
            }
        }
        return Ok(Outlook::Now(Box::new(Due { board, windows, index, step })));
    }
    Ok(Outlook::From(times.first().copied()))
}

/// The periods of a window that are still needed.
struct Open {
    /// The instant from which on they are: a rolling window needs its last begun period and all
    /// after it; its base window needs all that this period covers, and all that the present one
    /// covers, with which the series of a segment may begin. In Unix milliseconds.
    from_ms: i64,
    /// The instant of the next look if they are all that is left, in Unix milliseconds: at once
    /// while a rolling window has not begun the present period everywhere.
    next_ms: Option<i64>,
}

impl Open {
    async fn read(
        deployment: &Deployment,
        board: &Board,
        window: Window,
        now_ms: i64,
    ) -> Result<Self> {
        // The attempts of a period count for as long as its scores do.
        let window = window.of_periods();
        let mut open = Self { from_ms: i64::MAX, next_ms: None };
        let is_made_of = |other: &Window| match other.rolling() {
            Some(rolling) => *other == window || rolling.base() == window,
            None => false,
        };
        let calendar = &board.rules.calendar;
        let rolling: Vec<Window> = board.rules.windows.iter().copied().filter(is_made_of).collect();
        if rolling.is_empty() {
            return Ok(open);
        }
        for &made in rolling.iter().filter(|rolling| **rolling != window) {
            let first = first_period(board, made, now_ms)?;
            open.from_ms = open.from_ms.min(first.start_ms);
            let next_ms = first.end_ms.map(|end_ms| end_ms.saturating_add(GRACE_MS));
            open.next_ms = open.next_ms.into_iter().chain(next_ms).min();
        }
        let partitions = deployment.partitions_of(board);
        let numbers: Vec<PartitionNo> = partitions.iter().map(|partition| partition.no).collect();
        if deployment.redis_health.is_away(&numbers) {
            return Err(redis_health::away().into());
        }
        for partition in partitions {
            let marks = partition.rolls(board.no).await?;
            for &rolling in &rolling {
                let suffix = format!(":{rolling}");
                for (_, mark) in marks.iter().filter(|(name, _)| name.ends_with(&suffix)) {
                    let begun = rolling.period_at(mark.begun_ms, calendar)?;
                    if begun.end_ms.is_some_and(|end_ms| end_ms <= now_ms) {
                        open.next_ms = Some(AT_ONCE_MS);
                    }
                    open.from_ms = open.from_ms.min(match rolling == window {
                        true => begun.present_from_ms,
                        false => begun.start_ms,
                    });
                }
            }
        }
        Ok(open)
    }
}

/// The first period with which a series of a rolling window may still begin: a submission that is
/// under way takes that of its own instant.
pub(crate) fn first_period(board: &Board, rolling: Window, now_ms: i64) -> Result<Period> {
    let begun_ms = now_ms.saturating_sub(GRACE_MS).max(0);
    Ok(rolling.period_at(begun_ms, &board.rules.calendar)?)
}

/// True if a window may need a step, now or later.
pub(crate) fn may_be_due(window: &WindowRow) -> bool {
    window.retained() < RETAIN_MAX || window.sealing_before_ms != window.dropped_before_ms
}

/// The next step of a window; an unfinished seal comes first.
fn step(window: &WindowRow, board: &Board, now_ms: i64) -> Result<Option<Step>> {
    let sealed = window.sealed();
    if sealed.sealing_before_ms > sealed.sealed_before_ms {
        return Ok(Some(Step::Copy(sealed.sealing_before_ms)));
    }
    if sealed.sealed_before_ms > window.dropped_before_ms.unwrap_or(NEVER_MS) {
        return Ok(Some(Step::Drop(sealed.sealed_before_ms)));
    }
    let due_ms = due_ms(window, board, now_ms)?;
    Ok(due_ms.filter(|&due_ms| due_ms > sealed.sealing_before_ms).map(Step::Decide))
}

/// The instant before which a window's periods are to be sealed. Callers ask again and again, so
/// the last answers are cached.
fn due_ms(window: &WindowRow, board: &Board, now_ms: i64) -> Result<Option<i64>> {
    /// Zone, reset hour, first day of the week, window and retain, with the start of the present
    /// period and the answer.
    type Answers = BTreeMap<(String, u8, i8, Window, u32), (i64, Option<i64>)>;
    static LAST: LazyLock<Mutex<Answers>> = LazyLock::new(Mutex::default);
    let (rule, retain): (Window, _) = (window.name.parse()?, window.retained());
    let calendar = &board.rules.calendar;
    if retain == RETAIN_MAX {
        return Ok(None);
    }
    // The seasons of a board are no rule that others share, and are found at once.
    if rule.has_seasons() {
        return Ok(kept_from_ms(rule, calendar, now_ms, retain)?);
    }
    let present_ms = Window::period_at(rule, now_ms, calendar)?.present_from_ms;
    let zone = calendar.zone.iana_name().unwrap_or_default().to_owned();
    let week_start = calendar.week_start.to_monday_one_offset();
    let asked = (zone, calendar.reset_hour, week_start, rule, retain);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&(at_ms, due_ms)) = last.get(&asked)
        && at_ms == present_ms
    {
        return Ok(due_ms);
    }
    let due_ms = kept_from_ms(rule, calendar, now_ms, retain)?;
    if last.len() > 10_000 {
        last.clear();
    }
    last.insert(asked, (present_ms, due_ms));
    Ok(due_ms)
}
