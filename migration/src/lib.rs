//! The history of the SQL schema. A released step is frozen; a change of the schema is a new step.

mod found;
#[macro_use]
mod statement;
#[macro_use]
mod m20261122_000001_tables;
mod m20261123_000002_fallback_indexes;
mod m20261123_000003_board_changes;
mod m20261124_000004_display;
mod m20261124_000005_metadata;
mod m20261124_000006_board_calendar;
mod m20261124_000007_merges;
mod m20261124_000008_entrants;
mod m20261124_000009_attributes;
mod m20261124_000010_token_names;
mod m20261124_000011_token_rights;
mod m20261124_000012_fair_play;
mod m20261124_000013_visibility;
mod m20261124_000014_audit;
mod m20261124_000015_erasures;
mod m20261125_000016_anonymized;
mod m20261126_000017_webhooks;
mod m20261126_000018_positions;
mod m20261127_000019_job_parts;
mod m20261127_000020_told_periods;
mod m20261128_000021_postgres_keys;
mod m20261128_000022_circles;
mod m20261128_000023_mirrors;
mod m20261129_000024_mariadb_texts;
mod m20261129_000025_partial_runs;

use std::sync::Arc;

pub use found::strange_tables;
pub use sea_orm_migration::MigratorTrait;
use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::sqlx::{self, ConnectOptions, Connection, MySql};
use sea_orm_migration::sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, RuntimeErr,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};

/// All steps, oldest first.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261122_000001_tables::Migration),
            Box::new(m20261123_000002_fallback_indexes::Migration),
            Box::new(m20261123_000003_board_changes::Migration),
            Box::new(m20261124_000004_display::Migration),
            Box::new(m20261124_000005_metadata::Migration),
            Box::new(m20261124_000006_board_calendar::Migration),
            Box::new(m20261124_000007_merges::Migration),
            Box::new(m20261124_000008_entrants::Migration),
            Box::new(m20261124_000009_attributes::Migration),
            Box::new(m20261124_000010_token_names::Migration),
            Box::new(m20261124_000011_token_rights::Migration),
            Box::new(m20261124_000012_fair_play::Migration),
            Box::new(m20261124_000013_visibility::Migration),
            Box::new(m20261124_000014_audit::Migration),
            Box::new(m20261124_000015_erasures::Migration),
            Box::new(m20261125_000016_anonymized::Migration),
            Box::new(m20261126_000017_webhooks::Migration),
            Box::new(m20261126_000018_positions::Migration),
            Box::new(m20261127_000019_job_parts::Migration),
            Box::new(m20261127_000020_told_periods::Migration),
            Box::new(m20261128_000021_postgres_keys::Migration),
            Box::new(m20261128_000022_circles::Migration),
            Box::new(m20261128_000023_mirrors::Migration),
            Box::new(m20261129_000024_mariadb_texts::Migration),
            Box::new(m20261129_000025_partial_runs::Migration),
        ]
    }
}

/// The PostgreSQL advisory lock of the process that applies steps: "laurel" in ASCII.
const LOCK: i64 = 0x6c61_7572_656c;

/// As [`LOCK`], of MariaDB and MySQL, whose locks are of all databases of a server.
const GET_LOCK: &str = "SELECT GET_LOCK(CONCAT('laurel.', MD5(DATABASE())), 600)";

/// The longest silence after which MariaDB and MySQL close a session, on every system: some servers
/// close one within a minute.
const KEEP_SESSION: &str = "SET SESSION wait_timeout = 2147483";

/// Applies all missing steps in one transaction: all of them, or none if one fails or the process
/// ends. MariaDB and MySQL know no such transactions: there the next start goes on.
///
/// Of processes that start at once, one applies the steps and the others wait: up to ten minutes on
/// a server, on SQLite as long as the connection waits for a lock.
///
/// # Errors
/// If a step fails, the wait is too long, the database has steps that this version does not know,
/// or another program has a table there whose name a step uses.
pub async fn up(db: &DatabaseConnection) -> Result<(), DbErr> {
    let pending = Migrator::get_pending_migrations_read_only(db).await;
    if pending.map_err(named)?.is_empty() {
        return Ok(());
    }
    if !is_transactional(db.get_database_backend()) {
        return up_apart(db, None).await;
    }
    let options = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    let transaction = db.begin_with_options(options).await?;
    up_in(&transaction, None).await?;
    transaction.commit().await
}

/// Applies the first missing steps in a transaction of the caller's, `steps` of them or all. Others
/// that apply steps wait on PostgreSQL until it ends.
///
/// # Errors
/// As [`up`].
pub async fn up_in(transaction: &DatabaseTransaction, steps: Option<u32>) -> Result<(), DbErr> {
    if transaction.get_database_backend() == DbBackend::Postgres {
        let lock =
            format!("SET LOCAL lock_timeout = '10min'; SELECT pg_advisory_xact_lock({LOCK})");
        transaction.execute_unprepared(&lock).await?;
    }
    found::check(transaction).await?;
    Migrator::up(transaction, steps).await
}

/// True if a change of the schema is part of the transaction that it is made in. MariaDB and MySQL
/// commit the transaction before it.
pub fn is_transactional(backend: DbBackend) -> bool {
    backend != DbBackend::MySql
}

/// Applies the first missing steps, `steps` of them or all, on MariaDB or MySQL: each statement for
/// itself. Others that apply steps wait until it ends.
///
/// # Errors
/// As [`up`].
pub async fn up_apart(db: &DatabaseConnection, steps: Option<u32>) -> Result<(), DbErr> {
    let failed = |error: sqlx::Error| DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)));
    // The lock is of a session, which is none of the pool's: that may have a single one.
    let options = db.get_mysql_connection_pool().connect_options();
    let mut session = options.connect().await.map_err(failed)?;
    // It does nothing meanwhile, and its lock is gone once the server closes it.
    sqlx::query(KEEP_SESSION).execute(&mut session).await.map_err(failed)?;
    let asked = sqlx::query_scalar::<MySql, Option<i64>>(GET_LOCK);
    let answer = asked.fetch_one(&mut session).await.map_err(failed)?;
    if answer != Some(1) {
        return Err(DbErr::Migration(
            "another process has been changing the schema for ten minutes: expected it to end"
                .to_owned(),
        ));
    }
    let applied = match found::check(db).await {
        Ok(()) => Migrator::up(db, steps).await,
        Err(error) => Err(error),
    };
    // The lock ends with its session, however that ends.
    let _ = session.close().await;
    applied
}

/// The names of all steps that this program knows, oldest first.
pub fn steps() -> Vec<String> {
    Migrator::migrations().iter().map(|step| step.name().to_owned()).collect()
}

/// The tables of the newest schema. A table comes after those that it refers to.
pub fn tables() -> Vec<String> {
    let mut tables = m20261122_000001_tables::tables();
    tables.extend(m20261124_000005_metadata::TABLES.map(str::to_owned));
    tables.extend(m20261124_000007_merges::TABLES.map(str::to_owned));
    tables.extend(m20261124_000008_entrants::TABLES.map(str::to_owned));
    tables.extend(m20261124_000012_fair_play::TABLES.map(str::to_owned));
    tables.extend(m20261124_000013_visibility::TABLES.map(str::to_owned));
    tables.extend(m20261124_000014_audit::TABLES.map(str::to_owned));
    tables.extend(m20261124_000015_erasures::TABLES.map(str::to_owned));
    tables.extend(m20261126_000017_webhooks::TABLES.map(str::to_owned));
    tables.extend(m20261126_000018_positions::TABLES.map(str::to_owned));
    tables.extend(m20261127_000019_job_parts::TABLES.map(str::to_owned));
    tables.extend(m20261127_000020_told_periods::TABLES.map(str::to_owned));
    tables.extend(m20261128_000022_circles::TABLES.map(str::to_owned));
    tables.extend(m20261128_000023_mirrors::TABLES.map(str::to_owned));
    tables
}

/// Reverts the last applied step and drops all data in its tables.
///
/// # Errors
/// If no step is applied, or the step cannot be reverted.
pub async fn down(db: &DatabaseConnection) -> Result<(), DbErr> {
    Migrator::down(db, Some(1)).await.map_err(named)
}

/// The name of each step, and its state: applied or pending. It writes nothing, so that it needs no
/// right to.
///
/// # Errors
/// If the database does not answer, or has steps that this version does not know.
pub async fn status(db: &DatabaseConnection) -> Result<Vec<(String, String)>, DbErr> {
    let steps = Migrator::get_migration_with_status_read_only(db).await.map_err(named)?;
    Ok(steps.iter().map(|step| (step.name().to_owned(), step.status().to_string())).collect())
}

/// Says what the error of a step that this program does not know means.
fn named(error: DbErr) -> DbErr {
    match error {
        DbErr::Custom(text) if text.starts_with("Migration file of version") => {
            let last = steps().pop().unwrap_or_default();
            // A line for each step, with the name in quotes.
            let unknown = text.lines().filter_map(|line| line.split('\'').nth(1)).max();
            let newest = unknown.unwrap_or("a step without a name");
            DbErr::Custom(format!(
                "the schema is of a newer program, up to {newest}, and this one, version {}, knows it up to {last}: expected the program of the newer version, or a backup from before the upgrade",
                env!("CARGO_PKG_VERSION")
            ))
        }
        error => error,
    }
}
