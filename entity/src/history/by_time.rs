//! Scores in the order of the times at which they were earned.

use std::ops::Range;

use ranking::commit::EventPlace;
use ranking::id::BoardNo;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, Order, QueryOrder};

use crate::history::score_event::{Column, Entity, Model};
use crate::sql::{beyond, first_rows};

/// A score's place in the order of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// The time, in Unix milliseconds.
    pub at_ms: i64,
    /// The place in history.
    pub place: EventPlace,
}

impl Timed {
    /// The place of an event; `None` unless it is a score.
    pub fn of(row: &Model) -> Option<Self> {
        Some(Self { at_ms: row.at_ms?, place: row.place().ok()? })
    }
}

/// A page of a board's scores that were earned in a range of times, in the order of those: at most
/// `limit` behind one, and true if there are more.
pub async fn page(
    db: &impl ConnectionTrait,
    board: BoardNo,
    times: Range<i64>,
    after: Option<Timed>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    use Column::{AtMs, BoardNo as No, EventIndex, Partition, Seq};
    let order = [AtMs, Partition, Seq, EventIndex];
    // Redundant behind a score, but an index serves this condition.
    let from_ms = after.map_or(times.start, |after| after.at_ms.max(times.start));
    let behind = after.map(|Timed { at_ms, place }| {
        let last = [at_ms, place.partition.0.into(), place.seq as i64, place.index.into()];
        let values: Vec<_> = order.into_iter().map(Expr::col).zip(last).collect();
        beyond(&values, &Order::Asc)
    });
    let select = Entity::find()
        .filter(No.eq(board.0))
        .filter(AtMs.gte(from_ms))
        .filter(AtMs.lt(times.end))
        .filter(Condition::all().add_option(behind));
    first_rows(db, order.into_iter().fold(select, QueryOrder::order_by_asc), limit).await
}
