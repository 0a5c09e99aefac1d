//! Rank keys as polars expressions.

use polars::prelude::{
    Column, Expr, Field, Int64Chunked, IntoColumn, NamedFrom, PolarsResult, Schema, Series, col,
    lit, when,
};
use ranking::board::{Board, Direction, TieBreak};
use ranking::window::Window;

/// The rank key of a score and its ticks since the period's first: `score field << T | time field`.
pub(crate) fn key(board: &Board, window: Window, score: Expr, ticks: Expr) -> Expr {
    let rules = &board.rules;
    let (low, high) = rules.range(window);
    let unit = 1_i64 << rules.layout(window).time_bits();
    let score_field = match rules.direction {
        Direction::HighFirst => lit(high) - score,
        Direction::LowFirst => score - lit(low),
    };
    let time_field = match rules.ties(window) {
        TieBreak::Member => lit(0_i64),
        TieBreak::Earliest => ticks,
        TieBreak::Latest => lit(unit - 1) - ticks,
    };
    score_field * lit(unit) + time_field
}

/// As [`key`], for the nearest score and time that have a key in the window.
pub(crate) fn nearest_key(board: &Board, window: Window) -> Expr {
    let (low, high) = board.rules.range(window);
    let ticks_max = (1_i64 << board.rules.layout(window).time_bits()) - 1;
    let within = |value: Expr, low: i64, high: i64| {
        when(value.clone().lt(lit(low)))
            .then(lit(low))
            .when(value.clone().gt(lit(high)))
            .then(lit(high))
            .otherwise(value)
    };
    let ticks = within(col("tick") - col("first_tick"), 0, ticks_max);
    key(board, window, within(col("score"), low, high), ticks)
}

/// Maps each number of a column.
pub(crate) fn of_each(of: impl Fn(i64) -> Option<i64>) -> impl Fn(Column) -> PolarsResult<Column> {
    move |numbers: Column| {
        let found = numbers.i64()?.iter();
        let found: Int64Chunked = found.map(|number| of(number?)).collect();
        Ok(found.with_name(numbers.name().clone()).into_column())
    }
}

pub(crate) fn same_type(_: &Schema, field: &Field) -> PolarsResult<Field> {
    Ok(field.clone())
}

pub(crate) fn column(name: &str, values: Vec<i64>) -> Column {
    Series::new(name.into(), values).into()
}
