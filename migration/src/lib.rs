//! The history of the SQL schema. A released step is frozen; a change of the schema is a new step.

mod m20261122_000001_tables;

pub use sea_orm_migration::MigratorTrait;
use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, SqliteTransactionMode, TransactionOptions,
    TransactionTrait,
};

/// All steps, oldest first.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(m20261122_000001_tables::Migration)]
    }
}

/// The PostgreSQL advisory lock of the process that applies steps: "laurel" in ASCII.
const LOCK: i64 = 0x6c61_7572_656c;

/// Applies all missing steps in one transaction: all of them, or none if one fails or the process
/// ends.
///
/// Of processes that start at once, one applies the steps and the others wait: up to ten minutes on
/// PostgreSQL, on SQLite as long as the connection waits for a lock.
///
/// # Errors
/// If a step fails, the wait is too long, or the database has steps that this version does not
/// know.
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

/// Reverts the last applied step and drops all data in its tables.
///
/// # Errors If no step is applied, or the step cannot be reverted.
pub async fn down(db: &DatabaseConnection) -> Result<(), DbErr> {
    Migrator::down(db, Some(1)).await
}

/// The name of each step, and its state: applied or pending.
///
/// # Errors If the database does not answer, or has steps that this version does not know.
pub async fn status(db: &DatabaseConnection) -> Result<Vec<(String, String)>, DbErr> {
    let steps = Migrator::get_migration_with_status(db).await?;
    Ok(steps.iter().map(|step| (step.name().to_owned(), step.status().to_string())).collect())
}
