//! A deployment: SQL, Redis and the clock, opened.

pub mod private_redis;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use entity::error::Result;
use ranking::store::Store;
use ranking::store::write::Dedup;
use sea_orm::{
    AccessMode, DatabaseConnection, DatabaseTransaction, DbBackend, IsolationLevel,
    TransactionTrait,
};

use self::private_redis::PrivateRedis;

/// The stores of a deployment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// SQL.
    pub db: DatabaseConnection,
    /// Redis.
    pub store: Store,
    /// How long event ids are remembered.
    pub dedup: Dedup,
    /// How many commits a log may hold.
    pub log_commits_max: u64,
    /// What says how late it is.
    pub clock: Clock,
    /// Where archived events are.
    pub archive_dir: PathBuf,
    /// Where each of their files is written as well.
    pub archive_copy_dir: Option<PathBuf>,
    pub(crate) private_redis: Option<Arc<PrivateRedis>>,
}

/// What says how late it is: the server's clock, until it is set.
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Unix milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        match self.0.load(Ordering::Relaxed) {
            0 => entity::now_ms(),
            set_ms => set_ms,
        }
    }

    /// Stops it at an instant, in Unix milliseconds, for all clones.
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }
}

impl Deployment {
    /// A transaction for reading SQL as it is at one moment. To be rolled back.
    pub async fn view(&self) -> Result<DatabaseTransaction> {
        let view = match self.db.get_database_backend() {
            DbBackend::Postgres => {
                let level = Some(IsolationLevel::RepeatableRead);
                let reading = Some(AccessMode::ReadOnly);
                self.db.begin_with_config(level, reading).await?
            }
            _ => self.db.begin().await?,
        };
        Ok(view)
    }

    /// Starts the private Redis again if it died; nothing where Redis is somebody else's.
    pub async fn revive_redis(&self) {
        if let Some(redis) = &self.private_redis
            && let Err(error) = redis.ensure_running().await
        {
            tracing::error!(%error, "the private redis-server does not start");
        }
    }

    /// Closes the stores; the private Redis is stopped unless another process uses it.
    pub async fn close(self) {
        let _ = self.db.clone().close().await;
        drop(self.store);
        if let Some(redis) = self.private_redis.and_then(Arc::into_inner) {
            redis.stop().await;
        }
    }
}
