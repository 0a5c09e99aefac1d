//! The final standings that webhooks have been told of, and the changes of the history since that
//! may have made them others.

use std::collections::BTreeMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, OnConflict};
use sea_orm::{Condition, IntoActiveModel, QueryOrder, QuerySelect};

use ranking::id::BoardNo;

/// The periods of a window that are remembered, the latest ones.
pub const TOLD_PERIODS_MAX: u64 = 32;

/// The boards of one UPDATE.
const BOARDS_MAX: usize = 100;

/// A row of `told_period`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "told_period")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The name of the window.
    #[sea_orm(primary_key, auto_increment = false)]
    pub window: String,
    /// The start of the period, in Unix milliseconds.
    #[sea_orm(primary_key, auto_increment = false)]
    pub start_ms: i64,
    /// The end of the period, in Unix milliseconds.
    pub end_ms: i64,
    /// 1 for the standings at the end, and one more with each correction.
    pub version: i32,
    /// A digest of that version.
    pub digest: String,
    /// The number of transactions since then that may have changed the standings.
    pub changes: i64,
}

no_relations!();

/// Remembers a period, and forgets those before the last [`TOLD_PERIODS_MAX`] of its window. Part
/// of the transaction that tells of its end.
pub async fn insert(db: &impl ConnectionTrait, row: Model) -> Result<(), DbErr> {
    let of_window =
        Condition::all().add(Column::BoardNo.eq(row.board_no)).add(Column::Window.eq(&row.window));
    // A season that was moved may begin as another one did.
    let mut known = OnConflict::columns([Column::BoardNo, Column::Window, Column::StartMs]);
    known.update_columns([Column::EndMs, Column::Version, Column::Digest, Column::Changes]);
    let inserted = Entity::insert(row.into_active_model()).on_conflict(known);
    inserted.exec_without_returning(db).await?;
    let oldest: Option<i64> = Entity::find()
        .select_only()
        .column(Column::StartMs)
        .filter(of_window.clone())
        .order_by_desc(Column::StartMs)
        .offset(TOLD_PERIODS_MAX)
        .limit(1)
        .into_tuple()
        .one(db)
        .await?;
    if let Some(oldest) = oldest {
        let old = of_window.add(Column::StartMs.lte(oldest));
        Entity::delete_many().filter(old).exec(db).await?;
    }
    Ok(())
}

/// Notes that the history of boards was changed from an instant on, each in Unix milliseconds. Part
/// of the transaction that changes it.
pub async fn note_changes(
    db: &impl ConnectionTrait,
    since_ms: &BTreeMap<BoardNo, i64>,
) -> Result<(), DbErr> {
    let boards: Vec<(&BoardNo, &i64)> = since_ms.iter().collect();
    for chunk in boards.chunks(BOARDS_MAX) {
        let periods = chunk.iter().fold(Condition::any(), |periods, (no, since_ms)| {
            let of_board = Column::BoardNo.eq(no.0).and(Column::EndMs.gt(**since_ms));
            periods.add(of_board)
        });
        Entity::update_many()
            .col_expr(Column::Changes, Expr::col(Column::Changes).add(1))
            .filter(periods)
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Some periods that changes may have made others.
pub async fn changed(db: &impl ConnectionTrait, limit: u64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Changes.gt(0))
        .order_by_asc(Column::Changes)
        .order_by_asc(Column::BoardNo)
        .order_by_asc(Column::StartMs)
        .limit(limit)
        .all(db)
        .await
}

/// Replaces what is known of a period, as all its changes were looked at. Returns false if there
/// are more by now, or another process was first.
pub async fn settle(
    db: &impl ConnectionTrait,
    before: &Model,
    (version, digest): (i32, &str),
) -> Result<bool, DbErr> {
    let settled = Entity::update_many()
        .col_expr(Column::Version, Expr::value(version))
        .col_expr(Column::Digest, Expr::value(digest))
        .col_expr(Column::Changes, Expr::value(0_i64))
        .filter(Column::BoardNo.eq(before.board_no))
        .filter(Column::Window.eq(&before.window))
        .filter(Column::StartMs.eq(before.start_ms))
        .filter(Column::Version.eq(before.version))
        .filter(Column::Changes.eq(before.changes))
        .exec(db)
        .await?;
    Ok(settled.rows_affected == 1)
}

/// Deletes the rows of a board that is gone.
pub async fn delete_of(db: &impl ConnectionTrait, board_no: i64) -> Result<(), DbErr> {
    Entity::delete_many().filter(Column::BoardNo.eq(board_no)).exec(db).await.map(drop)
}
