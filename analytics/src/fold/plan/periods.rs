//! The periods of windows, made by `ranking`, as the table that the statements join: an engine does
//! no arithmetic of time zones.

use std::collections::BTreeSet;

use anyhow::Result;
use polars::prelude::{Column, DataFrame, NamedFrom, Series, SortMultipleOptions, col, lit};
use ranking::board::Board;
use ranking::window::{Period, Window};

use crate::frame::counted::{Counted, in_parts};
use crate::frame::fold::periods::{periods, rolling_periods};

/// The length of an hour, in milliseconds.
pub const HOUR_MS: i64 = 3_600_000;

/// The end of a period that has none.
const NO_END_MS: i64 = i64::MAX;

/// The periods of a window in which events may lie, in order.
pub struct WindowPeriods {
    /// The periods; a rolling window's are named for the last of its base periods.
    pub periods: Vec<Period>,
    /// True for each period that the window has standings of: it is neither sealed nor a gap.
    pub open: Vec<bool>,
}

impl WindowPeriods {
    /// The periods of a window from the first to the last score, and of a rolling window on to the
    /// one after that of `through_ms`.
    pub fn of(
        board: &Board,
        window: Window,
        span_ms: Option<(i64, i64)>,
        through_ms: i64,
    ) -> Result<Self> {
        let base = window.rolling().map_or(window, |rolling| rolling.base());
        let mut found = periods(board, base, span_ms)?;
        if window.rolling().is_some() {
            found = rolling_periods(board, window, &found, through_ms)?;
        }
        let sealed_ms = board.sealed(window).sealing_before_ms;
        let is_open = |period: &Period| period.present_from_ms >= sealed_ms && !period.is_gap();
        let open = found.iter().map(is_open).collect();
        Ok(Self { periods: found, open })
    }
}

/// The table of periods: `window_name`, `hour` (since 1970), `place` (the number of a period in its
/// window), `period` (the label), `start_ms`, `end_ms`, `first_tick` and `is_open`. There is a row
/// for each hour with events that a period overlaps, and one for each period of a rolling window,
/// at the hour with which its last base period begins.
pub fn table(board: &Board, events: &Counted, through_ms: i64) -> Result<DataFrame> {
    let hours = hours(events)?;
    let mut rows = Rows::default();
    for &window in board.rules.windows.iter().filter(|window| window.has_periods()) {
        let found = WindowPeriods::of(board, window, events.span_ms, through_ms)?;
        let mut row = |place: usize, hour: i64| rows.push(board, window, &found, place, hour);
        if window.rolling().is_some() {
            for (place, period) in found.periods.iter().enumerate() {
                row(place, period.present_from_ms.div_euclid(HOUR_MS));
            }
            continue;
        }
        for &hour in &hours {
            let (start_ms, end_ms) = (hour * HOUR_MS, (hour + 1) * HOUR_MS);
            let of_start = found.periods.partition_point(|period| period.start_ms <= start_ms);
            for place in of_start.saturating_sub(1)..found.periods.len() {
                let period = &found.periods[place];
                if period.start_ms >= end_ms {
                    break;
                }
                if period.end_ms.is_none_or(|end_ms| start_ms < end_ms) && !period.is_gap() {
                    row(place, hour);
                }
            }
        }
    }
    rows.into_frame()
}

/// The hours that have scores, since 1970.
fn hours(events: &Counted) -> Result<BTreeSet<i64>> {
    let hours = events.rows.clone().filter(col("at_ms").is_not_null());
    let hours = hours.select([col("at_ms").floor_div(lit(HOUR_MS)).unique().alias("hour")]);
    let hours = in_parts(hours.sort(["hour"], SortMultipleOptions::default()))?;
    Ok(hours.column("hour")?.i64()?.iter().flatten().collect())
}

#[derive(Default)]
struct Rows {
    windows: Vec<String>,
    labels: Vec<String>,
    numbers: [Vec<i64>; 5],
    open: Vec<bool>,
}

impl Rows {
    fn push(
        &mut self,
        board: &Board,
        window: Window,
        found: &WindowPeriods,
        place: usize,
        hour: i64,
    ) {
        let period = &found.periods[place];
        self.windows.push(window.to_string());
        self.labels.push(period.label.clone());
        self.open.push(found.open[place]);
        let (end_ms, first_tick) =
            (period.end_ms.unwrap_or(NO_END_MS), board.rules.first_tick(period));
        let numbers = [hour, place as i64, period.start_ms, end_ms, first_tick];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.push(number);
        }
    }

    fn into_frame(self) -> Result<DataFrame> {
        let [hours, places, starts, ends, ticks] = self.numbers;
        let number = |name: &str, values: Vec<i64>| Column::from(Series::new(name.into(), values));
        Ok(DataFrame::new_infer_height(vec![
            Series::new("window_name".into(), self.windows).into(),
            number("hour", hours),
            number("place", places),
            Series::new("period".into(), self.labels).into(),
            number("start_ms", starts),
            number("end_ms", ends),
            number("first_tick", ticks),
            Series::new("is_open".into(), self.open).into(),
        ])?)
    }
}
