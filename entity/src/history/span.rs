//! The events of a board that decide on its standings in a span of time.

use std::ops::Range;

use ranking::board::Board;
use ranking::id::BoardNo;
use sea_orm::sea_query::UnionType;
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryTrait, Select};

use super::score_event::{Column, Entity, in_order};
use crate::sql::dialect::{integer, statement};

/// The number of events that [`of_span`] selects, or `max` if that many are of the span or of no
/// time.
///
/// # Errors
/// If SQL does not answer.
pub async fn count_in(
    db: &impl ConnectionTrait,
    board: BoardNo,
    span: &Range<i64>,
    max: u64,
) -> Result<u64, DbErr> {
    // An index holds all that is counted. A sum of two counts reads no more than `max` of each.
    let count = |condition: &str| {
        format!(
            r#"(SELECT COUNT(*) FROM (SELECT 1 FROM "score_event" WHERE "board_no" = $1 AND {condition} LIMIT $2) AS "some")"#
        )
    };
    let (timeless, within) =
        (count(r#""at_ms" IS NULL"#), count(r#""at_ms" >= $3 AND "at_ms" < $4"#));
    let backend = db.get_database_backend();
    let count = integer(backend, &format!("{timeless} + {within}"));
    let values = [board.0.into(), (max as i64).into(), span.start.into(), span.end.into()];
    let asked = statement(backend, format!(r#"SELECT {count} AS "count""#), values);
    let row = db.query_one_raw(asked).await?;
    let count: Option<i64> = row.map(|row| row.try_get("", "count")).transpose()?;
    Ok(count.unwrap_or(0).unsigned_abs())
}

/// True if a score of a board was earned in a span, in Unix milliseconds.
///
/// # Errors
/// If SQL does not answer.
pub async fn has_events(
    db: &impl ConnectionTrait,
    board_no: i64,
    span: &Range<i64>,
) -> Result<bool, DbErr> {
    let within = Entity::find().filter(Column::BoardNo.eq(board_no));
    let within = within.filter(Column::AtMs.gte(span.start)).filter(Column::AtMs.lt(span.end));
    Ok(within.one(db).await?.is_some())
}

/// The scores of a board that were earned in a span, in Unix milliseconds, and the removals and
/// voids of any time, in the order of their members' histories.
pub fn of_span(board: &Board, span: &Range<i64>) -> Select<Entity> {
    let of_board = || Entity::find().filter(Column::BoardNo.eq(board.no.0));
    let timeless = of_board().filter(Column::AtMs.is_null());
    let within = of_board().filter(Column::AtMs.gte(span.start)).filter(Column::AtMs.lt(span.end));
    // Each has the index. For a condition with OR, SQLite may read all events of the board.
    let mut both = within.into_query();
    both.union(UnionType::All, timeless.into_query());
    let mut events = Entity::find();
    QueryTrait::query(&mut events).from_clear().from_subquery(both, Entity);
    in_order(events, board)
}
