//! Statements that many tables share: transactions, inserts, pages, and updates that lock a
//! row.

pub mod blocks;
pub mod by_member;
pub mod dialect;
pub mod retention;
pub mod signs;

use std::sync::Arc;

use ranking::id::PartitionNo;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, SimpleExpr};
use sea_orm::sqlx::{self, Postgres, Transaction};
use sea_orm::{
    AccessMode, ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseConnection,
    DatabaseTransaction, DbBackend, DbErr, EntityTrait, IsolationLevel, Iterable, Order,
    QueryFilter, QuerySelect, RuntimeErr, Select, SqlErr, SqliteTransactionMode,
    TransactionOptions, TransactionTrait,
};

/// The most rows of one INSERT, and the most values: SQLite takes 32,766 parameters.
const ROWS_MAX: usize = 1000;
const VALUES_MAX: usize = 32_766;

/// Begins a transaction that writes. A caller may be dropped at any point of it.
///
/// SQLite gives it the write lock at once. It would refuse a transaction that has read, and does
/// not wait with it, if another one writes.
pub async fn begin(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let mode = Some(SqliteTransactionMode::Immediate);
    begin_with(db, TransactionOptions { sqlite_transaction_mode: mode, ..Default::default() }).await
}

/// Begins a transaction that reads one state of the database, and writes nothing.
pub async fn begin_view(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let options = match db.get_database_backend() {
        DbBackend::Sqlite => TransactionOptions::default(),
        _ => TransactionOptions {
            isolation_level: Some(IsolationLevel::RepeatableRead),
            access_mode: Some(AccessMode::ReadOnly),
            ..Default::default()
        },
    };
    begin_with(db, options).await
}

/// As [`begin_view`], for a process that reads whole tables and then ends: no statement of its
/// session has a limit of time.
pub async fn begin_long_view(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let view = begin_view(db).await?;
    if let Some(sql) = dialect::unlimited(db.get_database_backend()) {
        view.execute_unprepared(sql).await?;
    }
    Ok(view)
}

/// Begins a transaction in a task of its own.
///
/// A dropped BEGIN of PostgreSQL would leave its connection inside a transaction that holds a
/// snapshot, as sqlx rolls back only what it has seen begin. If the caller is dropped, the task
/// drops the transaction when it is there, which rolls it back.
async fn begin_with(
    db: &DatabaseConnection,
    options: TransactionOptions,
) -> Result<DatabaseTransaction, DbErr> {
    let db = db.clone();
    let beginning = tokio::spawn(async move { db.begin_with_options(options).await });
    beginning
        .await
        .map_err(|error| DbErr::Custom(format!("a transaction did not begin: {error}")))?
}

/// As [`begin`] on PostgreSQL, for a writer that copies: a transaction of SeaORM gives no access to
/// COPY.
pub async fn begin_for_copy(
    db: &DatabaseConnection,
) -> Result<Transaction<'static, Postgres>, DbErr> {
    let pool = db.get_postgres_connection_pool().clone();
    // In a task of its own, for the same reason.
    let beginning = tokio::spawn(async move { pool.begin().await });
    let begun = beginning
        .await
        .map_err(|error| DbErr::Custom(format!("a transaction did not begin: {error}")))?;
    begun.map_err(of_sqlx)
}

/// An error of sqlx as SeaORM has it.
pub fn of_sqlx(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(Arc::new(error)))
}

/// Inserts a row unless there is one with its key, of these columns. Returns true if it did.
pub async fn insert_new<A>(
    db: &impl ConnectionTrait,
    row: A,
    key: impl IntoIterator<Item = <A::Entity as EntityTrait>::Column>,
) -> Result<bool, DbErr>
where
    A: sea_orm::ActiveModelTrait + Send,
{
    let insert = A::Entity::insert(row);
    if db.get_database_backend() == DbBackend::MySql {
        // A row that it passes over would count as a row that it found. An error ends a statement
        // there, and no transaction.
        let inserted = insert.exec_without_returning(db).await;
        return match inserted.as_ref().err().and_then(DbErr::sql_err) {
            Some(SqlErr::UniqueConstraintViolation(_)) => Ok(false),
            _ => inserted.map(|_| true),
        };
    }
    let known = OnConflict::columns(key).do_nothing().to_owned();
    Ok(insert.on_conflict(known).exec_without_returning(db).await? == 1)
}

/// Inserts rows in chunks of at most [`ROWS_MAX`].
pub async fn insert_chunked<E, A>(
    db: &impl ConnectionTrait,
    rows: Vec<A>,
    on_conflict: Option<OnConflict>,
) -> Result<(), DbErr>
where
    E: EntityTrait,
    A: sea_orm::ActiveModelTrait<Entity = E> + Send,
{
    let rows_max = (VALUES_MAX / E::Column::iter().count().max(1)).min(ROWS_MAX);
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut insert = E::insert_many(rows.by_ref().take(rows_max));
        if let Some(on_conflict) = &on_conflict {
            insert = insert.on_conflict(on_conflict.clone());
        }
        insert.exec_without_returning(db).await?;
    }
    Ok(())
}

/// The first rows of a selection, up to `limit`, and true if there are more.
pub(crate) async fn first_rows<E: EntityTrait>(
    db: &impl ConnectionTrait,
    select: Select<E>,
    limit: usize,
) -> Result<(Vec<E::Model>, bool), DbErr> {
    let mut rows = select.limit(limit as u64 + 1).all(db).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok((rows, more))
}

/// The condition for rows beyond some values in the order of expressions: those with smaller values
/// if the order is descending.
pub(crate) fn beyond(values: &[(SimpleExpr, i64)], order: &Order) -> Condition {
    let mut beyond = Condition::any();
    for last in 0..values.len() {
        let mut same = Condition::all();
        for (column, value) in &values[..last] {
            same = same.add(column.clone().eq(*value));
        }
        let (column, value) = values[last].clone();
        beyond = beyond.add(same.add(match order {
            Order::Desc => column.lt(value),
            _ => column.gt(value),
        }));
    }
    beyond
}

/// An update that leaves a partition's cursor as it is and so takes the lock of its row.
pub fn lock_cursor(
    partition: PartitionNo,
) -> sea_orm::UpdateMany<crate::history::log_cursor::Entity> {
    use crate::history::log_cursor::{Column, Entity};
    Entity::update_many()
        .col_expr(Column::Seq, Expr::col(Column::Seq))
        .filter(Column::Partition.eq(i32::from(partition)))
}

/// Sets the windows of a board's row by compare-and-set.
///
/// The update matches only if the board is not deleted, not moving to another number of shards, and
/// still has the windows and generation of `row`. With the present windows it serves as a lock of
/// the row.
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
