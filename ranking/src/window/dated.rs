//! Periods that begin on a local date: days, weeks, months, quarters and years.

use jiff::ToSpan;
use jiff::civil::{Date, ISOWeekDate, Weekday};

/// The end of the label of a week that begins on another day than Monday: ISO 8601 for a span of
/// seven days from its first one.
const WEEK_SUFFIX: &str = "/P7D";

/// A kind of period that begins on a local date, at the board's reset hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dated {
    /// A local day.
    Day,
    /// A week from this day on; an ISO week from Monday.
    Week(Weekday),
    /// A calendar month.
    Month,
    /// January to March, April to June, July to September, October to December.
    Quarter,
    /// A calendar year.
    Year,
}

impl Dated {
    /// The first date of the period that a date belongs to.
    pub(super) fn first_date(self, date: Date) -> Option<Date> {
        match self {
            Self::Day => Some(date),
            Self::Week(first) => {
                let days = i64::from(date.weekday().since(first));
                date.checked_sub(days.days()).ok()
            }
            Self::Month => Some(date.first_of_month()),
            Self::Quarter => Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1).ok(),
            Self::Year => Some(date.first_of_year()),
        }
    }

    /// The first date of the next period, from the first date of a period.
    pub(super) fn next_first_date(self, first: Date) -> Option<Date> {
        let span = match self {
            Self::Day => 1.day(),
            Self::Week(_) => 1.week(),
            Self::Month => 1.month(),
            Self::Quarter => 3.months(),
            Self::Year => 1.year(),
        };
        first.checked_add(span).ok()
    }

    /// The label of the period that begins on a date.
    pub(super) fn label(self, first: Date) -> String {
        let (year, month) = (first.year(), first.month());
        match self {
            Self::Day => format!("{year:04}-{month:02}-{:02}", first.day()),
            Self::Week(Weekday::Monday) => {
                let week = first.iso_week_date();
                format!("{:04}-W{:02}", week.year(), week.week())
            }
            Self::Week(_) => format!("{}{WEEK_SUFFIX}", Self::Day.label(first)),
            Self::Month => format!("{year:04}-{month:02}"),
            Self::Quarter => format!("{year:04}-Q{}", (month - 1) / 3 + 1),
            Self::Year => format!("{year:04}"),
        }
    }

    /// The first date of the period with a label. It also accepts labels that [`Self::label`] would
    /// spell in another way.
    pub(super) fn first_date_of(self, label: &str) -> Option<Date> {
        match self {
            Self::Day => {
                let mut parts = label.splitn(3, '-');
                let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
                Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
            }
            Self::Week(Weekday::Monday) => {
                let (year, week) = label.split_once("-W")?;
                monday(year.parse().ok()?, week.parse().ok()?)
            }
            Self::Week(_) => Self::Day.first_date_of(label.strip_suffix(WEEK_SUFFIX)?),
            Self::Month => {
                let (year, month) = label.split_once('-')?;
                Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()
            }
            Self::Quarter => {
                let (year, quarter) = label.split_once("-Q")?;
                let quarter: i8 =
                    quarter.parse().ok().filter(|quarter| (1..=4).contains(quarter))?;
                Date::new(year.parse().ok()?, (quarter - 1) * 3 + 1, 1).ok()
            }
            Self::Year => Date::new(label.parse().ok()?, 1, 1).ok(),
        }
    }
}

fn monday(year: i16, week: i8) -> Option<Date> {
    ISOWeekDate::new(year, week, Weekday::Monday).ok().map(ISOWeekDate::date)
}
