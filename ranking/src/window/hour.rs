//! Hours of the local clock: cut at changes of the offset, and labeled with it.

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::HOUR_S;
use super::dated::Dated;

/// An hour of the local clock.
pub(super) struct Hour {
    pub(super) label: String,
    /// The first instant in it, in Unix milliseconds.
    pub(super) start_ms: i64,
    /// The first instant after it, in Unix milliseconds.
    pub(super) end_ms: i64,
}

/// The local hour around an instant, cut at a change of the offset.
pub(super) fn hour_at(at: Timestamp, zone: &TimeZone) -> Hour {
    let offset = zone.to_offset(at);
    let offset_s = i64::from(offset.seconds());
    let local_hour_s = (at.as_second() + offset_s).div_euclid(HOUR_S) * HOUR_S;
    let (mut start_s, mut end_s) = (local_hour_s - offset_s, local_hour_s - offset_s + HOUR_S);
    let other_offset_at = |second: i64| {
        Timestamp::from_second(second).is_ok_and(|instant| zone.to_offset(instant) != offset)
    };
    // A transition may change nothing but the zone's abbreviation: only a new offset cuts the hour.
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
    let label =
        format!("{}T{:02}{}", Dated::Day.label(local.date()), local.hour(), offset_label(offset));
    Hour { label, start_ms: (start_s * 1000).max(0), end_ms: end_s * 1000 }
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

/// The starts of the minutes of the hour with this label: a cut hour may have only some of them.
pub(super) fn hour_minutes_ms(label: &str) -> Option<impl Iterator<Item = i64>> {
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
    let date = Dated::Day.first_date_of(date)?;
    let hour = date.to_datetime(jiff::civil::Time::new(hour, 0, 0, 0).ok()?);
    let start_s = hour.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second() - sign * offset_s;
    Some((0..60).map(move |minute| ((start_s + minute * 60) * 1000).max(0)))
}
