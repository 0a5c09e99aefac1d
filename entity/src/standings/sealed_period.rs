//! Sealed standings: those of past periods that have left Redis.

use std::collections::{BTreeMap, BTreeSet};

use ranking::standings_id::StandingsId;
use ranking::window::Period;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, OnConflict};
use sea_orm::{ActiveValue::Set, Condition, NotSet, QueryOrder, QuerySelect};

use crate::sql::insert_chunked;

/// The most standings in one SELECT.
const ROWS_MAX: usize = 500;

/// A row of `sealed_period`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "sealed_period")]
pub struct Model {
    /// The number of these standings, never used again; their entries refer to it.
    #[sea_orm(primary_key)]
    pub no: i64,
    /// The board.
    pub board_no: i64,
    /// The generation that added the window.
    pub generation: i32,
    /// The window's name.
    pub window: String,
    /// The segment; empty for everyone.
    pub segment: String,
    /// The start of the period, in Unix milliseconds; for a rolling window, the start of its last
    /// period.
    pub start_ms: i64,
    /// The period's label.
    pub label: String,
    /// Time at which the first entry was stored, in Unix milliseconds.
    pub sealed_at_ms: i64,
    /// The number of entries. A transaction that adds or deletes some calls [`grow`].
    pub size: i64,
    /// The number of transactions that corrected entries.
    pub corrections: i64,
    /// Time of the last correction, in Unix milliseconds.
    pub corrected_at_ms: Option<i64>,
}

no_relations!();

/// The condition that a row has the board, window and segment of `id`.
pub fn of_list(id: &StandingsId) -> Condition {
    Condition::all()
        .add(Column::BoardNo.eq(id.board.0))
        .add(Column::Generation.eq(id.generation as i32))
        .add(Column::Window.eq(id.window.to_string()))
        .add(Column::Segment.eq(&id.segment))
}

/// The numbers of standings; those that have none are absent.
pub async fn numbers(
    db: &impl ConnectionTrait,
    standings: &BTreeMap<StandingsId, Period>,
) -> Result<BTreeMap<StandingsId, i64>, DbErr> {
    let mut lists: BTreeMap<StandingsId, BTreeMap<i64, &StandingsId>> = BTreeMap::new();
    for (id, period) in standings {
        let list = StandingsId { period: String::new(), ..id.clone() };
        lists.entry(list).or_default().insert(period.present_from_ms, id);
    }
    let mut numbers = BTreeMap::new();
    for (list, starts) in lists {
        let all: Vec<i64> = starts.keys().copied().collect();
        for chunk in all.chunks(ROWS_MAX) {
            let of_chunk = of_list(&list).add(Column::StartMs.is_in(chunk.iter().copied()));
            for row in Entity::find().filter(of_chunk).all(db).await? {
                numbers.insert(starts[&row.start_ms].clone(), row.no);
            }
        }
    }
    Ok(numbers)
}

/// Gives a number to each of the standings that has none.
pub async fn number(
    db: &impl ConnectionTrait,
    standings: &BTreeMap<StandingsId, Period>,
    now_ms: i64,
) -> Result<(), DbErr> {
    let row = |(id, period): (&StandingsId, &Period)| ActiveModel {
        no: NotSet,
        board_no: Set(id.board.0),
        generation: Set(id.generation as i32),
        window: Set(id.window.to_string()),
        segment: Set(id.segment.clone()),
        start_ms: Set(period.present_from_ms),
        label: Set(period.label.clone()),
        sealed_at_ms: Set(now_ms),
        size: Set(0),
        corrections: Set(0),
        corrected_at_ms: Set(None),
    };
    use Column::{BoardNo, Generation, Segment, StartMs, Window};
    let known = OnConflict::columns([BoardNo, Generation, Window, Segment, StartMs])
        .do_nothing_on([BoardNo])
        .to_owned();
    insert_chunked::<Entity, _>(db, standings.iter().map(row).collect(), Some(known)).await
}

/// The entries that were added to standings, less those that were deleted, by number.
#[derive(Debug, Default)]
#[must_use = "the sizes of the standings must follow"]
pub struct Growth(pub(super) BTreeMap<i64, i64>);

impl Growth {
    /// The numbers of the standings.
    pub fn standings(&self) -> impl Iterator<Item = i64> {
        self.0.keys().copied()
    }

    /// Adds those of another step.
    pub fn add(&mut self, other: Self) {
        for (no, entries) in other.0 {
            *self.0.entry(no).or_default() += entries;
        }
    }
}

/// Takes the locks of standings, by number. Transactions that take them in this order, once each,
/// wait for each other in turn.
pub async fn lock(db: &impl ConnectionTrait, numbers: &BTreeSet<i64>) -> Result<(), DbErr> {
    let numbers: Vec<i64> = numbers.iter().copied().collect();
    for chunk in numbers.chunks(ROWS_MAX) {
        let rows = Entity::find()
            .select_only()
            .column(Column::No)
            .filter(Column::No.is_in(chunk.iter().copied()))
            .order_by_asc(Column::No)
            .lock_exclusive();
        rows.into_tuple::<i64>().all(db).await?;
    }
    Ok(())
}

/// Adds to the sizes of standings, in the order of their numbers.
pub async fn grow(db: &impl ConnectionTrait, growth: Growth) -> Result<(), DbErr> {
    for (no, entries) in growth.0.into_iter().filter(|(_, entries)| *entries != 0) {
        Entity::update_many()
            .col_expr(Column::Size, Expr::col(Column::Size).add(entries))
            .filter(Column::No.eq(no))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Counts the entries of standings again, by number.
pub async fn recount(
    db: &impl ConnectionTrait,
    numbers: impl IntoIterator<Item = i64>,
) -> Result<(), DbErr> {
    use super::sealed_entry;
    for no in numbers {
        let of_no = sealed_entry::Column::StandingsNo.eq(no);
        let size = sealed_entry::Entity::find().filter(of_no).count(db).await?;
        Entity::update_many()
            .col_expr(Column::Size, Expr::value(size as i64))
            .filter(Column::No.eq(no))
            .exec(db)
            .await?;
    }
    Ok(())
}
