//! Windows and their periods: the half-open span that an instant belongs to, in a board's calendar.
//!
//! A period is defined by its boundaries, not by local dates: where clocks went back across
//! midnight (America/St_Johns until 2011), a local date ended and began again, yet a period is one
//! span.

mod attempts;
pub mod calendar;
mod dated;
mod hour;
mod name;
pub mod period;
pub mod roll;
pub mod seal;
pub mod season;

pub use attempts::Attempts;
pub use calendar::Calendar;
pub use name::parse_zone;
pub use period::{AT_MS_MAX, ListedPeriod, Period};

use self::season::SEASON_DAYS_MAX;

const HOUR_S: i64 = 3600;

const DAY_S: i64 = 24 * HOUR_S;

/// The latest time that every rank key holds: 2100-01-01, in Unix milliseconds.
pub const REACH_MS: i64 = 4_102_444_800_000;

/// The most periods of a rolling window, and the most hours, days or weeks of a half-life.
pub const COUNT_MAX: u16 = 366;

/// A rule about time that has standings of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// Everything since the board began; every board has it.
    All,
    /// An hour of the local clock; 30 minutes if an offset changes by half an hour.
    Hourly,
    /// A local day: 23 to 25 hours when clocks change.
    Daily,
    /// A week from the calendar's first day; an ISO week from Monday.
    Weekly,
    /// A calendar month.
    Monthly,
    /// A calendar quarter.
    Quarterly,
    /// A calendar year.
    Yearly,
    /// Periods that the board's owner lists, with gaps between them.
    Season,
    /// The present period and some before it: `7d`, `24h`, `12w`, `3mo`.
    Rolling(Rolling),
    /// Everything since the board began; each score loses half its weight with every half-life:
    /// `decay:7d`.
    Decay(HalfLife),
    /// The scores that each member has used in the periods of another window: `attempts:daily`. No
    /// board shows it.
    Attempts(Attempts),
}

/// The time in which a score loses half its weight: hours, days of 24 hours, or weeks of seven such
/// days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HalfLife {
    unit: Unit,
    count: u16,
}

/// A rolling window: a number of periods, the present one last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rolling {
    unit: Unit,
    count: u16,
}

/// The unit of a rolling window or a half-life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Unit {
    Hour,
    Day,
    Week,
    Month,
}

impl Rolling {
    /// The window whose periods it consists of.
    pub fn base(self) -> Window {
        match self.unit {
            Unit::Hour => Window::Hourly,
            Unit::Day => Window::Daily,
            Unit::Week => Window::Weekly,
            Unit::Month => Window::Monthly,
        }
    }

    /// N: the number of periods, the present one included.
    pub fn count(self) -> u16 {
        self.count
    }
}

impl HalfLife {
    /// The length in milliseconds.
    pub fn ms(self) -> i64 {
        let each_s = match self.unit {
            Unit::Hour => HOUR_S,
            Unit::Day => DAY_S,
            // Months vary in length: the name of a half-life cannot use them.
            Unit::Week | Unit::Month => 7 * DAY_S,
        };
        i64::from(self.count) * each_s * 1000
    }
}

impl Window {
    /// Every window without a number in its name, `all` first.
    pub const EVERY: [Self; 8] = [
        Self::All,
        Self::Hourly,
        Self::Daily,
        Self::Weekly,
        Self::Monthly,
        Self::Quarterly,
        Self::Yearly,
        Self::Season,
    ];

    /// The windows with one period after another that the clock and the calendar tell, the shortest
    /// first.
    pub const CALENDAR: [Self; 6] =
        [Self::Hourly, Self::Daily, Self::Weekly, Self::Monthly, Self::Quarterly, Self::Yearly];

    /// The rolling window; `None` for another kind.
    pub fn rolling(self) -> Option<Rolling> {
        if let Self::Rolling(rolling) = self { Some(rolling) } else { None }
    }

    /// The half-life; `None` for a window without decay.
    pub fn half_life(self) -> Option<HalfLife> {
        if let Self::Decay(half_life) = self { Some(half_life) } else { None }
    }

    /// True if it has one period after another: not `all`, nor a decaying window.
    pub fn has_periods(self) -> bool {
        !matches!(self.of_periods(), Self::All | Self::Decay(_))
    }

    /// The longest duration of a period, in milliseconds; `None` if its one period has no end. It
    /// allows for the largest change of offset in the time zone database, a day (Pacific/Apia
    /// crossed the date line).
    pub fn longest_ms(self) -> Option<i64> {
        let hours = match self {
            Self::All | Self::Decay(_) => return None,
            Self::Hourly => 1,
            Self::Daily => 2 * 24,
            Self::Weekly => 8 * 24,
            Self::Monthly => 32 * 24,
            Self::Quarterly => 93 * 24,
            Self::Yearly => 367 * 24,
            Self::Season => SEASON_DAYS_MAX * 24,
            Self::Rolling(rolling) => {
                let each_ms = rolling.base().longest_ms()?;
                return Some(i64::from(rolling.count) * each_ms);
            }
            Self::Attempts(_) => return self.of_periods().longest_ms(),
        };
        Some(hours * HOUR_S * 1000)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::calendar::Weekday;
    use super::*;
    use proptest::prelude::*;

    const ZONES: [&str; 9] = [
        "UTC",
        "Europe/London",
        "America/St_Johns",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "Australia/Lord_Howe",
        "America/New_York",
        "Africa/Monrovia",
        "America/Sao_Paulo",
    ];

    fn calendars() -> impl Strategy<Value = Calendar> {
        let zones = proptest::sample::select(&ZONES[..]);
        (zones, 0_i32..24, 1_i8..=7).prop_map(|(zone, reset_hour, week_start)| {
            let calendar = Calendar::of_zone(parse_zone(zone).unwrap());
            let week_start = Weekday::from_monday_one_offset(week_start).unwrap();
            Calendar { week_start, ..calendar.reset_at(reset_hour).unwrap() }
        })
    }

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn hours(window: Window, at: &str, zone: &str) -> (String, f64) {
        let calendar = Calendar::of_zone(parse_zone(zone).unwrap());
        let period = window.period_at(ms(at), &calendar).unwrap();
        (period.label, (period.end_ms.unwrap() - period.start_ms) as f64 / 3_600_000.0)
    }

    #[test]
    fn days_follow_the_clocks_of_their_zone() {
        let check = |at, zone, label: &str, length| {
            assert_eq!(hours(Window::Daily, at, zone), (label.to_owned(), length))
        };
        check("2025-03-30T12:00:00Z", "Europe/London", "2025-03-30", 23.0);
        check("2025-10-26T12:00:00Z", "Europe/London", "2025-10-26", 25.0);
        check("2025-04-05T13:30:00Z", "Australia/Lord_Howe", "2025-04-06", 24.5);
        check("2025-10-04T14:00:00Z", "Australia/Lord_Howe", "2025-10-05", 23.5);
        check("2025-01-01T18:14:59Z", "Asia/Kathmandu", "2025-01-01", 24.0);
        check("2025-01-01T18:15:00Z", "Asia/Kathmandu", "2025-01-02", 24.0);
        check("2024-02-29T00:00:00Z", "UTC", "2024-02-29", 24.0);
        check("2011-12-30T09:59:59Z", "Pacific/Apia", "2011-12-29", 24.0);
        check("2011-12-30T10:00:00Z", "Pacific/Apia", "2011-12-31", 24.0);
        // St John's set its clocks from 00:01 back to 23:01: one day of 25 hours, entered at the
        // first midnight.
        check("2010-11-07T02:30:30Z", "America/St_Johns", "2010-11-07", 25.0);
        check("2010-11-07T03:00:00Z", "America/St_Johns", "2010-11-07", 25.0);
    }

    #[test]
    fn hours_that_come_twice_or_in_part_have_labels_of_their_own() {
        let check = |at, zone, label: &str, length| {
            assert_eq!(hours(Window::Hourly, at, zone), (label.to_owned(), length))
        };
        check("2025-10-26T00:30:00Z", "Europe/London", "2025-10-26T01+01:00", 1.0);
        check("2025-10-26T01:30:00Z", "Europe/London", "2025-10-26T01+00:00", 1.0);
        check("2025-04-05T14:40:00Z", "Australia/Lord_Howe", "2025-04-06T01+11:00", 1.0);
        check("2025-04-05T15:15:00Z", "Australia/Lord_Howe", "2025-04-06T01+10:30", 0.5);
        check("2025-10-04T15:45:00Z", "Australia/Lord_Howe", "2025-10-05T02+11:00", 0.5);
        check("2025-01-01T00:20:00Z", "Asia/Kathmandu", "2025-01-01T06+05:45", 1.0);
    }

    #[test]
    fn weeks_are_iso_weeks_and_have_iso_years() {
        let check = |at, label: &str| {
            assert_eq!(hours(Window::Weekly, at, "UTC"), (label.to_owned(), 168.0))
        };
        check("2024-12-30T00:00:00Z", "2025-W01");
        check("2024-12-29T23:59:59Z", "2024-W52");
        check("2021-01-03T00:00:00Z", "2020-W53");
        check("2025-09-03T00:00:00Z", "2025-W36");
    }

    #[test]
    fn quarters_and_years_are_those_of_the_calendar() {
        let check = |window, at, zone, label: &str, days: f64| {
            assert_eq!(hours(window, at, zone), (label.to_owned(), days * 24.0));
        };
        check(Window::Quarterly, "2025-01-01T00:00:00Z", "UTC", "2025-Q1", 90.0);
        check(Window::Quarterly, "2024-03-31T23:59:59Z", "UTC", "2024-Q1", 91.0);
        check(
            Window::Quarterly,
            "2025-12-31T22:59:59Z",
            "Europe/Berlin",
            "2025-Q4",
            92.0 + 1.0 / 24.0,
        );
        check(
            Window::Quarterly,
            "2025-12-31T23:00:00Z",
            "Europe/Berlin",
            "2026-Q1",
            90.0 - 1.0 / 24.0,
        );
        check(Window::Yearly, "2024-02-29T12:00:00Z", "UTC", "2024", 366.0);
        check(Window::Yearly, "2025-12-31T22:59:59Z", "Europe/Berlin", "2025", 365.0);
        check(Window::Yearly, "2025-12-31T23:00:00Z", "Europe/Berlin", "2026", 365.0);
        // Samoa left out December 30, 2011.
        check(Window::Yearly, "2011-06-01T00:00:00Z", "Pacific/Apia", "2011", 364.0);
    }

    #[test]
    fn a_label_that_names_no_period_is_refused_with_an_example() {
        let calendar = Calendar::of_zone(parse_zone("Pacific/Apia").unwrap());
        for (window, label) in [
            (Window::Daily, "2011-12-30"),
            (Window::Daily, "2025-02-29"),
            (Window::Weekly, "2025-W54"),
            (Window::Weekly, "2025-W1"),
            (Window::Monthly, "2025-13"),
            (Window::Monthly, "2025-9"),
            (Window::Hourly, "2025-01-01T25+13:00"),
            (Window::Hourly, "2025-01-01"),
            (Window::Quarterly, "2025-Q5"),
            (Window::Quarterly, "2025-Q03"),
            (Window::Quarterly, "2025-03"),
            (Window::Yearly, "25"),
            (Window::Yearly, "2025-01"),
            (Window::All, "2025"),
            (Window::Daily, ""),
        ] {
            let refused = window.period_named(label, &calendar).unwrap_err().to_string();
            assert!(refused.contains("such as"), "{refused}");
        }
    }

    #[test]
    fn a_name_that_is_no_window_s_is_refused_with_some_that_are() {
        for (name, reason) in [
            ("0d", "invalid window"),
            ("07d", "invalid window"),
            ("367d", "1 to 366"),
            ("99999999999d", "invalid window"),
            ("7", "invalid window"),
            ("d", "invalid window"),
            ("3m", "3mo"),
            ("+7d", "invalid window"),
            ("decay:", "decay:7d"),
            ("decay:1mo", "hours, days or weeks"),
            ("decay:0d", "invalid window"),
            ("decay:07d", "invalid window"),
            ("decay:367h", "1 to 366"),
            ("decay:decay:7d", "invalid window"),
            ("Decay:7d", "invalid window"),
            ("fortnightly", "invalid window"),
            ("", "invalid window"),
        ] {
            assert!(name.parse::<Window>().unwrap_err().to_string().contains(reason), "{name}");
        }
    }

    #[test]
    fn a_rolling_window_is_named_by_its_last_period() {
        let calendar = Calendar::of_zone(parse_zone("Europe/London").unwrap());
        let check = |window: &str, at: &str, label: &str, start: &str, end: &str| {
            let window: Window = window.parse().unwrap();
            let period = window.period_at(ms(at), &calendar).unwrap();
            let expected = (label.to_owned(), ms(start), Some(ms(end)));
            assert_eq!((period.label, period.start_ms, period.end_ms), expected);
        };
        check(
            "7d",
            "2025-10-28T12:00:00Z",
            "2025-10-28",
            "2025-10-21T23:00:00Z",
            "2025-10-29T00:00:00Z",
        );
        // One of the three hours comes twice.
        check(
            "3h",
            "2025-10-26T02:30:00Z",
            "2025-10-26T02+00:00",
            "2025-10-26T00:00:00Z",
            "2025-10-26T03:00:00Z",
        );
        check(
            "3mo",
            "2025-02-01T00:00:00Z",
            "2025-02",
            "2024-12-01T00:00:00Z",
            "2025-03-01T00:00:00Z",
        );
        check(
            "9d",
            "1970-01-03T00:00:00Z",
            "1970-01-03",
            "1970-01-01T00:00:00Z",
            "1970-01-03T23:00:00Z",
        );
    }

    proptest! {
        #[test]
        fn periods_are_contiguous_and_hold_their_instants(at_ms in 0_i64..4_200_000_000_000, calendar in calendars()) {
            let rolling = ["1d", "7d", "24h", "5w", "3mo", "decay:36h", "attempts:daily", "attempts:all"].map(|name| name.parse().unwrap());
            for window in [Window::All].into_iter().chain(Window::CALENDAR).chain(rolling) {
                let period = window.period_at(at_ms, &calendar).unwrap();
                prop_assert!(period.start_ms <= period.present_from_ms && period.present_from_ms <= at_ms);
                prop_assert_eq!(window.period_named(&period.label, &calendar).unwrap(), period.clone());
                prop_assert_eq!(&window.period_at(period.present_from_ms, &calendar).unwrap(), &period);
                let Some(end_ms) = period.end_ms else { continue };
                prop_assert!(at_ms < end_ms);
                prop_assert!(end_ms - period.start_ms <= window.longest_ms().unwrap());
                prop_assert_eq!(&window.period_at(end_ms - 1, &calendar).unwrap(), &period);
                let next = window.period_at(end_ms, &calendar).unwrap();
                prop_assert_eq!(next.present_from_ms, end_ms);
                prop_assert_ne!(next.label, period.label);
            }
        }
    }
}
