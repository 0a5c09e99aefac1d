//! One connection to the database: what the database ends by itself, and when a pool throws a
//! connection away.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use entity::sql::dialect::MYSQL_SESSION;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{
    Sqlite, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Connection, Database, Executor, MySql};
use tokio::time::timeout;

use super::server::Limits;

/// The part of the database that a connection to SQLite keeps in memory, in KiB; SQLite wants the
/// minus sign. A write on another connection empties it, so more of it serves no transaction longer
/// than the first.
const SQLITE_CACHE: &str = "-4096";

/// The length at which SQLite copies its write-ahead log back, in pages of 4 KiB: a page written
/// often is copied once.
const SQLITE_CHECKPOINT_PAGES: &str = "8000";

/// The rows that SQLite reads ahead of its reader: each wait for the reader costs as much as some
/// rows.
const SQLITE_ROWS_MAX: usize = 1000;

/// The time that a statement of SQLite waits for a lock.
const SQLITE_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The steps of SQLite's virtual machine between two looks at the time of a read: about 100 µs.
const SQLITE_STEPS: i32 = 10_000;

/// The time that a server may take for one statement, unless a read has less.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3600);

/// The time that a statement of a server waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The silence after which PostgreSQL asks the other end of a connection for a sign of life, and
/// the time after which it ends a connection that gives none. Its transaction and its locks end
/// then, too.
const KEEPALIVE: Duration = Duration::from_secs(10);
const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// The least time that MariaDB waits for a reader to take more rows.
const WRITE_TIMEOUT_MIN: Duration = Duration::from_secs(60);

/// The time that a connection may take to answer before and after each use. One that is late is
/// closed.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits that PostgreSQL keeps by itself. A transaction that does nothing for some time ends: its
/// process hangs, or cannot be reached.
pub(super) fn limited(server: PgConnectOptions, limits: Limits) -> PgConnectOptions {
    let Limits { statement, idle } = limits;
    let probe = DEAD_PEER_TIMEOUT.saturating_sub(KEEPALIVE).as_secs() / 4;
    server.options([
        ("statement_timeout", statement.unwrap_or(STATEMENT_TIMEOUT).as_millis()),
        ("lock_timeout", LOCK_TIMEOUT.as_millis()),
        ("idle_in_transaction_session_timeout", idle.as_millis()),
        ("tcp_keepalives_idle", KEEPALIVE.as_secs().into()),
        ("tcp_keepalives_interval", probe.into()),
        ("tcp_keepalives_count", 4),
        ("tcp_user_timeout", DEAD_PEER_TIMEOUT.as_millis()),
    ])
}

/// As [`guarded`], with sessions of MariaDB or MySQL, and limits that they keep by themselves as
/// with [`limited`]. MySQL ends only SELECTs, and no transaction that does nothing.
pub(super) fn in_session(pool: PoolOptions<MySql>, limits: Limits) -> PoolOptions<MySql> {
    let statement = limits.statement.unwrap_or(STATEMENT_TIMEOUT);
    let (lock, idle) = (LOCK_TIMEOUT.as_secs(), limits.idle.as_secs());
    // A reader that computes between its rows may take as long as a transaction that does nothing.
    let write = limits.idle.max(WRITE_TIMEOUT_MIN).as_secs();
    let settings = format!(
        "{MYSQL_SESSION}, innodb_lock_wait_timeout = {lock}, lock_wait_timeout = {lock}, \
         net_write_timeout = {write} \
         /*M! , max_statement_time = {}, idle_transaction_timeout = {idle} */ \
         /*!80000 , max_execution_time = {}, information_schema_stats_expiry = 0 */",
        statement.as_secs_f64(),
        statement.as_millis()
    );
    let settings: Arc<str> = settings.into();
    guarded(pool).after_connect(move |connection, _| {
        let settings = AssertSqlSafe(settings.clone());
        Box::pin(async move { connection.execute(settings).await.map(drop) })
    })
}

/// FULL: a power cut must not lose commits that the cursor names, as the log in Redis is trimmed up
/// to it.
pub(super) fn sqlite_options(sqlite: SqliteConnectOptions) -> SqliteConnectOptions {
    sqlite
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(SQLITE_LOCK_TIMEOUT)
        .row_buffer_size(SQLITE_ROWS_MAX)
        .pragma("cache_size", SQLITE_CACHE)
        // The journals of single statements are small and not worth a file.
        .pragma("temp_store", "MEMORY")
        .pragma("wal_autocheckpoint", SQLITE_CHECKPOINT_PAGES)
}

/// A pool that closes each connection that fails: one that does not answer, and one whose last
/// transaction did not end. On such a connection of SQLite, as a full disk leaves them, what looks
/// like a transaction is a part of the old one, and its COMMIT keeps nothing.
pub(super) fn guarded<DB: Database>(pool: PoolOptions<DB>) -> PoolOptions<DB> {
    pool.test_before_acquire(false)
        .before_acquire(|connection, _| Box::pin(check(connection)))
        .after_release(|connection, _| Box::pin(check(connection)))
}

/// As [`guarded`], for reads. SQLite ends a statement once its connection has been out for `time`,
/// also if the reader has gone: sqlx does not stop the thread that runs a dropped query.
pub(super) fn timed(pool: PoolOptions<Sqlite>, time: Duration) -> PoolOptions<Sqlite> {
    guarded(pool)
        .after_connect(move |connection, _| Box::pin(end_after(connection, time)))
        .before_acquire(move |connection, _| {
            Box::pin(async move { end_after(connection, time).await.map(|()| true) })
        })
}

/// Makes SQLite end what a connection runs after some time. This also shows that the connection
/// answers.
async fn end_after(connection: &mut SqliteConnection, time: Duration) -> Result<(), sqlx::Error> {
    let locked = timeout(PING_TIMEOUT, connection.lock_handle()).await;
    let mut handle = locked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let end = Instant::now() + time;
    handle.set_progress_handler(SQLITE_STEPS, move || Instant::now() < end);
    Ok(())
}

/// Checks that a connection answers, and is in no transaction.
async fn check<C: Connection>(connection: &mut C) -> Result<bool, sqlx::Error> {
    // A ROLLBACK that a dropped transaction has left comes before the answer.
    match timeout(PING_TIMEOUT, connection.ping()).await {
        Ok(answer) => answer?,
        Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
    match connection.is_in_transaction() {
        true => Err(sqlx::Error::Protocol(
            "a transaction did not end, so its connection is closed".into(),
        )),
        false => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr};

    use super::*;
    use crate::settings::{PoolSettings, SqlSettings};

    /// A statement that would run for an hour.
    const LONG: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000000)
        SELECT SUM(i) FROM n";

    async fn number(db: &DatabaseConnection, sql: &str) -> Result<i32, DbErr> {
        let statement = sea_orm::Statement::from_string(db.get_database_backend(), sql);
        let row = db.query_one_raw(statement).await?.expect("the statement answers with a row");
        row.try_get_by_index(0)
    }

    #[tokio::test]
    async fn a_read_of_sqlite_ends_in_time_and_also_without_its_reader() {
        let dir = tempfile::tempdir().unwrap();
        let settings = SqlSettings::new(dir.path().join("data"), None);
        let db = settings.create().await.unwrap();
        let pools = PoolSettings {
            sql_read_connections: 1,
            sql_lookup_connections: 1,
            sql_persister_connections: 1,
            sql_read_timeout_ms: 200,
            sql_lookup_timeout_ms: 1000,
            tokens_remembered_minutes: 1,
        };
        let [reads, _] = settings.connect_to_read(&pools, &db).await.unwrap();
        // Marks the one connection.
        reads.execute_unprepared("PRAGMA cache_size = -1234").await.unwrap();
        let ended = timeout(Duration::from_secs(60), number(&reads, LONG)).await.unwrap();
        let ended = ended.unwrap_err().to_string();
        assert!(ended.contains("interrupted"), "{ended}");
        assert!(timeout(Duration::from_millis(20), number(&reads, LONG)).await.is_err());
        // A connection whose statement goes on is closed, and the next one has no mark.
        assert_eq!(number(&reads, "PRAGMA cache_size").await.unwrap(), -1234);
    }
}
