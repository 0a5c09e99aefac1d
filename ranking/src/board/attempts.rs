//! Attempts: the scores that a board accepts of a member in each period of a window.
//!
//! They are counted as scores are added up: a window of attempts has standings of its own, in which
//! each event counts 1, in the segment of everyone. So whatever keeps standings exact keeps the
//! counts exact.

use crate::board::Board;
use crate::board::rules::Rules;
use crate::error::{Error, Result, shown_instant};
use crate::id::MemberId;
use crate::score::RAW_MAX;
use crate::window::{Period, Window};

/// The most attempts that a board may allow in a period.
pub const ATTEMPTS_MAX: u32 = 1_000_000;

/// The lowest and highest count that a window of attempts can hold.
pub(super) const RANGE: (i64, i64) = (0, RAW_MAX);

impl Window {
    /// The segments in which an event counts in this window: everyone, and those of the event;
    /// everyone alone if it counts attempts.
    pub fn segments_of(self, segments: &[String]) -> impl Iterator<Item = &str> {
        let others = if self.counted().is_some() { &[] } else { segments };
        std::iter::once("").chain(others.iter().map(String::as_str))
    }
}

impl Rules {
    /// The most scores of a member that count in each period of a window; `None` if they are not
    /// limited.
    pub fn attempts_max(&self, window: Window) -> Option<u32> {
        self.attempts.get(&window).copied()
    }
}

impl Board {
    /// Checks that a member may have so many attempts in a period of a window of attempts, the one
    /// that is to be accepted included.
    ///
    /// # Errors
    /// `AttemptsExhausted`, naming the limit and the next period; `Overloaded` while the attempts
    /// of a new season are being counted.
    pub(crate) fn check_attempts(
        &self,
        window: Window,
        period: &Period,
        member: &MemberId,
        attempts: i64,
    ) -> Result<()> {
        let Some((counted, max)) =
            window.counted().and_then(|counted| Some((counted, self.rules.attempts_max(counted)?)))
        else {
            return Ok(());
        };
        if !self.is_filled(window, period) {
            return Err(Error::Overloaded(format!(
                "the attempts in {} of the window {counted} are being counted; try again later",
                period.label
            )));
        }
        if attempts <= i64::from(max) {
            return Ok(());
        }
        let member = crate::shown(member.as_str());
        let used = format!("member {member} has used its {max} attempts in the window {counted}");
        Err(Error::AttemptsExhausted(match (counted, period.end_ms) {
            (Window::Season, Some(end_ms)) => {
                format!("{used}, season {}, which ends at {}", period.label, shown_instant(end_ms))
            }
            (_, Some(end_ms)) => format!(
                "{used}, period {}; the next one begins at {}",
                period.label,
                shown_instant(end_ms)
            ),
            (_, None) => format!("{used}, which has no other period"),
        }))
    }

    /// Checks that a window whose period is sealed does not count attempts.
    ///
    /// # Errors
    /// `TooLate` if it does.
    pub(crate) fn check_not_counted(&self, window: Window, period: &Period) -> Result<()> {
        match window.counted() {
            None => Ok(()),
            Some(counted) => Err(Error::TooLate(format!(
                "the period {} of the window {counted} is sealed, and its attempts are no longer counted: expected a score of a later period",
                period.label
            ))),
        }
    }
}

/// Checks a limit of the attempts in a window.
///
/// # Errors
/// `Invalid` for a window that cannot have one, and for 0; `LimitExceeded` above [`ATTEMPTS_MAX`].
pub fn check_limit(window: Window, max: u32) -> Result<()> {
    if window.attempts().is_none() {
        let names = Window::EVERY.map(|window| window.to_string()).join(", ");
        return Err(Error::invalid(format!(
            "invalid attemptsMax of window {window}: a score counts in many of its periods, or in all with a weight: expected it of {names}"
        )));
    }
    if max == 0 {
        return Err(Error::invalid(format!("invalid attemptsMax 0: expected 1 to {ATTEMPTS_MAX}")));
    }
    if max > ATTEMPTS_MAX {
        return Err(Error::LimitExceeded(format!(
            "invalid attemptsMax {max}: expected at most {ATTEMPTS_MAX}"
        )));
    }
    Ok(())
}
