//! The names of windows and time zones.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;

use super::{COUNT_MAX, HalfLife, Rolling, Unit, Window};
use crate::error::{Error, Result, shown};

/// The prefix of the names of decaying windows.
const DECAY: &str = "decay:";

/// The prefix of the names of windows that count attempts.
const ATTEMPTS: &str = "attempts:";

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Hourly => f.write_str("hourly"),
            Self::Daily => f.write_str("daily"),
            Self::Weekly => f.write_str("weekly"),
            Self::Monthly => f.write_str("monthly"),
            Self::Quarterly => f.write_str("quarterly"),
            Self::Yearly => f.write_str("yearly"),
            Self::Season => f.write_str("season"),
            Self::Rolling(Rolling { unit, count }) => write!(f, "{count}{}", unit.suffix()),
            Self::Decay(HalfLife { unit, count }) => {
                write!(f, "{DECAY}{count}{}", unit.suffix())
            }
            Self::Attempts(_) => write!(f, "{ATTEMPTS}{}", self.of_periods()),
        }
    }
}

impl FromStr for Window {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let named = Self::EVERY.into_iter().find(|window| window.to_string() == name);
        let of_attempts = || {
            let of = name.strip_prefix(ATTEMPTS)?;
            Self::EVERY.into_iter().find(|window| window.to_string() == of)?.attempts()
        };
        let spanning = || match name.strip_prefix(DECAY) {
            Some(half_life) => {
                let (unit, count) = span_named(half_life)?;
                (unit != Unit::Month).then_some(Self::Decay(HalfLife { unit, count }))
            }
            None => {
                let (unit, count) = span_named(name)?;
                Some(Self::Rolling(Rolling { unit, count }))
            }
        };
        named.or_else(of_attempts).or_else(spanning).ok_or_else(|| no_window(name))
    }
}

impl Window {
    /// The window with this name, if a client may ask for it.
    ///
    /// # Errors
    /// `Invalid`, with the accepted names.
    pub fn requested(name: &str) -> Result<Self> {
        let window: Self = name.parse()?;
        if window.counted().is_some() { Err(no_window(name)) } else { Ok(window) }
    }
}

fn no_window(name: &str) -> Error {
    let shown = shown(name);
    let names = Window::EVERY.map(|window| window.to_string()).join(", ");
    Error::invalid(format!(
        "invalid window {shown}: expected {names}, a rolling one of 1 to {COUNT_MAX} hours, days, weeks or months such as 24h, 7d, 12w or 3mo, or a decaying one with a half-life of as many hours, days or weeks such as decay:12h or decay:7d"
    ))
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

/// A count and its unit in their one spelling: no sign, no leading zeros.
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
/// `Invalid` if the built-in time zone database does not have it.
pub fn parse_zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some()).ok_or_else(|| {
        let shown = shown(name);
        Error::invalid(format!(
            "invalid time zone {shown}: expected an IANA name such as \"Europe/Berlin\" or \"UTC\""
        ))
    })
}
