//! An open deployment: SQL, Redis and the clock.

pub mod adoption;
pub mod files;
pub(crate) mod identity;
pub mod presence;
pub mod private_redis;
pub mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use entity::deployment::clock::Clock;
use entity::error::Result;
use entity::sql::{begin, begin_with};
use ranking::store::Store;
use ranking::store::write::Dedup;
use sea_orm::{AccessMode, DatabaseConnection, DatabaseTransaction, DbBackend, IsolationLevel};

use self::identity::{Reached, RedisHeartbeat};
use self::presence::Presence;
use self::private_redis::PrivateRedis;
use self::watch::Watch;

/// The stores of a deployment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Its random id, which SQL and Redis have.
    pub identity: Arc<str>,
    /// SQL, for writes, the persister and jobs.
    pub db: DatabaseConnection,
    /// SQL, for reads that answer requests: no write waits for them. In a server, connections of
    /// their own, which cannot write on SQLite, and on PostgreSQL end each statement in time.
    pub reads: DatabaseConnection,
    /// SQL, for what every request looks up first, by key: its token and its boards. In a server,
    /// connections of their own.
    pub lookups: DatabaseConnection,
    /// Redis; reads that answer requests go through [`Store::for_reads`].
    pub store: Store,
    /// The time for which event ids are remembered.
    pub dedup: Dedup,
    /// The most commits in a log.
    pub log_commits_max: u64,
    /// The most bytes of the commits in a log.
    pub log_bytes_max: u64,
    /// The clock.
    pub clock: Clock,
    /// The directory of archived events.
    pub archive_dir: PathBuf,
    /// The directory for a second copy of each archived file.
    pub archive_copy_dir: Option<PathBuf>,
    /// The file of the key that signs checkpoints.
    pub checkpoint_key: PathBuf,
    /// The warnings about stores that answer and are wrong, as of the last look.
    pub watch: Arc<Watch>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) private_redis: Option<Arc<PrivateRedis>>,
    pub(crate) redis_heartbeat: Option<Arc<RedisHeartbeat>>,
    pub(crate) reached: Arc<Reached>,
}

impl Deployment {
    /// A transaction that reads a consistent state of SQL. The caller rolls it back.
    pub async fn view(&self) -> Result<DatabaseTransaction> {
        let view = match self.db.get_database_backend() {
            DbBackend::Postgres => {
                let level = Some(IsolationLevel::RepeatableRead);
                let reading = Some(AccessMode::ReadOnly);
                begin_with(&self.db, level, reading).await?
            }
            _ => begin(&self.db).await?,
        };
        Ok(view)
    }

    /// Starts the private Redis again if it died; does nothing if the deployment uses another
    /// Redis.
    pub async fn revive_redis(&self) {
        if let Some(redis) = &self.private_redis {
            redis.revive().await;
        }
    }

    /// Closes the stores; stops the private Redis unless another process uses it.
    pub async fn close(self) {
        let Self { db, reads, lookups, store, presence, private_redis, redis_heartbeat, .. } = self;
        if let Some(redis_heartbeat) = redis_heartbeat {
            redis_heartbeat.end();
        }
        drop(store);
        presence.end().await;
        // A query that is stuck must not keep Redis up, nor a task that still has a clone of this.
        let stopped = async {
            if let Some(redis) = &private_redis {
                redis.stop().await;
            }
        };
        let _ = tokio::join!(reads.close(), lookups.close(), db.close(), stopped);
    }
}
