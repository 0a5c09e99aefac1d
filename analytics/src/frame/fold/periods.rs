//! The periods that events belong to, joined to a frame of events.

use super::first_place;
use super::keys::{of_each, same_type};
use anyhow::Result;
use polars::prelude::{LazyFrame, col};
use ranking::board::Board;
use ranking::window::{Period, Window};

/// Every period from the first event to the last, in order.
pub(crate) fn periods(
    board: &Board,
    window: Window,
    span_ms: Option<(i64, i64)>,
) -> Result<Vec<Period>> {
    let Some((first, last)) = span_ms else {
        return Ok(vec![]);
    };
    let mut periods = vec![window.period_at(first, &board.rules.calendar)?];
    while let Some(end_ms) =
        periods.last().and_then(|period| period.end_ms).filter(|&end_ms| end_ms <= last)
    {
        periods.push(window.period_at(end_ms, &board.rules.calendar)?);
    }
    Ok(periods)
}

/// The periods of a rolling window: for each period of the base window the one that ends with it,
/// up to the one after that of `through_ms`.
pub(crate) fn rolling_periods(
    board: &Board,
    window: Window,
    bases: &[Period],
    through_ms: i64,
) -> Result<Vec<Period>> {
    let calendar = &board.rules.calendar;
    let through = window.period_at(through_ms, calendar)?.end_ms;
    let mut periods = vec![];
    let mut next_ms = bases.first().map(|period| period.start_ms);
    while let Some(at_ms) = next_ms.filter(|&at_ms| Some(at_ms) <= through) {
        let period = window.period_at(at_ms, calendar)?;
        next_ms = period.end_ms;
        periods.push(period);
    }
    Ok(periods)
}

/// Adds each event's period, as an index; a negative one if that is a gap between seasons. It
/// bisects, since a join would have to sort all events.
pub(crate) fn in_periods(events: LazyFrame, periods: &[Period]) -> LazyFrame {
    let starts: Vec<i64> = periods.iter().map(|period| period.start_ms).collect();
    let gaps: Vec<bool> = periods.iter().map(Period::is_gap).collect();
    let place = match starts.len() {
        0 | 1 if gaps != [true] => first_place(),
        _ => {
            let place = of_each(move |at_ms| {
                let place = starts.partition_point(|&start_ms| start_ms <= at_ms) as i64 - 1;
                let is_gap = usize::try_from(place).is_ok_and(|place| gaps[place]);
                Some(if is_gap { -1 } else { place })
            });
            col("at_ms").map(place, same_type)
        }
    };
    events.with_column(place.alias("period"))
}
