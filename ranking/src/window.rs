//! Windows and their periods: which half-open span of time an instant belongs to, in a board's time zone.
//!
//! A period is defined by its boundaries, not by the local date of the instant: where clocks go back across
//! midnight (America/St_Johns until 2011) a local date is left and entered again, and a period is still one span.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, ISOWeekDate, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

use crate::error::{Error, Result};

/// The latest instant that a period is computed for: the end of the year 9000, in Unix milliseconds.
pub const AT_MS_MAX: i64 = 221_845_391_999_999;

const HOUR_S: i64 = 3600;

const DAY_S: i64 = 24 * HOUR_S;

/// Rank keys can hold times up to here at least: 2100-01-01, in Unix milliseconds.
pub const REACH_MS: i64 = 4_102_444_800_000;

/// How many periods a rolling window may have, and how many hours, days or weeks a half-life.
pub const COUNT_MAX: u16 = 366;

/// A rule about time that has standings of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// Everything since the board began; every board has it.
    All,
    /// An hour of the local clock; it may have 30 minutes where an offset changes by half an hour.
    Hourly,
    /// A local day: 23 to 25 hours where clocks change.
    Daily,
    /// An ISO week, from Monday.
    Weekly,
    /// A calendar month.
    Monthly,
    /// The present period and some before it: `7d`, `24h`, `12w`, `3mo`.
    Rolling(Rolling),
    /// Everything since the board began, each score with half the weight after every half-life: `decay:7d`.
    Decay(HalfLife),
}

/// After how long a score has half its weight: hours, days of 24 hours, or weeks of seven such days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HalfLife {
    unit: Unit,
    count: u16,
}

/// A rolling window: so many periods of a kind, the present one the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rolling {
    unit: Unit,
    count: u16,
}

/// What a rolling window and a half-life count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Unit {
    Hour,
    Day,
    Week,
    Month,
}

impl Rolling {
    /// The window of its periods.
    #[must_use]
    pub fn base(self) -> Window {
        match self.unit {
            Unit::Hour => Window::Hourly,
            Unit::Day => Window::Daily,
            Unit::Week => Window::Weekly,
            Unit::Month => Window::Monthly,
        }
    }

    /// N: how many periods, the present one among them.
    #[must_use]
    pub fn count(self) -> u16 {
        self.count
    }
}

impl HalfLife {
    /// How long it is, in milliseconds.
    #[must_use]
    pub fn ms(self) -> i64 {
        let each_s = match self.unit {
            Unit::Hour => HOUR_S,
            Unit::Day => DAY_S,
            // A month has no one length: no name gives it.
            Unit::Week | Unit::Month => 7 * DAY_S,
        };
        i64::from(self.count) * each_s * 1000
    }
}

impl Unit {
    const EVERY: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    fn suffix(self) -> &'static str {
        match self {
            Self::Hour => "h",
            Self::Day => "d",
            Self::Week => "w",
            Self::Month => "mo",
        }
    }
}

/// One concrete span of a window: `2025-09-03`, `2025-W36`, `2025-09`, `2025-10-26T02+01:00`, `all`. That of a rolling window is named by
/// the last period in it: `2025-09-03` of `7d` begins on 28 August.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Period {
    /// Its name, unique within the window and zone.
    pub label: String,
    /// The first instant in it, in Unix milliseconds; 0 for `all`.
    pub start_ms: i64,
    /// The first instant after it, in Unix milliseconds; `None` for `all`.
    pub end_ms: Option<i64>,
    /// Since when it is the present one, in Unix milliseconds: its start, or where the last period of a rolling one starts.
    pub present_from_ms: i64,
}

impl Period {
    /// The one period of `all` and of windows that decay.
    #[must_use]
    pub fn all() -> Self {
        Self { label: "all".into(), start_ms: 0, end_ms: None, present_from_ms: 0 }
    }

    /// Whether it is the present one at an instant.
    #[must_use]
    pub fn is_present(&self, at_ms: i64) -> bool {
        self.present_from_ms <= at_ms && self.end_ms.is_none_or(|end_ms| at_ms < end_ms)
    }
}

impl Window {
    /// Every window without a number in its name, `all` first.
    pub const EVERY: [Self; 5] =
        [Self::All, Self::Hourly, Self::Daily, Self::Weekly, Self::Monthly];

    /// What it is a rolling window of; `None` unless it is one.
    #[must_use]
    pub fn rolling(self) -> Option<Rolling> {
        match self {
            Self::Rolling(rolling) => Some(rolling),
            _ => None,
        }
    }

    /// What it decays by; `None` unless it does.
    #[must_use]
    pub fn half_life(self) -> Option<HalfLife> {
        match self {
            Self::Decay(half_life) => Some(half_life),
            _ => None,
        }
    }

    /// Whether time goes on in it from one period to the next: not in `all` nor where scores decay.
    #[must_use]
    pub fn has_periods(self) -> bool {
        !matches!(self, Self::All | Self::Decay(_))
    }

    /// The longest a period of this window lasts, in milliseconds; `None` where it has one without end. Offsets in the time zone
    /// database change by at most a day (Pacific/Apia crossed the date line), which is allowed for.
    #[must_use]
    pub fn longest_ms(self) -> Option<i64> {
        let hours = match self {
            Self::All | Self::Decay(_) => return None,
            Self::Hourly => 1,
            Self::Daily => 2 * 24,
            Self::Weekly => 8 * 24,
            Self::Monthly => 32 * 24,
            Self::Rolling(rolling) => {
                let each_ms = rolling.base().longest_ms()?;
                return Some(i64::from(rolling.count) * each_ms);
            }
        };
        Some(hours * HOUR_S * 1000)
    }

    /// The period that the instant `at_ms` (Unix milliseconds, 0 to [`AT_MS_MAX`]) belongs to.
    ///
    /// # Errors
    /// `Invalid` where the instant is outside that range.
    pub fn period_at(self, at_ms: i64, zone: &TimeZone) -> Result<Period> {
        if !(0..=AT_MS_MAX).contains(&at_ms) {
            return Err(Error::invalid(
                "a time before 1970 or after the year 9000 is not accepted",
            ));
        }
        let at = Timestamp::from_millisecond(at_ms)
            .map_err(|_| Error::invalid("a time outside the calendar is not accepted"))?;
        match self {
            Self::All | Self::Decay(_) => Ok(Period::all()),
            Self::Hourly => Ok(hour_at(at, zone)),
            Self::Daily | Self::Weekly | Self::Monthly => self.dated_period_at(at, zone),
            Self::Rolling(rolling) => {
                let last = rolling.base().period_at(at_ms, zone)?;
                let mut start_ms = last.start_ms;
                // No event is older than 1970, and no window reaches beyond.
                for _ in 1..rolling.count {
                    if start_ms == 0 {
                        break;
                    }
                    start_ms = rolling.base().period_at(start_ms - 1, zone)?.start_ms;
                }
                Ok(Period { start_ms, ..last })
            }
        }
    }

    /// The period that follows one of this window; `None` after one without end.
    ///
    /// # Errors
    /// As [`Self::period_at`].
    pub fn period_after(self, period: &Period, zone: &TimeZone) -> Result<Option<Period>> {
        period.end_ms.map(|end_ms| self.period_at(end_ms, zone)).transpose()
    }

    /// The period of that label, as [`Self::period_at`] writes it.
    ///
    /// # Errors
    /// `Invalid` where no period of this window and zone has the label; the message shows a label that one has.
    pub fn period_named(self, label: &str, zone: &TimeZone) -> Result<Period> {
        let refused = || {
            let example = self
                .period_at(1_756_900_000_000, zone)
                .map_or_else(|_| String::new(), |period| period.label);
            Error::invalid(format!(
                "{label:?} is no period of the window {self}; a label such as {example:?} is accepted"
            ))
        };
        let instants_ms: Vec<i64> = match self {
            Self::All | Self::Decay(_) => vec![0],
            Self::Hourly => hour_minutes_ms(label).ok_or_else(refused)?.collect(),
            Self::Daily | Self::Weekly | Self::Monthly => {
                let first = self.first_date_of(label).ok_or_else(refused)?;
                vec![start_ms(first, zone).ok_or_else(refused)?.max(0)]
            }
            Self::Rolling(rolling) => {
                let last = rolling.base().period_named(label, zone);
                vec![last.map_err(|_| refused())?.start_ms]
            }
        };
        let mut periods =
            instants_ms.into_iter().filter_map(|at_ms| self.period_at(at_ms, zone).ok());
        periods.find(|period| period.label == label).ok_or_else(refused)
    }

    fn dated_period_at(self, at: Timestamp, zone: &TimeZone) -> Result<Period> {
        let outside = || Error::invalid("a time outside the calendar is not accepted");
        let at_ms = at.as_millisecond();
        let mut first = self.first_date(at.to_zoned(zone.clone()).date()).ok_or_else(outside)?;
        // The local date is at most a period off, where clocks went back across the boundary.
        while start_ms(first, zone).ok_or_else(outside)? > at_ms {
            first =
                self.first_date(first.yesterday().map_err(|_| outside())?).ok_or_else(outside)?;
        }
        loop {
            let next = self.next_first_date(first).ok_or_else(outside)?;
            let (start, end) = (
                start_ms(first, zone).ok_or_else(outside)?,
                start_ms(next, zone).ok_or_else(outside)?,
            );
            if at_ms < end {
                // A period that starts before 1970 starts at 1970 for us: no event is older.
                return Ok(Period {
                    label: self.date_label(first),
                    start_ms: start.max(0),
                    end_ms: Some(end),
                    present_from_ms: start.max(0),
                });
            }
            first = next;
        }
    }

    fn first_date(self, date: Date) -> Option<Date> {
        match self {
            Self::Weekly => {
                let week = date.iso_week_date();
                ISOWeekDate::new(week.year(), week.week(), Weekday::Monday)
                    .ok()
                    .map(ISOWeekDate::date)
            }
            Self::Monthly => Some(date.first_of_month()),
            _ => Some(date),
        }
    }

    fn next_first_date(self, first: Date) -> Option<Date> {
        match self {
            Self::Weekly => first.checked_add(1.week()).ok(),
            Self::Monthly => first.checked_add(1.month()).ok(),
            _ => first.tomorrow().ok(),
        }
    }

    fn date_label(self, first: Date) -> String {
        match self {
            Self::Weekly => {
                let week = first.iso_week_date();
                format!("{:04}-W{:02}", week.year(), week.week())
            }
            Self::Monthly => format!("{:04}-{:02}", first.year(), first.month()),
            _ => format!("{:04}-{:02}-{:02}", first.year(), first.month(), first.day()),
        }
    }

    fn first_date_of(self, label: &str) -> Option<Date> {
        let number = |text: Option<&str>| text?.parse::<i16>().ok();
        match self {
            Self::Weekly => {
                let (year, week) = label.split_once("-W")?;
                let week =
                    ISOWeekDate::new(year.parse().ok()?, week.parse().ok()?, Weekday::Monday)
                        .ok()?;
                Some(week.date())
            }
            Self::Monthly => {
                let (year, month) = label.split_once('-')?;
                Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()
            }
            _ => {
                let mut parts = label.splitn(3, '-');
                let (year, month, day) =
                    (number(parts.next())?, number(parts.next())?, number(parts.next())?);
                Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()
            }
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Hourly => f.write_str("hourly"),
            Self::Daily => f.write_str("daily"),
            Self::Weekly => f.write_str("weekly"),
            Self::Monthly => f.write_str("monthly"),
            Self::Rolling(Rolling { unit, count }) => write!(f, "{count}{}", unit.suffix()),
            Self::Decay(HalfLife { unit, count }) => {
                write!(f, "{DECAY}{count}{}", unit.suffix())
            }
        }
    }
}

impl FromStr for Window {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let named = Self::EVERY.into_iter().find(|window| window.to_string() == name);
        let counted = || match name.strip_prefix(DECAY) {
            Some(half_life) => {
                let (unit, count) = span_named(half_life)?;
                (unit != Unit::Month).then_some(Self::Decay(HalfLife { unit, count }))
            }
            None => {
                let (unit, count) = span_named(name)?;
                Some(Self::Rolling(Rolling { unit, count }))
            }
        };
        named.or_else(counted).ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            Error::invalid(format!(
                "{shown:?}: there is no such window; all, hourly, daily, weekly, monthly, rolling ones of 1 to {COUNT_MAX} hours, days, weeks or months such as 24h, 7d, 12w and 3mo, and decaying ones with a half-life of as many hours, days or weeks such as decay:12h and decay:7d are accepted"
            ))
        })
    }
}

/// What the names of windows that decay begin with.
const DECAY: &str = "decay:";

/// How many of what, by its one name: no sign, no zeros in front.
fn span_named(name: &str) -> Option<(Unit, u16)> {
    let suffix = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let unit = Unit::EVERY.into_iter().find(|unit| unit.suffix() == suffix)?;
    let digits = &name[..name.len() - suffix.len()];
    let count: u16 = digits.parse().ok()?;
    ((1..=COUNT_MAX).contains(&count) && count.to_string() == digits).then_some((unit, count))
}

/// Reads an IANA zone name.
///
/// # Errors
/// `Invalid` where the built-in time zone database does not have it.
pub fn parse_zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some()).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        Error::invalid(format!("{shown:?} is no time zone; an IANA name such as \"Europe/Berlin\" or \"UTC\" is accepted"))
    })
}

/// The first instant of a local date: its midnight, the earlier one where there are two, the end of the gap where there is none.
fn start_ms(date: Date, zone: &TimeZone) -> Option<i64> {
    let midnight = zone.to_ambiguous_zoned(date.at(0, 0, 0, 0)).compatible().ok()?;
    Some(midnight.timestamp().as_millisecond())
}

/// The local hour around an instant, cut where the offset changes inside it.
fn hour_at(at: Timestamp, zone: &TimeZone) -> Period {
    let offset = zone.to_offset(at);
    let offset_s = i64::from(offset.seconds());
    let local_hour_s = (at.as_second() + offset_s).div_euclid(HOUR_S) * HOUR_S;
    let (mut start_s, mut end_s) = (local_hour_s - offset_s, local_hour_s - offset_s + HOUR_S);
    let other_offset_at = |second: i64| {
        Timestamp::from_second(second).is_ok_and(|instant| zone.to_offset(instant) != offset)
    };
    // A transition may change the zone's abbreviation only: the offset decides.
    for transition in zone.preceding(at + 1.nanosecond()) {
        let second = transition.timestamp().as_second();
        if second <= start_s {
            break;
        }
        if other_offset_at(second - 1) {
            start_s = second;
            break;
        }
    }
    for transition in zone.following(at) {
        let second = transition.timestamp().as_second();
        if second >= end_s {
            break;
        }
        if other_offset_at(second) {
            end_s = second;
            break;
        }
    }
    let local = offset.to_datetime(at);
    let label = format!(
        "{}T{:02}{}",
        Window::Daily.date_label(local.date()),
        local.hour(),
        offset_label(offset)
    );
    Period {
        label,
        start_ms: (start_s * 1000).max(0),
        end_ms: Some(end_s * 1000),
        present_from_ms: (start_s * 1000).max(0),
    }
}

fn offset_label(offset: Offset) -> String {
    let sign = if offset.seconds() < 0 { '-' } else { '+' };
    let total = offset.seconds().unsigned_abs();
    let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
    if seconds == 0 {
        format!("{sign}{hours:02}:{minutes:02}")
    } else {
        format!("{sign}{hours:02}:{minutes:02}:{seconds:02}")
    }
}

/// The whole minutes of the hour of that label: an hour cut short may have only some of them.
fn hour_minutes_ms(label: &str) -> Option<impl Iterator<Item = i64>> {
    let (date, rest) = label.split_once('T')?;
    let hour = rest.get(..2)?.parse::<i8>().ok()?;
    let sign = match rest.get(2..3)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let mut offset_s = 0;
    for (part, unit) in rest.get(3..)?.splitn(3, ':').zip([3600, 60, 1]) {
        offset_s += i64::from(part.parse::<u16>().ok()?) * unit;
    }
    let date = Window::Daily.first_date_of(date)?;
    let hour = date.to_datetime(jiff::civil::Time::new(hour, 0, 0, 0).ok()?);
    let start_s = hour.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second() - sign * offset_s;
    Some((0..60).map(move |minute| ((start_s + minute * 60) * 1000).max(0)))
}

#[cfg(test)]
mod tests {
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

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn hours(window: Window, at: &str, zone: &str) -> (String, f64) {
        let period = window.period_at(ms(at), &parse_zone(zone).unwrap()).unwrap();
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
        // St John's set its clocks from 00:01 back to 23:01: one day of 25 hours, entered at the first midnight.
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
    fn a_label_that_names_no_period_is_refused_with_an_example() {
        let zone = parse_zone("Pacific/Apia").unwrap();
        for (window, label) in [
            (Window::Daily, "2011-12-30"),
            (Window::Daily, "2025-02-29"),
            (Window::Weekly, "2025-W54"),
            (Window::Weekly, "2025-W1"),
            (Window::Monthly, "2025-13"),
            (Window::Monthly, "2025-9"),
            (Window::Hourly, "2025-01-01T25+13:00"),
            (Window::Hourly, "2025-01-01"),
            (Window::All, "2025"),
            (Window::Daily, ""),
        ] {
            let refused = window.period_named(label, &zone).unwrap_err().to_string();
            assert!(refused.contains("such as"), "{refused}");
        }
    }

    #[test]
    fn a_name_that_is_no_window_s_is_refused_with_some_that_are() {
        for (name, reason) in [
            ("0d", "no such"),
            ("07d", "no such"),
            ("367d", "1 to 366"),
            ("99999999999d", "no such"),
            ("7", "no such"),
            ("d", "no such"),
            ("3m", "3mo"),
            ("+7d", "no such"),
            ("decay:", "decay:7d"),
            ("decay:1mo", "hours, days or weeks"),
            ("decay:0d", "no such"),
            ("decay:07d", "no such"),
            ("decay:367h", "1 to 366"),
            ("decay:decay:7d", "no such"),
            ("Decay:7d", "no such"),
            ("yearly", "no such"),
            ("", "no such"),
        ] {
            assert!(name.parse::<Window>().unwrap_err().to_string().contains(reason), "{name}");
        }
    }

    #[test]
    fn a_rolling_window_is_named_by_its_last_period() {
        let zone = parse_zone("Europe/London").unwrap();
        let check = |window: &str, at: &str, label: &str, start: &str, end: &str| {
            let window: Window = window.parse().unwrap();
            let period = window.period_at(ms(at), &zone).unwrap();
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
        // Of the three hours one comes twice.
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
        fn periods_are_contiguous_and_hold_their_instants(at_ms in 0_i64..4_200_000_000_000, zone in proptest::sample::select(&ZONES[..])) {
            let zone = parse_zone(zone).unwrap();
            let rolling = ["1d", "7d", "24h", "5w", "3mo", "decay:36h"].map(|name| name.parse().unwrap());
            for window in Window::EVERY.into_iter().chain(rolling) {
                let period = window.period_at(at_ms, &zone).unwrap();
                prop_assert!(period.start_ms <= period.present_from_ms && period.present_from_ms <= at_ms);
                prop_assert_eq!(window.period_named(&period.label, &zone).unwrap(), period.clone());
                prop_assert_eq!(&window.period_at(period.present_from_ms, &zone).unwrap(), &period);
                let Some(end_ms) = period.end_ms else { continue };
                prop_assert!(at_ms < end_ms);
                prop_assert!(end_ms - period.start_ms <= window.longest_ms().unwrap());
                prop_assert_eq!(&window.period_at(end_ms - 1, &zone).unwrap(), &period);
                let next = window.period_at(end_ms, &zone).unwrap();
                prop_assert_eq!(next.present_from_ms, end_ms);
                prop_assert_ne!(next.label, period.label);
            }
        }
    }
}
