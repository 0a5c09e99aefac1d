//! Ticks: the units of time in tie-breaks.

use crate::error::{Error, Result};

/// The units of time that a tie-break may count in, in milliseconds, finest first.
pub const TICKS_MS: [u32; 6] = [1, 10, 100, 1000, 10_000, 100_000];

/// The coarsest tick that is chosen by default, in milliseconds.
const TICK_DEFAULT_MS_MAX: u32 = 1000;

/// The tick that is asked for, or else the finest one, of those that fit.
///
/// # Errors
/// `Invalid`, with the ticks that would fit.
pub(super) fn choose_tick(asked_ms: Option<u32>, fitting: &[u32]) -> Result<u32> {
    let list = |ticks: &[u32]| ticks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match asked_ms {
        Some(asked) if fitting.contains(&asked) => Ok(asked),
        Some(asked) if fitting.is_empty() => Err(Error::invalid(format!(
            "invalid tieBreakResolutionMs {asked}: no resolution fits this score range: expected a narrower range or tie-break MEMBER"
        ))),
        Some(asked) => Err(Error::invalid(format!(
            "invalid tieBreakResolutionMs {asked}: expected {} for this score range and these windows",
            list(fitting)
        ))),
        None => match fitting.first() {
            Some(&finest) if finest <= TICK_DEFAULT_MS_MAX => Ok(finest),
            Some(_) => Err(Error::invalid(format!(
                "invalid score range: it leaves a tie-break no room to tell seconds apart: expected tieBreakResolutionMs of {}, a narrower range or tie-break MEMBER",
                list(fitting)
            ))),
            None => Err(Error::invalid(
                "invalid score range: it leaves no room for time in a tie-break: expected a narrower range or tie-break MEMBER",
            )),
        },
    }
}
