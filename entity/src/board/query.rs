//! The queries of boards.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ranking::board::Board;
use ranking::board::admission::Admission;
use ranking::board::fair_play::{Excess, FairPlay};
use ranking::id::BoardNo;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{CaseStatement, Expr, ExprTrait, LikeExpr};
use sea_orm::{
    ActiveValue, Condition, IntoActiveModel, NotSet, QueryOrder, QuerySelect, QueryTrait, Set,
};

use super::display::Filter;
use super::seen::Seen;
use super::{ActiveModel, Column, Entity, Model, Visibility};
use crate::audit::{Act, board_value};
use crate::error::Result;
use crate::sql::{begin, first_rows};
use crate::webhook::outbox::{self, Notice};

/// The rows of one page.
const ROWS_MAX: u64 = 1000;

/// The boards of one page of [`shards_after`].
const SHARDS_MAX: u64 = 10_000;

/// The numbers in one SELECT.
const NUMBERS_MAX: usize = 500;

/// Changes to a board; columns of `None` stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The windows, as the column has them, and the generation that they make.
    pub windows: Option<(String, i32)>,
    /// The title.
    pub title: Option<String>,
    /// The column `display`, which may be empty.
    pub display: Option<Option<String>>,
    /// The lines that a search looks at.
    pub search: Option<String>,
    /// The clients that may read the board.
    pub visibility: Option<Visibility>,
    /// True if a member's own token may submit.
    pub self_submit: Option<bool>,
    /// The most members who may have joined at once; an inner `None` for no limit.
    pub entrants_max: Option<Option<i32>>,
    /// The times for which the board accepts scores; always set.
    pub admission: Admission,
    /// The limits beyond which a member's scores are suspicious; always set.
    pub fair_play: FairPlay,
}

/// All boards that are not deleted.
pub fn living() -> Select<Entity> {
    Entity::find().filter(Column::DeletedAtMs.is_null())
}

/// The rules of all boards, by number.
pub async fn all(db: &impl ConnectionTrait) -> Result<HashMap<BoardNo, Board>> {
    rules_of(living().all(db).await?)
}

/// The rules of some boards, by number; deleted boards are absent.
pub async fn some(
    db: &impl ConnectionTrait,
    numbers: BTreeSet<BoardNo>,
) -> Result<HashMap<BoardNo, Board>> {
    let numbers = numbers.into_iter().map(|no| no.0);
    rules_of(living().filter(Column::No.is_in(numbers)).all(db).await?)
}

/// As [`some`], of boards that SQL must know.
///
/// # Errors
/// `Unavailable` if SQL never gave out one of the numbers: a deleted board keeps its row.
pub async fn some_given_out(
    db: &impl ConnectionTrait,
    numbers: BTreeSet<BoardNo>,
) -> Result<HashMap<BoardNo, Board>> {
    let boards = some(db, numbers.clone()).await?;
    let mut others: Vec<i64> = numbers.into_iter().map(|no| no.0).collect();
    others.retain(|no| !boards.contains_key(&BoardNo(*no)));
    if others.is_empty() {
        return Ok(boards);
    }
    let deleted = of_numbers(db, &others).await?;
    match others.into_iter().find(|no| deleted.iter().all(|row| row.no != *no)) {
        None => Ok(boards),
        Some(no) => Err(ranking::Error::Unavailable(format!(
            "Redis has events of board number {no}, which this database never gave out: expected the database that Redis belongs to, or a later state of it; restore that one"
        ))
        .into()),
    }
}

/// The instant before which events of a board may be archived; `None` if no archive exists.
pub async fn archived_before_ms(
    db: &impl ConnectionTrait,
    no: BoardNo,
) -> Result<Option<i64>, DbErr> {
    let row = Entity::find_by_id(no.0).one(db).await?;
    Ok(row.and_then(|row| row.archived_before_ms))
}

/// The rules of boards, by number.
///
/// # Errors
/// `Corrupt` if a row is invalid.
fn rules_of(rows: Vec<Model>) -> Result<HashMap<BoardNo, Board>> {
    rows.iter().map(|row| Ok((BoardNo(row.no), row.to_ranking()?))).collect()
}

/// The board of a number, even if it was deleted.
pub async fn find(db: &impl ConnectionTrait, no: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(no).one(db).await
}

/// The boards of some numbers, even if they were deleted: one SELECT for each 500.
pub async fn of_numbers(db: &impl ConnectionTrait, numbers: &[i64]) -> Result<Vec<Model>, DbErr> {
    let mut rows = vec![];
    for some in numbers.chunks(NUMBERS_MAX) {
        let some = Entity::find().filter(Column::No.is_in(some.iter().copied()));
        rows.append(&mut some.all(db).await?);
    }
    Ok(rows)
}

/// As [`of_numbers`], without deleted boards, by number.
pub async fn living_of_numbers(
    db: &impl ConnectionTrait,
    numbers: &[i64],
) -> Result<BTreeMap<i64, Model>, DbErr> {
    let rows = of_numbers(db, numbers).await?.into_iter();
    Ok(rows.filter(|row| row.deleted_at_ms.is_none()).map(|row| (row.no, row)).collect())
}

/// The boards with the next higher numbers than one, even if they were deleted: at most 1,000, so
/// that many boards are never held as rows.
pub async fn after(db: &impl ConnectionTrait, no: i64) -> Result<Vec<Model>, DbErr> {
    let higher = Entity::find().filter(Column::No.gt(no));
    higher.order_by_asc(Column::No).limit(ROWS_MAX).all(db).await
}

/// The boards with the next higher numbers than one, even if they were deleted, each with its
/// number of shards, or 0 if a move or a deletion may have left something of it elsewhere: at most
/// 10,000.
pub async fn shards_after(db: &impl ConnectionTrait, no: i64) -> Result<Vec<(i64, i32)>, DbErr> {
    let is_settled = Column::DeletedAtMs
        .is_null()
        .and(Column::Reshard.is_null())
        .and(Column::FormerLayouts.eq("[]"));
    let shards = CaseStatement::new().case(is_settled, Column::Shards.into_expr()).finally(0);
    let shards: Expr = shards.into();
    let higher = Entity::find().select_only().column(Column::No).column_as(shards, "shards");
    let higher = higher.filter(Column::No.gt(no)).order_by_asc(Column::No).limit(SHARDS_MAX);
    higher.into_tuple().all(db).await
}

/// Boards with a later change than one, even if they were deleted, in the order of their changes:
/// at most `limit`.
pub async fn changed_after(
    db: &impl ConnectionTrait,
    change: i64,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    let later = Entity::find().filter(Column::Change.gt(change));
    later.order_by_asc(Column::Change).limit(limit).all(db).await
}

/// True if there is a private board.
pub async fn has_private(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    let private = living().filter(Column::Visibility.eq(Visibility::Private)).limit(1);
    let found: Option<i64> = private.select_only().column(Column::No).into_tuple().one(db).await?;
    Ok(found.is_some())
}

/// The board of a slug, unless it was deleted.
pub async fn of_slug(db: &impl ConnectionTrait, slug: &str) -> Result<Option<Model>, DbErr> {
    living().filter(Column::Slug.eq(slug)).one(db).await
}

/// The boards of some slugs, without deleted ones.
pub async fn of_slugs(
    db: &impl ConnectionTrait,
    slugs: &BTreeSet<&str>,
) -> Result<Vec<Model>, DbErr> {
    living().filter(Column::Slug.is_in(slugs.iter().copied())).all(db).await
}

/// A page of the boards of a filter, by slug: at most `limit` after a slug; and true
/// if there are more.
pub async fn page_after(
    db: &impl ConnectionTrait,
    filter: &Filter,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let mut select = filtered(filter).order_by_asc(Column::Slug);
    if let Some(after) = after {
        select = select.filter(Column::Slug.gt(after));
    }
    first_rows(db, select, limit).await
}

/// The page of the boards of a filter that ends just before a slug, or with the last
/// board. By slug, and true if there are more before it.
pub async fn page_before(
    db: &impl ConnectionTrait,
    filter: &Filter,
    before: Option<&str>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let mut select = filtered(filter).order_by_desc(Column::Slug);
    if let Some(before) = before {
        select = select.filter(Column::Slug.lt(before));
    }
    let (mut rows, more) = first_rows(db, select, limit).await?;
    rows.reverse();
    Ok((rows, more))
}

/// The number of the boards of a filter.
pub async fn count(db: &impl ConnectionTrait, filter: &Filter) -> Result<u64, DbErr> {
    filtered(filter).count(db).await
}

/// A page of the boards that a client sees and on which a member has an entry in `all`, by number:
/// at most `limit` after a number; and true if there are more.
pub async fn of_member(
    db: &impl ConnectionTrait,
    member: &str,
    seen: &Seen,
    after: Option<i64>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    use crate::standings::standing;
    let mut theirs = standing::Entity::find()
        .select_only()
        .column(standing::Column::BoardNo)
        .filter(standing::Column::Member.eq(member))
        .filter(standing::Column::Segment.eq(""));
    if let Some(after) = after {
        theirs = theirs.filter(standing::Column::BoardNo.gt(after));
    }
    let select =
        living().filter(seen.condition()).filter(Column::No.in_subquery(theirs.into_query()));
    first_rows(db, select.order_by_asc(Column::No), limit).await
}

fn filtered(filter: &Filter) -> Select<Entity> {
    let select = living().filter(filter.seen.condition());
    filter.patterns().fold(select, |select, pattern| {
        select.filter(Column::Search.like(LikeExpr::new(pattern).escape('!')))
    })
}

/// Inserts a board under a number of its own, and returns its row. Returns `None` if another board
/// has the slug.
pub async fn insert(db: &impl ConnectionTrait, row: Model) -> Result<Option<Model>, DbErr> {
    let row = ActiveModel { no: NotSet, ..row.into_active_model() };
    match Entity::insert(row).exec_with_returning(db).await {
        Ok(row) => Ok(Some(row)),
        Err(error) if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Changes a board by compare-and-set, with the row of the audit log. Returns its new row, or
/// `None` if another writer has changed the board since `row` was read.
pub async fn update(
    db: &DatabaseConnection,
    row: &Model,
    change: Change,
    act: &Act,
) -> Result<Option<Model>, DbErr> {
    let (windows, generation) = change.windows.unzip();
    let changed = ActiveModel {
        windows: or_keep(windows),
        generation: or_keep(generation),
        title: or_keep(change.title),
        display: or_keep(change.display),
        search: or_keep(change.search),
        visibility: or_keep(change.visibility),
        self_submit: or_keep(change.self_submit),
        entrants_max: or_keep(change.entrants_max),
        opens_at_ms: Set(change.admission.opens_at_ms),
        closes_at_ms: Set(change.admission.closes_at_ms),
        lateness_max_ms: Set(change.admission.lateness_max_ms),
        per_minute_max: Set(change.fair_play.per_minute_max.map(|max| max as i32)),
        delta_max: Set(change.fair_play.delta_max),
        excess_refused: Set(change.fair_play.excess == Excess::Refuse),
        ..Default::default()
    };
    // It writes first: SQLite refuses a transaction that reads first if another connection writes
    // before it does.
    let transaction = begin(db).await?;
    let updated = Entity::update_many().set(changed).filter(is_still(row));
    if updated.exec(&transaction).await?.rows_affected != 1 {
        transaction.rollback().await?;
        return Ok(None);
    }
    let Some(next) = find(&transaction, row.no).await? else { return Ok(None) };
    outbox::tell(&transaction, &[Notice::of_board(&next, "CHANGED", act.at_ms())]).await?;
    let act = act.clone().on(row).changed(board_value(row), board_value(&next));
    act.write(&transaction).await?;
    transaction.commit().await?;
    Ok(Some(next))
}

fn or_keep<V: Into<Value>>(value: Option<V>) -> ActiveValue<V> {
    value.map_or(NotSet, Set)
}

/// The condition that the columns that a [`Change`] depends on are still the same.
fn is_still(row: &Model) -> Condition {
    use Column::{
        ArchivedBeforeMs, ClosesAtMs, DeletedAtMs, DeltaMax, Display, ExcessRefused, Generation,
        LatenessMaxMs, No, OpensAtMs, PerMinuteMax, Reshard, Search, Windows,
    };
    let mut still = Condition::all()
        .add(No.eq(row.no))
        .add(DeletedAtMs.is_null())
        .add(Generation.eq(row.generation))
        .add(Windows.eq(&row.windows))
        .add(ExcessRefused.eq(row.excess_refused))
        .add(Search.eq(&row.search));
    for (column, value) in [
        (OpensAtMs, row.opens_at_ms),
        (ClosesAtMs, row.closes_at_ms),
        (LatenessMaxMs, row.lateness_max_ms),
        (ArchivedBeforeMs, row.archived_before_ms),
        (PerMinuteMax, row.per_minute_max.map(i64::from)),
        (DeltaMax, row.delta_max),
    ] {
        still = still.add(match value {
            Some(value) => column.eq(value),
            None => column.is_null(),
        });
    }
    for (column, text) in [(Reshard, &row.reshard), (Display, &row.display)] {
        still = still.add(match text {
            Some(text) => column.eq(text),
            None => column.is_null(),
        });
    }
    still
}
