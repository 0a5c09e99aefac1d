//! Statements that many tables share: rows inserted in chunks, and rows locked by writing them as they are.

use ranking::id::Partition;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter};

/// How many rows one statement inserts.
const ROWS_MAX: usize = 1000;

/// Inserts rows, so many in a statement.
pub async fn insert_chunked<E, A>(
    db: &impl ConnectionTrait,
    rows: Vec<A>,
    on_conflict: Option<OnConflict>,
) -> Result<(), DbErr>
where
    E: EntityTrait,
    A: sea_orm::ActiveModelTrait<Entity = E> + Send,
{
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut insert = E::insert_many(rows.by_ref().take(ROWS_MAX));
        if let Some(on_conflict) = &on_conflict {
            insert = insert.on_conflict(on_conflict.clone());
        }
        insert.exec_without_returning(db).await?;
    }
    Ok(())
}

/// Stands for a row that a statement sets to what it is, for its lock.
pub fn cursor_lock(
    partition: Partition,
) -> sea_orm::UpdateMany<crate::history::log_cursor::Entity> {
    use crate::history::log_cursor::{Column, Entity};
    Entity::update_many()
        .col_expr(Column::Seq, Expr::col(Column::Seq))
        .filter(Column::Partition.eq(i32::from(partition.0)))
}

/// Sets the windows of a board's row that is there, has just these in its generation, and is not moving to another number of shards: to what they are, for its lock.
pub fn set_windows(
    row: &crate::board::Model,
    windows: &str,
) -> sea_orm::UpdateMany<crate::board::Entity> {
    use crate::board::{ActiveModel, Column, Entity};
    Entity::update_many()
        .set(ActiveModel { windows: Set(windows.to_owned()), ..Default::default() })
        .filter(Column::No.eq(row.no))
        .filter(Column::DeletedAtMs.is_null())
        .filter(Column::Generation.eq(row.generation))
        .filter(Column::Reshard.is_null())
        .filter(Column::Windows.eq(&row.windows))
}
