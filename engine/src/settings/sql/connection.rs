//! One connection to the database: what the database ends by itself, and when a pool throws a
//! connection away.

use std::io;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Connection, Database};
use tokio::time::timeout;

/// The part of the database that a connection to SQLite keeps in memory, in KiB; SQLite wants the
/// minus sign.
const SQLITE_CACHE: &str = "-32768";

/// The length at which SQLite copies its write-ahead log back, in pages of 4 KiB: a page written
/// often is copied once.
const SQLITE_CHECKPOINT_PAGES: &str = "8000";

/// The rows that SQLite reads ahead of its reader: each wait for the reader costs as much as some
/// rows.
const SQLITE_ROWS_MAX: usize = 1000;

/// The time that a statement of SQLite waits for a lock.
const SQLITE_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that PostgreSQL may take for one statement, unless a read has less.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3600);

/// The time that a statement of PostgreSQL waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The silence after which PostgreSQL asks the other end of a connection for a sign of life, and
/// the time after which it ends a connection that gives none. Its transaction and its locks end
/// then, too.
const KEEPALIVE: Duration = Duration::from_secs(10);
const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that a connection may take to answer before and after each use. One that is late is
/// closed.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits that PostgreSQL keeps by itself. A transaction that does nothing for `idle` ends: its
/// process hangs, or cannot be reached.
pub(super) fn limited(
    server: PgConnectOptions,
    statement: Option<Duration>,
    idle: Duration,
) -> PgConnectOptions {
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
