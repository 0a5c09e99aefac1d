//! The windows that a board is to have, as a client lists them.

use std::collections::BTreeMap;

use async_graphql::InputObject;
use entity::board::{self, WindowState};
use ranking::board::attempts::{ATTEMPTS_MAX, check_limit};
use ranking::window::Window;
use ranking::window::seal::RETAIN_MAX;

use crate::error::{Error, Result};

/// A window of a board.
#[derive(InputObject)]
pub struct WindowInput {
    /// "hourly", "daily", "weekly", "monthly", "quarterly" or "yearly"; or "season", whose periods
    /// `addSeason` lists; or a rolling window of 1 to
    /// 366 hours, days, weeks or months, the present one included: "24h", "7d", "12w", "3mo"; or a
    /// window in which scores lose half their weight in every 1 to 366 hours, days or weeks:
    /// "decay:12h", "decay:7d". The last kind needs policy SUM and direction HIGH_FIRST. "all" may
    /// be listed for its `attemptsMax`.
    name: String,
    /// The number of past periods kept in Redis besides the present one, 0 to 1,000,000. 1,000,000
    /// is in effect all, and the default of a new window. Older periods are sealed: their final
    /// standings move to SQL, where late scores correct them. A greater number does not bring
    /// sealed periods back. If it is absent, a window that the board already has keeps its number.
    retain: Option<i32>,
    /// The most scores that the board accepts of a member in each period of the window, 1 to
    /// 1,000,000; no limit by default. The next one is rejected with ATTEMPTS_EXHAUSTED. A score
    /// counts in the period of its `at`; a voided score gives its attempt back, and after
    /// `removeEntry` the member has all of them again. Not for rolling and decaying windows. It can
    /// be given in `createBoard` only.
    attempts_max: Option<i32>,
}

/// The listed windows, each with the number of past periods to retain, if given.
pub(super) fn retained(windows: &[WindowInput]) -> Result<BTreeMap<Window, Option<u32>>> {
    let mut retained = BTreeMap::new();
    for (index, window) in windows.iter().enumerate() {
        let of = |argument: &str| format!("windows[{index}].{argument}");
        let named = requested(window, index)?;
        let retain = window.retain.map(|retain| check_retain(named, retain)).transpose();
        let retain = retain.map_err(|error| error.at(of("retain")))?;
        if retained.insert(named, retain).is_some() {
            return Err(Error::bad_input("a window is named twice: expected each window once"));
        }
    }
    Ok(retained)
}

/// The limits of attempts that the listed windows are to have.
pub(super) fn attempts(windows: &[WindowInput]) -> Result<BTreeMap<Window, u32>> {
    let mut attempts = BTreeMap::new();
    for (index, window) in windows.iter().enumerate() {
        let Some(asked) = window.attempts_max else { continue };
        let at = |error: Error| error.at(format!("windows[{index}].attemptsMax"));
        let max = u32::try_from(asked).map_err(|_| {
            let message = format!("invalid attemptsMax {asked}: expected 1 to {ATTEMPTS_MAX}");
            at(Error::bad_input(message))
        })?;
        let named = requested(window, index)?;
        check_limit(named, max).map_err(|error| at(error.into()))?;
        attempts.insert(named, max);
    }
    Ok(attempts)
}

/// Checks that an update leaves the limits of attempts as a board has them: processes that knew
/// another limit would go on to accept scores by it.
pub(super) fn check_attempts(windows: &[WindowInput], row: &board::Model) -> Result<()> {
    let rows = row.window_rows()?;
    for (index, window) in windows.iter().enumerate() {
        let Some(asked) = window.attempts_max else { continue };
        let counts = requested(window, index)?.attempts().map(|counts| counts.to_string());
        let known = rows
            .iter()
            .find(|row| row.state != WindowState::Dropped && Some(&row.name) == counts.as_ref());
        let known = known.and_then(|row| row.attempts_max);
        if known.map(i64::from) != Some(i64::from(asked)) {
            let expected = match known {
                Some(known) => format!("expected {known} or none"),
                None => "expected none".to_owned(),
            };
            return Err(Error::bad_input(format!(
                "invalid attemptsMax {asked}: {expected}, as it is fixed when the board is created"
            ))
            .at(format!("windows[{index}].attemptsMax")));
        }
    }
    Ok(())
}

fn requested(window: &WindowInput, index: usize) -> Result<Window> {
    Window::requested(&window.name)
        .map_err(|error| Error::from(error).at(format!("windows[{index}].name")))
}

fn check_retain(window: Window, retain: i32) -> Result<u32> {
    if !window.has_periods() {
        return Err(Error::bad_input(format!(
            "invalid window {window}: expected it without retain, as it has no past periods"
        )));
    }
    let count = u32::try_from(retain).map_err(|_| {
        Error::bad_input(format!(
            "invalid retain {retain}: expected 0 to {RETAIN_MAX} past periods"
        ))
    })?;
    if count > RETAIN_MAX {
        return Err(Error::limit_exceeded(format!(
            "invalid retain {retain}: expected at most {RETAIN_MAX} past periods"
        )));
    }
    Ok(count)
}
