//! The pools of a server beside the one for writes and jobs.

use std::time::Duration;

use sea_orm::{ConnectOptions, DatabaseConnection};

use super::connection::{sqlite_options, timed};
use super::{SqlSettings, sqlite_file};
use entity::error::Result;

/// The time to wait for a connection of a pool that answers requests: one that can have no
/// connection must not hold up those that need none.
const READ_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// The most connections of the persister to SQLite, where one transaction writes at a time.
const SQLITE_PERSISTERS_MAX: u32 = 4;

/// The server's connections to the database that wait for no other ones.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Stores")]
pub struct PoolSettings {
    /// The most connections to the database for reads that answer requests, 1 to 1000; writes have
    /// those of LAUREL_SQL_CONNECTIONS.
    #[arg(long, env = "LAUREL_SQL_READ_CONNECTIONS", default_value_t = 6, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sql_read_connections: u32,
    /// The most connections to the database for what every request looks up first: its access
    /// token and its boards; and to see that the database has a score, 1 to 1000.
    #[arg(long, env = "LAUREL_SQL_LOOKUP_CONNECTIONS", default_value_t = 4, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sql_lookup_connections: u32,
    /// The most connections to the database for the persister, which writes what Redis has
    /// accepted, 1 to 1000; one more asks whether the database answers.
    #[arg(long, env = "LAUREL_SQL_PERSISTER_CONNECTIONS", default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sql_persister_connections: u32,
    /// The time that the database may take for one statement of a read, in milliseconds, 100 to
    /// 600000. It ends a longer one, even if the request has ended.
    #[arg(long, env = "LAUREL_SQL_READ_TIMEOUT_MS", default_value_t = 5000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub sql_read_timeout_ms: u64,
    /// The time that the database may take for what every request looks up first, in milliseconds,
    /// 50 to 10000. Beyond it the server uses what it remembers, and asks again in the background.
    #[arg(long, env = "LAUREL_SQL_LOOKUP_TIMEOUT_MS", default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=10_000))]
    pub sql_lookup_timeout_ms: u64,
    /// The time for which a checked access token is good while the database is away, in minutes, 1
    /// to 10080. Until then a revocation may stay unseen.
    #[arg(long, env = "LAUREL_TOKENS_REMEMBERED_MINUTES", default_value_t = 1440, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=10_080))]
    pub tokens_remembered_minutes: u64,
}

impl SqlSettings {
    /// Connects for the persister: a pool beside one that [`Self::connect`] or [`Self::create`]
    /// made.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn connect_to_persist(
        &self,
        pools: &PoolSettings,
        db: &DatabaseConnection,
    ) -> Result<DatabaseConnection> {
        let probe = 1;
        let mut options = self.options(pools.sql_persister_connections + probe, None)?;
        if is_in_memory(&options) {
            return Ok(db.clone());
        }
        if options.get_url().starts_with("sqlite:") {
            let count = pools.sql_persister_connections.min(SQLITE_PERSISTERS_MAX);
            options.max_connections(count + probe);
        }
        self.open_pool(options).await
    }

    /// Connects for reads that answer requests, and for look-ups: pools beside one that
    /// [`Self::connect`] or [`Self::create`] made.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn connect_to_read(
        &self,
        pools: &PoolSettings,
        db: &DatabaseConnection,
    ) -> Result<[DatabaseConnection; 2]> {
        let counts = [pools.sql_read_connections, pools.sql_lookup_connections];
        let timeout = Duration::from_millis(pools.sql_read_timeout_ms);
        let mut connected = [db.clone(), db.clone()];
        for (pool, count) in connected.iter_mut().zip(counts) {
            let mut options = self.options(count, Some(timeout))?;
            if is_in_memory(&options) {
                continue;
            }
            options.acquire_timeout(READ_ACQUIRE_TIMEOUT);
            options
                .map_sqlx_sqlite_opts(|sqlite| sqlite_options(sqlite).pragma("query_only", "ON"))
                .map_sqlx_sqlite_pool_opts(move |pool| timed(pool, timeout));
            *pool = self.open_pool(options).await?;
        }
        Ok(connected)
    }
}

/// True for a database in memory: another pool would have another one.
fn is_in_memory(options: &ConnectOptions) -> bool {
    options.get_url().starts_with("sqlite:") && sqlite_file(options.get_url()).is_none()
}
