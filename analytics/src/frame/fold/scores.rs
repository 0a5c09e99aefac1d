//! The scores that a window folds.

use polars::prelude::{DataType, LazyFrame, col, lit};
use ranking::board::{Board, Policy};
use ranking::window::Window;

use crate::frame::counted::Counted;

/// The scores that count in a window, with their ticks. A window of attempts has 1 for each of
/// everyone's.
pub(crate) fn scores(board: &Board, window: Window, events: &Counted) -> LazyFrame {
    let number = |number: i64| lit(number).cast(DataType::Int64);
    if window.counted().is_some() {
        let everyone = events.scores().filter(col("segment").eq(lit("")));
        return everyone.with_columns([number(1).alias("score"), number(0).alias("tick")]);
    }
    // Times are not negative, so integer division is the floor.
    let tick = col("at_ms").floor_div(lit(i64::from(board.rules.tick_ms)));
    events.scores().with_column(tick.alias("tick"))
}

/// The policy by which a window folds: attempts are added up.
pub(crate) fn policy(board: &Board, window: Window) -> Policy {
    window.counted().map_or(board.rules.policy, |_| Policy::Sum)
}
