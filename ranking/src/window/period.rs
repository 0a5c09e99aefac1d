//! Periods: the concrete spans of a window in a time zone, and their labels.

use jiff::{Timestamp, ToSpan};

use super::calendar::Calendar;
use super::dated::Dated;
use super::hour::{Hour, hour_at, hour_minutes_ms};
use super::{DAY_S, HOUR_S, Rolling, Unit, Window};
use crate::error::{Error, Result, shown};

/// The latest instant that has periods: the end of the year 9000, in Unix milliseconds.
pub const AT_MS_MAX: i64 = 221_845_391_999_999;

/// One concrete span of a window: `2025-09-03`, `2025-W36`, `2025-09`, `2025-10-26T02+01:00`,
/// `all`. A rolling window's period is named for the last base period in it: `2025-09-03` of `7d`
/// begins on August 28.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Period {
    /// Its name, unique within the window and calendar.
    pub label: String,
    /// The first instant in it, in Unix milliseconds; 0 for `all`.
    pub start_ms: i64,
    /// The first instant after it, in Unix milliseconds; `None` for `all`.
    pub end_ms: Option<i64>,
    /// The instant at which it became the present one, in Unix milliseconds: its start, or the
    /// start of the last base period of a rolling window.
    pub present_from_ms: i64,
}

/// A period as a list of those with entries has it, in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedPeriod {
    /// The instant at which it became the present one, in Unix milliseconds.
    pub present_from_ms: i64,
    /// The label.
    pub label: String,
}

impl Period {
    /// The single period of `all` and of decaying windows.
    pub fn all() -> Self {
        Self { label: "all".into(), start_ms: 0, end_ms: None, present_from_ms: 0 }
    }

    /// True if it is the time between two seasons, before the first or after the last: no event
    /// counts in it, and it has no label.
    pub fn is_gap(&self) -> bool {
        self.label.is_empty()
    }

    /// True if it is the present period at an instant.
    pub fn is_present(&self, at_ms: i64) -> bool {
        self.present_from_ms <= at_ms && self.end_ms.is_none_or(|end_ms| at_ms < end_ms)
    }
}

impl Rolling {
    /// The number of base periods from the start of `from` to the start of `to`, a later one or the
    /// same. It may be off by one where clocks changed in between.
    pub fn periods_between(self, from: &Period, to: &Period) -> u64 {
        let each_s = match self.unit {
            Unit::Hour => HOUR_S,
            Unit::Day => DAY_S,
            Unit::Week => 7 * DAY_S,
            // 400 years have 146,097 days. No run of months differs from so many average ones by
            // half a month.
            Unit::Month => 146_097 * DAY_S / 4800,
        };
        let (each_ms, elapsed_ms) = (each_s * 1000, to.present_from_ms - from.present_from_ms);
        u64::try_from((elapsed_ms + each_ms / 2) / each_ms).unwrap_or(0)
    }

    /// The start of the period whose last base period is this one, in Unix milliseconds, found by
    /// walking back: O(N).
    fn start_ms(self, last: &Period, calendar: &Calendar) -> Result<i64> {
        let mut start_ms = last.start_ms;
        // No event is older than 1970, and no window reaches beyond.
        for _ in 1..self.count {
            if start_ms == 0 {
                break;
            }
            start_ms = self.base().period_at(start_ms - 1, calendar)?.start_ms;
        }
        Ok(start_ms)
    }

    /// As [`Self::start_ms`], by the difference alone; `None` where local days were skipped, or
    /// hours cut, so that the difference does not tell.
    fn regular_start_ms(self, last: &Period, calendar: &Calendar) -> Option<i64> {
        let before = i64::from(self.count) - 1;
        let (kind, span) = match self.unit {
            Unit::Hour => return self.regular_hour_ms(last, calendar),
            Unit::Day => (Dated::Day, before.days()),
            Unit::Week => (Dated::Week(calendar.week_start), before.weeks()),
            Unit::Month => (Dated::Month, before.months()),
        };
        let first = kind.first_date_of(&last.label)?.checked_sub(span).ok()?;
        let start_ms = calendar.start_ms(first)?;
        if kind == Dated::Day && start_ms > 0 {
            let irregular_ms = last.start_ms - start_ms - before * DAY_S * 1000;
            // Clocks that change move a day's begin by hours; at the date line a day is skipped.
            if irregular_ms.abs() > DAY_S * 1000 / 2 {
                return None;
            }
        }
        Some(start_ms.max(0))
    }

    fn regular_hour_ms(self, last: &Period, calendar: &Calendar) -> Option<i64> {
        let start_ms = last.start_ms - (i64::from(self.count) - 1) * HOUR_S * 1000;
        let begin = Timestamp::from_millisecond(last.start_ms).ok()? + 1.nanosecond();
        let offset_s = |second: i64| {
            let instant = Timestamp::from_second(second).ok()?;
            Some(i64::from(calendar.zone.to_offset(instant).seconds()))
        };
        let seconds = calendar.zone.preceding(begin).map(|change| change.timestamp().as_second());
        let mut within = seconds.take_while(|second| second * 1000 > start_ms - HOUR_S * 1000);
        // A change by whole hours, between two of them, cuts none.
        let cuts_none = |second: i64| {
            let (before, after) = (offset_s(second - 1)?, offset_s(second)?);
            Some((after - before) % HOUR_S == 0 && (second + before) % HOUR_S == 0)
        };
        let is_regular = within.all(|second| cuts_none(second) == Some(true));
        is_regular.then_some(start_ms.max(0))
    }
}

impl Window {
    /// The period that the instant `at_ms` (Unix milliseconds, 0 to [`AT_MS_MAX`]) belongs to.
    ///
    /// # Errors
    /// `Invalid` if the instant is outside that range.
    pub fn period_at(self, at_ms: i64, calendar: &Calendar) -> Result<Period> {
        if !(0..=AT_MS_MAX).contains(&at_ms) {
            return Err(Error::invalid("invalid time: expected 1970 to 9000"));
        }
        let at = Timestamp::from_millisecond(at_ms)
            .map_err(|_| Error::invalid("invalid time: expected an instant within the calendar"))?;
        match self {
            Self::All | Self::Decay(_) => Ok(Period::all()),
            Self::Hourly => {
                let Hour { label, start_ms, end_ms } = hour_at(at, &calendar.zone);
                Ok(Period { label, start_ms, end_ms: Some(end_ms), present_from_ms: start_ms })
            }
            Self::Daily => dated_period_at(Dated::Day, at, calendar),
            Self::Weekly => dated_period_at(Dated::Week(calendar.week_start), at, calendar),
            Self::Monthly => dated_period_at(Dated::Month, at, calendar),
            Self::Quarterly => dated_period_at(Dated::Quarter, at, calendar),
            Self::Yearly => dated_period_at(Dated::Year, at, calendar),
            Self::Season => Ok(calendar.season_at(at_ms)),
            Self::Rolling(rolling) => {
                let last = rolling.base().period_at(at_ms, calendar)?;
                let start_ms = match rolling.regular_start_ms(&last, calendar) {
                    Some(start_ms) => start_ms,
                    None => rolling.start_ms(&last, calendar)?,
                };
                Ok(Period { start_ms, ..last })
            }
            Self::Attempts(_) => self.of_periods().period_at(at_ms, calendar),
        }
    }

    /// The next period of this window; `None` after one without end.
    ///
    /// # Errors
    /// As [`Self::period_at`].
    pub fn period_after(self, period: &Period, calendar: &Calendar) -> Result<Option<Period>> {
        period.end_ms.map(|end_ms| self.period_at(end_ms, calendar)).transpose()
    }

    /// The period of this window before another one; `None` if there is none. Gaps between seasons
    /// are passed over.
    ///
    /// # Errors
    /// As [`Self::period_at`].
    pub fn period_before(self, period: &Period, calendar: &Calendar) -> Result<Option<Period>> {
        let mut start_ms = period.present_from_ms;
        while self.has_periods() && start_ms > 0 {
            let before = self.period_at(start_ms - 1, calendar)?;
            if !before.is_gap() {
                return Ok(Some(before));
            }
            start_ms = before.present_from_ms;
        }
        Ok(None)
    }

    /// The period with this label, as [`Self::period_at`] writes it.
    ///
    /// # Errors
    /// `Invalid` if no period of this window and calendar has the label; the message shows a label
    /// that one has.
    pub fn period_named(self, label: &str, calendar: &Calendar) -> Result<Period> {
        if let Some(counted) = self.counted() {
            return counted.period_named(label, calendar);
        }
        if self == Self::Season {
            return season_named(label, calendar);
        }
        let refused = || {
            let example = self
                .period_at(1_756_900_000_000, calendar)
                .map_or_else(|_| String::new(), |period| period.label);
            Error::invalid(format!(
                "invalid period {} of the window {self}: expected a label such as {example:?}",
                shown(label)
            ))
        };
        let dated = |kind: Dated| {
            let first = kind.first_date_of(label).ok_or_else(refused)?;
            Ok::<_, Error>(vec![calendar.start_ms(first).ok_or_else(refused)?.max(0)])
        };
        let instants_ms: Vec<i64> = match self {
            Self::All | Self::Decay(_) | Self::Season | Self::Attempts(_) => vec![0],
            Self::Hourly => hour_minutes_ms(label).ok_or_else(refused)?.collect(),
            Self::Daily => dated(Dated::Day)?,
            Self::Weekly => dated(Dated::Week(calendar.week_start))?,
            Self::Monthly => dated(Dated::Month)?,
            Self::Quarterly => dated(Dated::Quarter)?,
            Self::Yearly => dated(Dated::Year)?,
            Self::Rolling(rolling) => {
                let last = rolling.base().period_named(label, calendar);
                vec![last.map_err(|_| refused())?.start_ms]
            }
        };
        let mut periods =
            instants_ms.into_iter().filter_map(|at_ms| self.period_at(at_ms, calendar).ok());
        periods.find(|period| period.label == label).ok_or_else(refused)
    }
}

fn season_named(name: &str, calendar: &Calendar) -> Result<Period> {
    if let Some(season) = calendar.season_named(name) {
        return Ok(season.period());
    }
    Err(Error::invalid(match calendar.seasons.last() {
        Some(last) => format!(
            "invalid season {}: expected the name of a season such as {:?}",
            shown(name),
            last.name
        ),
        None => format!("invalid season {}: the board has no season yet", shown(name)),
    }))
}

fn dated_period_at(kind: Dated, at: Timestamp, calendar: &Calendar) -> Result<Period> {
    let outside = || Error::invalid("invalid time: expected an instant within the calendar");
    let first_date = |date| kind.first_date(date).ok_or_else(outside);
    let start = |date| calendar.start_ms(date).ok_or_else(outside);
    let at_ms = at.as_millisecond();
    let mut first = first_date(at.to_zoned(calendar.zone.clone()).date())?;
    // The local date is a day or a period too late before the reset hour, or where clocks went back
    // across the boundary.
    while start(first)? > at_ms {
        first = first_date(first.yesterday().map_err(|_| outside())?)?;
    }
    loop {
        let next = kind.next_first_date(first).ok_or_else(outside)?;
        let end_ms = start(next)?;
        if at_ms < end_ms {
            // No event is older than 1970: a period cannot begin earlier.
            let start_ms = start(first)?.max(0);
            return Ok(Period {
                label: kind.label(first),
                start_ms,
                end_ms: Some(end_ms),
                present_from_ms: start_ms,
            });
        }
        first = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::window::parse_zone;

    /// Zones whose clocks change by hours or by half of one, at midnight, or by a day.
    const ZONES: [&str; 8] = [
        "UTC",
        "Europe/London",
        "America/New_York",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Pacific/Kwajalein",
        "Pacific/Kiritimati",
        "America/Sao_Paulo",
    ];

    /// Instants around which days were skipped there, and the first years.
    const ODD_MS: [i64; 5] =
        [1_325_239_200_000, 745_934_400_000, 788_868_000_000, 0, 40_000_000_000];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_rolling_period_begins_where_walking_back_ends(
            zone in proptest::sample::select(&ZONES[..]),
            reset_hour in 0_i32..24,
            name in "[1-9][0-9]?[0-9]?(h|d|w|mo)",
            odd in proptest::sample::select(&ODD_MS[..]),
            from_odd_ms in -40_000_000_000_i64..40_000_000_000,
            any_ms in 0_i64..4_000_000_000_000,
            is_any: bool,
        ) {
            let calendar = Calendar::of_zone(parse_zone(zone).unwrap()).reset_at(reset_hour).unwrap();
            let Ok(Window::Rolling(rolling)) = name.parse() else { return Ok(()) };
            let at_ms = if is_any { any_ms } else { (odd + from_odd_ms).max(0) };
            let found = Window::Rolling(rolling).period_at(at_ms, &calendar).unwrap();
            let last = rolling.base().period_at(at_ms, &calendar).unwrap();
            let start_ms = rolling.start_ms(&last, &calendar).unwrap();
            prop_assert_eq!(found, Period { start_ms, ..last });
        }
    }
}
