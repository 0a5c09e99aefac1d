//! Which scores a board takes, by when they were earned.

use crate::error::{Error, Result};

/// Which scores a board takes, by when they were earned. By default all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Admission {
    /// The first instant, in Unix milliseconds.
    pub opens_at_ms: Option<i64>,
    /// The first instant after it, in Unix milliseconds.
    pub closes_at_ms: Option<i64>,
    /// How long ago, in milliseconds.
    pub lateness_max_ms: Option<i64>,
}

impl Admission {
    /// Checks it.
    ///
    /// # Errors
    /// `Invalid` where it closes before it opens, an end of it is before 1970, or the lateness is negative.
    pub fn new(
        opens_at_ms: Option<i64>,
        closes_at_ms: Option<i64>,
        lateness_max_ms: Option<i64>,
    ) -> Result<Self> {
        if [opens_at_ms, closes_at_ms].into_iter().flatten().any(|at_ms| at_ms < 0) {
            return Err(Error::invalid("opensAt and closesAt are accepted from 1970 on"));
        }
        if let (Some(opens), Some(closes)) = (opens_at_ms, closes_at_ms)
            && opens >= closes
        {
            return Err(Error::invalid("opensAt must be before closesAt"));
        }
        if lateness_max_ms.is_some_and(|lateness_ms| lateness_ms < 0) {
            return Err(Error::invalid("latenessMaxSeconds is negative; 0 or more is accepted"));
        }
        Ok(Self { opens_at_ms, closes_at_ms, lateness_max_ms })
    }

    /// Checks that a score earned at an instant is taken now.
    ///
    /// # Errors
    /// `Invalid`, saying when the board opens or closed; `LimitExceeded` where the score comes too late.
    pub fn check(self, at_ms: i64, now_ms: i64) -> Result<()> {
        let shown = |at_ms: i64| {
            jiff::Timestamp::from_millisecond(at_ms)
                .map_or_else(|_| format!("{at_ms} ms"), |instant| instant.to_string())
        };
        if let Some(opens) = self.opens_at_ms.filter(|&opens| at_ms < opens) {
            return Err(Error::invalid(format!(
                "this board takes scores earned from {} on, not {}",
                shown(opens),
                shown(at_ms)
            )));
        }
        if let Some(closes) = self.closes_at_ms.filter(|&closes| at_ms >= closes) {
            return Err(Error::invalid(format!(
                "this board takes scores earned before {}, not {}",
                shown(closes),
                shown(at_ms)
            )));
        }
        match self.lateness_max_ms {
            Some(lateness_ms) if at_ms < now_ms - lateness_ms => {
                Err(Error::LimitExceeded(format!(
                    "this board takes scores up to {} s after they were earned; {} is longer ago",
                    lateness_ms / 1000,
                    shown(at_ms)
                )))
            }
            _ => Ok(()),
        }
    }
}
