//! Seals: the past periods of a window that have left Redis, and a partition's record of them.
//!
//! All periods that became the present one before one instant are sealed. A partition holds a mark
//! for each sealed window of a board. Writers read the mark in the snapshot that they fold onto,
//! and readers after the entries, so neither misses a seal.

use crate::error::{Error, Result};
use crate::id::BoardNo;
use crate::window::{Calendar, Period, Window};

/// The most past periods that a window can retain: in effect all.
pub const RETAIN_MAX: u32 = 1_000_000;

/// An instant before every period.
pub const NEVER_MS: i64 = i64::MIN;

/// The shortest hour of a local clock, in milliseconds: offsets change by half an hour at least.
const SHORTEST_MS: i64 = 1_800_000;

/// The progress of sealing in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Periods that start before it are sealed or being sealed: late events go to the history
    /// alone. In Unix milliseconds.
    pub sealing_before_ms: i64,
    /// Readers take periods that start before it from SQL. In Unix milliseconds.
    pub sealed_before_ms: i64,
}

impl Default for Sealed {
    /// Nothing is sealed.
    fn default() -> Self {
        Self { sealing_before_ms: NEVER_MS, sealed_before_ms: NEVER_MS }
    }
}

impl Sealed {
    /// True if a period is on its way to SQL: until it is there, neither store has the late scores
    /// that came since.
    pub fn is_moving(self, period: &Period) -> bool {
        (self.sealed_before_ms..self.sealing_before_ms).contains(&period.present_from_ms)
    }
}

/// The instant at which the first period that a window keeps in Redis became the present one, in
/// Unix milliseconds: the present period and `retain` before it stay. `None` if all periods stay.
/// O(retain).
///
/// # Errors
/// `Invalid` if the instant is outside the calendar.
pub fn kept_from_ms(
    window: Window,
    calendar: &Calendar,
    now_ms: i64,
    retain: u32,
) -> Result<Option<i64>> {
    if window.has_seasons() {
        return Ok(calendar.seasons_kept_from_ms(now_ms, retain));
    }
    if !window.has_periods()
        || retain >= RETAIN_MAX
        || i64::from(retain) * SHORTEST_MS.max(longest_of_one_ms(window) / 3) > now_ms
    {
        return Ok(None);
    }
    let mut from_ms = window.period_at(now_ms, calendar)?.present_from_ms;
    for _ in 0..retain {
        if from_ms <= 0 {
            return Ok(None);
        }
        from_ms = window.period_at(from_ms - 1, calendar)?.present_from_ms;
    }
    Ok((from_ms > 0).then_some(from_ms))
}

/// The longest duration of one period, or of one base period of a rolling window, in milliseconds.
fn longest_of_one_ms(window: Window) -> i64 {
    let one = window.rolling().map_or(window, |rolling| rolling.base());
    one.longest_ms().unwrap_or(0)
}

/// A window of a board, as a partition's seal marks name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SealName {
    /// The board.
    pub board: BoardNo,
    /// The generation in which the board got the window.
    pub generation: u32,
    /// The window.
    pub window: Window,
}

impl SealName {
    /// Its field in the hash of marks: `12.1:daily`.
    pub fn field(self) -> String {
        let Self { board, generation, window } = self;
        format!("{board}.{generation}:{window}")
    }
}

/// The progress of sealing in a window, as a partition holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealMark {
    /// Writers leave out periods that start before it. In Unix milliseconds.
    pub sealing_before_ms: i64,
    /// The entries of periods that start before it may be gone from Redis: SQL has them. In Unix
    /// milliseconds.
    pub dropped_before_ms: i64,
    /// The seq of the commit that fixed the entries of the periods between the two.
    pub seq: u64,
}

impl Default for SealMark {
    /// Nothing is sealed.
    fn default() -> Self {
        Self { sealing_before_ms: NEVER_MS, dropped_before_ms: NEVER_MS, seq: 0 }
    }
}

impl SealMark {
    /// Reads the text in a partition; none means that no period is sealed.
    ///
    /// # Errors
    /// `Corrupt` for any other text.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let parse = || {
            let mut words = text.split(' ');
            let mark = Self {
                sealing_before_ms: words.next()?.parse().ok()?,
                dropped_before_ms: words.next()?.parse().ok()?,
                seq: words.next()?.parse().ok()?,
            };
            words.next().is_none().then_some(mark)
        };
        parse().ok_or_else(|| Error::corrupt(format!("{text:?} is not a mark of a seal")))
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(self) -> String {
        let Self { sealing_before_ms, dropped_before_ms, seq } = self;
        format!("{sealing_before_ms} {dropped_before_ms} {seq}")
    }

    /// True if writers leave this period out.
    pub fn closes(self, period: &Period) -> bool {
        period.present_from_ms < self.sealing_before_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_s_text_says_it_again() {
        for mark in
            [SealMark::default(), SealMark { sealing_before_ms: 5, dropped_before_ms: -7, seq: 9 }]
        {
            assert_eq!(SealMark::parse(Some(&mark.to_text())), Ok(mark));
        }
        assert_eq!(SealMark::parse(None), Ok(SealMark::default()));
        for bad in ["", "1", "1 2", "1 2 x", "1 2 3 4"] {
            assert!(SealMark::parse(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_present_period_and_so_many_before_it_are_kept() {
        let zone = crate::window::parse_zone("Australia/Lord_Howe").unwrap();
        let calendar = Calendar::of_zone(zone);
        let now_ms = 1_743_868_800_000;
        for window in Window::CALENDAR {
            let mut start_ms = window.period_at(now_ms, &calendar).unwrap().present_from_ms;
            for retain in 0..60 {
                let kept = kept_from_ms(window, &calendar, now_ms, retain).unwrap();
                // No event is older than 1970: all periods stay.
                let expected = (start_ms > 0).then_some(start_ms);
                assert_eq!(kept, expected, "{window} {retain}");
                if expected.is_none() {
                    break;
                }
                start_ms = window.period_at(start_ms - 1, &calendar).unwrap().present_from_ms;
            }
            for all in [RETAIN_MAX, u32::MAX, 999_999] {
                assert_eq!(kept_from_ms(window, &calendar, now_ms, all), Ok(None));
            }
        }
        assert_eq!(kept_from_ms(Window::All, &calendar, now_ms, 0), Ok(None));
    }
}
