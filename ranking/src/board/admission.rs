//! Admission: the times of earning that a board accepts.

use crate::error::{Error, Result, shown_instant};

/// The times at which a score may have been earned for the board to accept it. By default all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Admission {
    /// The first accepted instant, in Unix milliseconds.
    pub opens_at_ms: Option<i64>,
    /// The first instant that is too late, in Unix milliseconds.
    pub closes_at_ms: Option<i64>,
    /// The longest time between earning and acceptance, in milliseconds.
    pub lateness_max_ms: Option<i64>,
}

impl Admission {
    /// Checks the limits against each other.
    ///
    /// # Errors
    /// `Invalid` if the board closes before it opens, either instant is before 1970, or the
    /// lateness is negative.
    pub fn new(
        opens_at_ms: Option<i64>,
        closes_at_ms: Option<i64>,
        lateness_max_ms: Option<i64>,
    ) -> Result<Self> {
        if [opens_at_ms, closes_at_ms].into_iter().flatten().any(|at_ms| at_ms < 0) {
            return Err(Error::invalid(
                "invalid opensAt or closesAt: expected an instant from 1970 on",
            ));
        }
        if let (Some(opens), Some(closes)) = (opens_at_ms, closes_at_ms)
            && opens >= closes
        {
            return Err(Error::invalid("invalid opensAt: expected an instant before closesAt"));
        }
        if lateness_max_ms.is_some_and(|lateness_ms| lateness_ms < 0) {
            return Err(Error::invalid("invalid maxLatenessSeconds: expected 0 or more"));
        }
        Ok(Self { opens_at_ms, closes_at_ms, lateness_max_ms })
    }

    /// Checks that a score earned at `at_ms` is accepted at `now_ms`.
    ///
    /// # Errors
    /// `NotOpen` or `Closed`, naming the instant; `TooLate` if the score comes too late.
    pub fn check(self, at_ms: i64, now_ms: i64) -> Result<()> {
        if let Some(opens) = self.opens_at_ms.filter(|&opens| at_ms < opens) {
            return Err(Error::NotOpen(format!(
                "this board takes scores earned from {} on, not {}",
                shown_instant(opens),
                shown_instant(at_ms)
            )));
        }
        if let Some(closes) = self.closes_at_ms.filter(|&closes| at_ms >= closes) {
            return Err(Error::Closed(format!(
                "this board takes scores earned before {}, not {}",
                shown_instant(closes),
                shown_instant(at_ms)
            )));
        }
        match self.lateness_max_ms {
            Some(lateness_ms) if at_ms < now_ms - lateness_ms => Err(Error::TooLate(format!(
                "this board takes scores up to {} s after they were earned; this one was earned at {}",
                lateness_ms / 1000,
                shown_instant(at_ms)
            ))),
            _ => Ok(()),
        }
    }
}
