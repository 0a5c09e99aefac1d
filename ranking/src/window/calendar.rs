//! A board's calendar: the rules by which its periods begin.

use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::season::Season;
use crate::error::{Error, Result};

pub use jiff::civil::Weekday;

/// The latest hour of the local clock at which days may begin.
pub const RESET_HOUR_MAX: u8 = 23;

/// The rules by which the periods of a board begin. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// The time zone of the local clock.
    pub zone: TimeZone,
    /// The hour of the local clock at which days, and all that consists of days, begin: 0 to
    /// [`RESET_HOUR_MAX`].
    pub reset_hour: u8,
    /// The day with which weeks begin.
    pub week_start: Weekday,
    /// The seasons, in the order of time.
    pub seasons: Arc<[Season]>,
}

impl Calendar {
    /// A calendar without seasons, whose days begin at midnight, and whose weeks begin on Monday.
    pub fn of_zone(zone: TimeZone) -> Self {
        Self { zone, reset_hour: 0, week_start: Weekday::Monday, seasons: Arc::default() }
    }

    /// The calendar with another reset hour.
    ///
    /// # Errors
    /// `Invalid` if a day has no such hour.
    pub fn reset_at(self, hour: i32) -> Result<Self> {
        let reset_hour = u8::try_from(hour).ok().filter(|&hour| hour <= RESET_HOUR_MAX);
        let reset_hour = reset_hour.ok_or_else(|| {
            Error::invalid(format!("invalid resetHour {hour}: expected 0 to {RESET_HOUR_MAX}"))
        })?;
        Ok(Self { reset_hour, ..self })
    }

    /// The instant at which the day of a local date begins, in Unix milliseconds: its reset hour.
    /// Of an hour that comes twice the first one counts. An hour that clocks skip is counted as if
    /// they had not, so that the day begins by so much later as they skip. `None` beyond the
    /// calendar.
    pub(super) fn start_ms(&self, date: Date) -> Option<i64> {
        let hour = date.at(self.reset_hour as i8, 0, 0, 0);
        let start = self.zone.to_ambiguous_zoned(hour).compatible().ok()?;
        Some(start.timestamp().as_millisecond())
    }
}

impl Default for Calendar {
    fn default() -> Self {
        Self::of_zone(TimeZone::UTC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Window, parse_zone};

    /// The label of the period of an instant, and its hours.
    fn found(window: &str, at: &str, calendar: &Calendar) -> (String, f64) {
        let at_ms = at.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let window: Window = window.parse().unwrap();
        let period = window.period_at(at_ms, calendar).unwrap();
        (period.label, (period.end_ms.unwrap() - period.start_ms) as f64 / 3_600_000.0)
    }

    #[test]
    fn days_begin_at_the_reset_hour_of_the_local_clock() {
        let check = |window: &str, hour, at, zone, label: &str, length| {
            let calendar = Calendar::of_zone(parse_zone(zone).unwrap()).reset_at(hour).unwrap();
            assert_eq!(
                found(window, at, &calendar),
                (label.to_owned(), length),
                "{window} {hour} {at}"
            );
        };
        check("daily", 5, "2025-09-03T04:59:59Z", "UTC", "2025-09-02", 24.0);
        check("daily", 5, "2025-09-03T05:00:00Z", "UTC", "2025-09-03", 24.0);
        check("hourly", 5, "2025-09-03T04:59:59Z", "UTC", "2025-09-03T04+00:00", 1.0);
        check("weekly", 5, "2025-09-01T04:59:59Z", "UTC", "2025-W35", 168.0);
        check("weekly", 5, "2025-09-01T05:00:00Z", "UTC", "2025-W36", 168.0);
        check("monthly", 5, "2025-09-01T04:59:59Z", "UTC", "2025-08", 744.0);
        check("yearly", 23, "2026-01-01T22:59:59Z", "UTC", "2025", 8760.0);
        check("2d", 5, "2025-09-03T04:59:59Z", "UTC", "2025-09-02", 48.0);
        // London's clocks skip 01:00 to 02:00 in March, and have it twice in October.
        check("daily", 1, "2025-03-30T00:59:59Z", "Europe/London", "2025-03-29", 24.0);
        check("daily", 1, "2025-03-30T01:00:00Z", "Europe/London", "2025-03-30", 23.0);
        check("daily", 1, "2025-10-26T00:00:00Z", "Europe/London", "2025-10-26", 25.0);
        check("daily", 1, "2025-10-25T23:59:59Z", "Europe/London", "2025-10-25", 24.0);
        // Those of Lord Howe skip half of the hour from 02:00.
        check("daily", 2, "2025-10-04T15:30:00Z", "Australia/Lord_Howe", "2025-10-05", 23.5);
        check("daily", 2, "2025-10-04T15:29:59Z", "Australia/Lord_Howe", "2025-10-04", 24.0);
        // Samoa left out December 30, 2011.
        check("daily", 5, "2011-12-30T14:59:59Z", "Pacific/Apia", "2011-12-29", 24.0);
        check("daily", 5, "2011-12-30T15:00:00Z", "Pacific/Apia", "2011-12-31", 24.0);
        for hour in [-1, 24] {
            let refused = Calendar::default().reset_at(hour).unwrap_err().to_string();
            assert!(refused.contains("expected 0 to 23"), "{refused}");
        }
    }

    #[test]
    fn weeks_that_begin_on_another_day_are_labeled_by_it() {
        let check = |week_start, window: &str, at, label: &str, days: f64| {
            let calendar = Calendar { week_start, ..Calendar::default() };
            assert_eq!(found(window, at, &calendar), (label.to_owned(), days * 24.0));
        };
        check(Weekday::Sunday, "weekly", "2025-09-03T00:00:00Z", "2025-08-31/P7D", 7.0);
        check(Weekday::Sunday, "weekly", "2025-08-31T00:00:00Z", "2025-08-31/P7D", 7.0);
        check(Weekday::Sunday, "weekly", "2025-08-30T23:59:59Z", "2025-08-24/P7D", 7.0);
        check(Weekday::Saturday, "2w", "2025-01-03T00:00:00Z", "2024-12-28/P7D", 14.0);
        check(Weekday::Monday, "2w", "2025-01-03T00:00:00Z", "2025-W01", 14.0);
        let sundays = Calendar { week_start: Weekday::Sunday, ..Calendar::default() };
        for label in ["2025-W36", "2025-08-31", "2025-09-01/P7D", "2025-8-31/P7D"] {
            let refused = Window::Weekly.period_named(label, &sundays).unwrap_err().to_string();
            assert!(refused.contains("such as \"2025-08-31/P7D\""), "{refused}");
        }
    }
}
