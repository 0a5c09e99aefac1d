//! The history of the SQL schema. A step that was released is frozen; a change is a new step.

mod m20261122_000001_tables;

pub use sea_orm_migration::MigratorTrait;
use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, SqliteTransactionMode, TransactionOptions,
    TransactionTrait,
};

/// Every step, oldest first.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(m20261122_000001_tables::Migration)]
    }
}

/// Who applies steps in PostgreSQL has this advisory lock: "laurel".
const LOCK: i64 = 0x6c61_7572_656c;

/// Applies every step that is missing: all of them, or none where one fails or the process ends. Of processes that start at once one does it, and the
/// others wait: for ten minutes at most in PostgreSQL, in SQLite for as long as the connection waits for a lock.
///
/// # Errors
/// Where a step fails, others take too long, or the database is of a newer version.
pub async fn up(db: &DatabaseConnection) -> Result<(), DbErr> {
    if Migrator::get_pending_migrations_read_only(db).await?.is_empty() {
        return Ok(());
    }
    let options = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    let transaction = db.begin_with_options(options).await?;
    if transaction.get_database_backend() == DbBackend::Postgres {
        let lock =
            format!("SET LOCAL lock_timeout = '10min'; SELECT pg_advisory_xact_lock({LOCK})");
        transaction.execute_unprepared(&lock).await?;
    }
    Migrator::up(&transaction, None).await?;
    transaction.commit().await
}
