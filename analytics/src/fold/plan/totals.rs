//! The totals that the states of an engine must have, counted by polars from the events.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use polars::prelude::{
    Column, DataType, Field, Int64Chunked, IntoColumn, LazyFrame, Schema, col, len,
};
use ranking::board::{Board, Policy};
use ranking::id::MemberId;
use ranking::shard::Partitions;
use ranking::window::Window;

use super::{Total, WindowPeriods};
use crate::frame::counted::{Counted, in_parts};
use crate::frame::fold::keys::same_type;
use crate::frame::fold::periods::{in_periods, periods};
use crate::frame::fold::scores::{policy, scores};
use crate::frame::fold::sums::{HALF, halves};

/// The totals of a window by partition; partitions without events have none.
pub(super) fn totals(
    board: &Board,
    partitions: Partitions,
    window: Window,
    events: &Counted,
    through_ms: i64,
) -> Result<Vec<Total>> {
    let base = window.rolling().map_or(window, |rolling| rolling.base());
    let bases = periods(board, base, events.span_ms)?;
    let open = WindowPeriods::of(board, window, events.span_ms, through_ms)?.open;
    let [high, low] = halves(col("score"));
    let placed = in_periods(scores(board, window, events), &bases);
    let counts = with_partition(placed, board, partitions)
        .group_by([col("partition"), col("period")])
        .agg([len().cast(DataType::Int64).alias("events"), high.alias("high"), low.alias("low")]);
    let counts = in_parts(counts)?;
    let number = |name: &str| -> Result<_> { Ok(counts.column(name)?.i64()?.clone()) };
    let (partition, place) = (number("partition")?, number("period")?);
    let (events, high, low) = (number("events")?, number("high")?, number("low")?);
    let mut totals: BTreeMap<u16, (u64, i128)> = BTreeMap::new();
    for row in 0..counts.height() {
        let at = |column: &Int64Chunked| column.get(row).context("a total is null");
        // A gap between seasons has no place.
        let Ok(place) = usize::try_from(at(&place)?) else { continue };
        let count = window.rolling().map_or(1, |rolling| usize::from(rolling.count()));
        let within = open.iter().skip(place).take(count).filter(|open| **open).count();
        let score = i128::from(at(&high)?) * i128::from(HALF) + i128::from(at(&low)?);
        let total = totals.entry(at(&partition)?.try_into()?).or_default();
        total.0 += at(&events)?.unsigned_abs() * within as u64;
        total.1 += score * within as i128;
    }
    totals.retain(|_, (events, _)| *events > 0);
    let adds_up = policy(board, window) == Policy::Sum;
    let total = |(partition, (events, score)): (u16, (u64, i128))| Total {
        partition,
        events,
        score: adds_up.then(|| score.to_string()),
    };
    Ok(totals.into_iter().map(total).collect())
}

/// Adds the partition of each row's member.
fn with_partition(rows: LazyFrame, board: &Board, partitions: Partitions) -> LazyFrame {
    let board = board.clone();
    let partition = move |members: Column| {
        let of = |member: Option<&str>| {
            let member = MemberId::new(member?).ok()?;
            Some(i64::from(partitions.of_member(&board, &member).0))
        };
        let found: Int64Chunked = members.str()?.iter().map(of).collect();
        Ok(found.into_column())
    };
    let number = |schema: &Schema, field: &Field| {
        let field = same_type(schema, field)?;
        Ok(Field::new(field.name().clone(), DataType::Int64))
    };
    rows.with_column(col("member").map(partition, number).alias("partition"))
}
