//! Runs of the integrity diff.

use sea_orm::ActiveValue::Set;
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait;

use crate::sql::first_rows;

/// A row of `integrity_run`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "integrity_run")]
pub struct Model {
    /// The run's number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The board; none if the run covers all boards.
    pub board_no: Option<i64>,
    /// Start time, in Unix milliseconds.
    pub started_at_ms: i64,
    /// End time, in Unix milliseconds; none while it runs.
    pub finished_at_ms: Option<i64>,
    /// The number of entries compared.
    pub checked: i64,
    /// The number of differences found.
    pub found: i64,
    /// The number of differences repaired.
    pub repaired: i64,
    /// True if it compares only `all` in Redis with its rows in SQL.
    pub is_partial: bool,
}

no_relations!();

/// Inserts a run over one board or all, and returns its number.
pub async fn begin(
    db: &impl ConnectionTrait,
    board_no: Option<i64>,
    now_ms: i64,
) -> Result<i64, DbErr> {
    let run = ActiveModel {
        board_no: Set(board_no),
        started_at_ms: Set(now_ms),
        checked: Set(0),
        found: Set(0),
        repaired: Set(0),
        ..Default::default()
    };
    Ok(Entity::insert(run).exec(db).await?.last_insert_id)
}

/// Notes that a run compares only `all` in Redis with its rows in SQL.
pub async fn note_partial(db: &impl ConnectionTrait, id: i64) -> Result<(), DbErr> {
    let noted = ActiveModel { id: Set(id), is_partial: Set(true), ..Default::default() };
    Entity::update(noted).exec_without_returning(db).await?;
    Ok(())
}

/// The figures that comparisons add to their run.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// The number of entries compared.
    pub checked: i64,
    /// The number of differences found.
    pub found: i64,
    /// The number of differences repaired.
    pub repaired: i64,
}

/// Adds figures to a run.
pub async fn add(db: &impl ConnectionTrait, id: i64, figures: Figures) -> Result<(), DbErr> {
    let plus = |column: Column, number: i64| Expr::col(column).add(number);
    Entity::update_many()
        .col_expr(Column::Checked, plus(Column::Checked, figures.checked))
        .col_expr(Column::Found, plus(Column::Found, figures.found))
        .col_expr(Column::Repaired, plus(Column::Repaired, figures.repaired))
        .filter(Column::Id.eq(id))
        .exec(db)
        .await?;
    Ok(())
}

/// Ends a run.
pub async fn end(db: &impl ConnectionTrait, id: i64, now_ms: i64) -> Result<(), DbErr> {
    let ended =
        ActiveModel { id: Set(id), finished_at_ms: Set(Some(now_ms)), ..Default::default() };
    Entity::update(ended).exec_without_returning(db).await?;
    Ok(())
}

/// The run of a number.
pub async fn find(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).one(db).await
}

/// A page of the runs over one board alone, or of all runs, newest first: at most `limit` with
/// numbers below `before`; and true if there are more.
pub async fn page(
    db: &impl ConnectionTrait,
    board_no: Option<i64>,
    before: Option<i64>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let mut select = runs(board_no).order_by_desc(Column::Id);
    if let Some(before) = before {
        select = select.filter(Column::Id.lt(before));
    }
    first_rows(db, select, limit).await
}

/// The number of the runs over one board alone, or of all runs.
pub async fn count(db: &impl ConnectionTrait, board_no: Option<i64>) -> Result<u64, DbErr> {
    runs(board_no).count(db).await
}

fn runs(board_no: Option<i64>) -> Select<Entity> {
    match board_no {
        Some(no) => Entity::find().filter(Column::BoardNo.eq(no)),
        None => Entity::find(),
    }
}

/// The last run over all boards, and all that they have, that has ended.
pub async fn last(db: &impl ConnectionTrait) -> Result<Option<Model>, DbErr> {
    ended().one(db).await
}

/// The last such run that found no difference.
pub async fn last_clean(db: &impl ConnectionTrait) -> Result<Option<Model>, DbErr> {
    ended().filter(Column::Found.eq(0)).one(db).await
}

/// The runs over all boards, and all that they have, that have ended, newest first.
fn ended() -> Select<Entity> {
    Entity::find()
        .filter(Column::BoardNo.is_null())
        .filter(Column::FinishedAtMs.is_not_null())
        .filter(Column::IsPartial.eq(false))
        .order_by_desc(Column::Id)
}
