//! An open deployment: SQL, Redis and the clock.

pub mod adoption;
pub mod checksum;
pub mod files;
pub(crate) mod identity;
mod past;
pub mod presence;
pub mod private_redis;
pub(crate) mod proxy;
pub mod redis_health;
pub mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use entity::deployment::clock::Clock;
use entity::error::Result;
use entity::sql::begin_view;
use futures::future::join_all;
use ranking::store::Store;
use ranking::store::write::Dedup;
use sea_orm::{DatabaseConnection, DatabaseTransaction};
use tokio::sync::Semaphore;

use self::identity::{Reached, RedisHeartbeat};
use self::presence::Presence;
use self::private_redis::PrivateRedis;
use self::redis_health::RedisHealth;
use self::watch::Watch;
use crate::partition::persist::Refusals;
use crate::settings::MirrorSettings;

/// The stores of a deployment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Its random id, which SQL and Redis have.
    pub identity: Arc<str>,
    /// SQL, for writes and jobs.
    pub db: DatabaseConnection,
    /// SQL, for reads that answer requests: no write waits for them. In a server, connections of
    /// their own, which cannot write on SQLite, and on a server end each statement in time.
    pub reads: DatabaseConnection,
    /// SQL, for what every request looks up first, by key: its token and its boards. In a server,
    /// connections of their own.
    pub lookups: DatabaseConnection,
    /// SQL, for the persister: it waits for no changes of clients. In a server, connections of
    /// their own.
    pub persisting: DatabaseConnection,
    /// Redis; reads that answer requests go through [`Store::for_reads`].
    pub store: Store,
    /// The partitions whose Redis is away, as the probe of this process finds them.
    pub redis_health: Arc<RedisHealth>,
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
    /// The place of the lake, and how its store is asked.
    pub mirror: MirrorSettings,
    /// The file of the key that signs checkpoints.
    pub checkpoint_key: PathBuf,
    /// The warnings about stores that answer and are wrong, as of the last look.
    pub watch: Arc<Watch>,
    /// The turns of partitions that are loaded.
    pub(crate) loads: Arc<Semaphore>,
    pub(crate) reloaded: Arc<past::Reloaded>,
    /// The searches for events that SQL refuses.
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) private_redis: Option<Arc<PrivateRedis>>,
    pub(crate) redis_heartbeat: Option<Arc<RedisHeartbeat>>,
    pub(crate) reached: Arc<Reached>,
}

impl Deployment {
    /// The stores as the persister has them.
    pub fn for_persister(&self) -> Self {
        Self { db: self.persisting.clone(), ..self.clone() }
    }

    /// A transaction that reads a consistent state of SQL. The caller rolls it back.
    pub async fn view(&self) -> Result<DatabaseTransaction> {
        Ok(begin_view(&self.db).await?)
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
        let pools = [&self.reads, &self.lookups, &self.persisting, &self.db].map(Clone::clone);
        let redis = self.private_redis.clone();
        self.end_presence().await;
        // A query that is stuck must not keep Redis up, nor a task that still has a clone of this.
        let closing = join_all(pools.map(DatabaseConnection::close));
        let stopping = async {
            if let Some(redis) = redis {
                redis.stop().await;
            }
        };
        tokio::join!(closing, stopping);
    }

    /// Ends what says in the stores that this process uses them.
    pub(crate) async fn end_presence(self) {
        if let Some(redis_heartbeat) = self.redis_heartbeat {
            redis_heartbeat.end();
        }
        drop(self.store);
        self.presence.end().await;
    }
}
