//! How far the webhooks have been told of the ends of each window's periods.

use std::collections::HashMap;

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

use crate::sql::insert_new;

/// A row of `ended_period`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "ended_period")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The name of the window.
    #[sea_orm(primary_key, auto_increment = false)]
    pub window: String,
    /// All periods that ended up to this instant have been told, in Unix milliseconds.
    pub until_ms: i64,
}

no_relations!();

/// The instants of some boards, by their numbers and the names of their windows.
pub async fn of_boards(
    db: &impl ConnectionTrait,
    numbers: &[i64],
) -> Result<HashMap<(i64, String), i64>, DbErr> {
    let of_boards = Entity::find().filter(Column::BoardNo.is_in(numbers.iter().copied()));
    let rows = of_boards.all(db).await?.into_iter();
    Ok(rows.map(|row| ((row.board_no, row.window), row.until_ms)).collect())
}

/// Moves the instant of a board's window. Part of the transaction that tells of the period. Returns
/// false if it is another one than `before` by now.
pub async fn advance(
    db: &impl ConnectionTrait,
    row: &Model,
    before: Option<i64>,
) -> Result<bool, DbErr> {
    let to = ActiveModel {
        board_no: Set(row.board_no),
        window: Set(row.window.clone()),
        until_ms: Set(row.until_ms),
    };
    let Some(before) = before else {
        return insert_new(db, to, [Column::BoardNo, Column::Window]).await;
    };
    let moved = Entity::update_many()
        .col_expr(Column::UntilMs, Expr::value(row.until_ms))
        .filter(Column::BoardNo.eq(row.board_no))
        .filter(Column::Window.eq(&row.window))
        .filter(Column::UntilMs.eq(before))
        .exec(db)
        .await?;
    Ok(moved.rows_affected == 1)
}

/// Deletes the rows of a board that is gone.
pub async fn delete_of(db: &impl ConnectionTrait, board_no: i64) -> Result<(), DbErr> {
    Entity::delete_many().filter(Column::BoardNo.eq(board_no)).exec(db).await.map(drop)
}
