//! Settings that name the stores, and the stores opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use entity::deployment as deployment_row;
use entity::error::Result;
use ranking::shard::Partitions;
use ranking::store::Store;
use ranking::store::key::KeySpace;
use ranking::store::server::address::Address;
use ranking::store::write::Dedup;
use sea_orm::{ActiveValue::Set, DatabaseConnection, EntityTrait, TryInsertResult};

use super::sql::{PoolSettings, SqlSettings};
use crate::deployment::Deployment;
use crate::deployment::private_redis::PrivateRedis;
use entity::deployment::clock::Clock;

/// The partitions of a new deployment whose settings name no number.
const PARTITIONS_DEFAULT: u16 = 16;

/// The behavior of a command without a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It makes one.
    Create,
    /// It says so and ends.
    Refuse,
}

/// The addresses of the stores, and the limits of a deployment.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Stores")]
pub struct Settings {
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help of the command")]
    pub sql: SqlSettings,
    /// Redis: redis://, rediss:// for TLS, or redis+unix://; a cluster as
    /// redis://host:port,host:port?cluster=true, by some of its servers. By default a private
    /// redis-server in the data directory, started and stopped with the processes that use it.
    #[arg(long, env = "LAUREL_REDIS_URL", hide_env_values = true, value_name = "URL")]
    pub redis_url: Option<String>,
    /// The certificates of the authorities that a certificate of Redis may come from, as a PEM
    /// file. By default those of the system.
    #[arg(long, env = "LAUREL_REDIS_CA", value_name = "FILE")]
    pub redis_ca: Option<PathBuf>,
    /// The prefix of every Redis key; no braces.
    #[arg(long, env = "LAUREL_REDIS_PREFIX", default_value = "laurel", value_name = "PREFIX")]
    pub redis_prefix: String,
    /// The time that Redis may take to answer one request, in milliseconds.
    #[arg(long, env = "LAUREL_REDIS_TIMEOUT_MS", default_value_t = 4000, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=600_000))]
    pub redis_timeout_ms: u64,
    /// The number of partitions, a power of two up to 4096, fixed when the deployment is made. By
    /// default 16, or the number that the deployment has.
    #[arg(long, env = "LAUREL_PARTITIONS", value_name = "COUNT")]
    pub partitions: Option<u16>,
    /// The time that an event id is remembered, in hours, 1 to 720.
    #[arg(long, env = "LAUREL_DEDUP_HOURS", default_value_t = 24, value_name = "HOURS", value_parser = clap::value_parser!(u32).range(1..=720))]
    pub dedup_hours: u32,
    /// The commits that a partition's log may hold while SQL is away; beyond that the server
    /// refuses submissions.
    #[arg(long, env = "LAUREL_LOG_COMMITS_MAX", default_value_t = 100_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub log_commits_max: u64,
    /// The directory of archived events. By default archive in the data directory.
    #[arg(long, env = "LAUREL_ARCHIVE_DIR", value_name = "DIR")]
    pub archive_dir: Option<PathBuf>,
    /// A directory, best on another disk, for a copy of each archived file; a damaged file is
    /// restored from it. None by default.
    #[arg(long, env = "LAUREL_ARCHIVE_COPY_DIR", value_name = "DIR")]
    pub archive_copy_dir: Option<PathBuf>,
    /// The file of the key that signs checkpoints, 64 hexadecimal digits; made if it is not there.
    /// By default checkpoint.key in the data directory.
    #[arg(long, env = "LAUREL_CHECKPOINT_KEY_FILE", value_name = "FILE")]
    pub checkpoint_key_file: Option<PathBuf>,
}

impl Settings {
    /// Connects to SQL and brings its schema up to date.
    ///
    /// # Errors
    /// As [`SqlSettings::connect`]; `Invalid` if the number of partitions is no power of two.
    pub async fn connect_sql(&self, missing: Missing) -> Result<DatabaseConnection> {
        if self.partitions.is_some_and(|count| Partitions::new(count).is_err()) {
            return Err(ranking::Error::Invalid(
                "invalid LAUREL_PARTITIONS: expected a power of two from 1 to 4096".into(),
            )
            .into());
        }
        if missing == Missing::Create {
            return self.sql.create().await;
        }
        let db = self.sql.connect().await?;
        match deployment_row::Entity::find_by_id(1).one(&db).await? {
            Some(_) => Ok(db),
            None => Err(self.sql.no_deployment()),
        }
    }

    /// Opens the stores behind a connection that [`Self::connect_sql`] made; the first one to do so
    /// makes the deployment. Starts or adopts the private Redis unless a URL names another one.
    ///
    /// # Errors
    /// `Invalid` for settings that contradict each other or the deployment; `Unavailable` if a
    /// store does not answer.
    pub async fn open(&self, db: DatabaseConnection) -> Result<Deployment> {
        let authorities = self.redis_authorities()?;
        let partitions = self.partitions_of(&db).await?;
        let keys = KeySpace::new(&self.redis_prefix)?;
        let private_redis = match &self.redis_url {
            Some(_) => None,
            None => Some(Arc::new(PrivateRedis::start(&self.sql.data_dir.join("redis")).await?)),
        };
        let url = self
            .redis_url
            .clone()
            .or_else(|| private_redis.as_ref().map(|redis| redis.url()))
            .unwrap_or_default();
        let timeout = Duration::from_millis(self.redis_timeout_ms);
        let allows_cleartext = self.sql.allow_cleartext;
        let address = Address { url, authorities, allows_cleartext };
        let store = Store::new(&address, keys, partitions, timeout)?;
        if let Err(error) = store.check_server().await {
            if let Some(redis) = private_redis.and_then(Arc::into_inner) {
                redis.stop().await;
            }
            return Err(error.into());
        }
        Ok(Deployment {
            reads: db.clone(),
            lookups: db.clone(),
            db,
            store,
            dedup: Dedup { window_ms: i64::from(self.dedup_hours) * 3_600_000 },
            log_commits_max: self.log_commits_max,
            clock: Clock::default(),
            archive_dir: (self.archive_dir.clone())
                .unwrap_or_else(|| self.sql.data_dir.join("archive")),
            archive_copy_dir: self.archive_copy_dir.clone(),
            checkpoint_key: (self.checkpoint_key_file.clone())
                .unwrap_or_else(|| self.sql.data_dir.join("checkpoint.key")),
            private_redis,
        })
    }

    /// As [`Self::open`], with connections to SQL of their own for reads and look-ups of requests.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_to_serve(
        &self,
        db: DatabaseConnection,
        pools: &PoolSettings,
    ) -> Result<Deployment> {
        let [reads, lookups] = self.sql.connect_to_read(pools, &db).await?;
        let deployment = self.open(db).await?;
        Ok(Deployment { reads, lookups, ..deployment })
    }

    /// The certificates in the file of LAUREL_REDIS_CA.
    fn redis_authorities(&self) -> Result<Option<Vec<u8>>> {
        let Some(file) = &self.redis_ca else {
            return Ok(None);
        };
        let read = std::fs::read(file).map_err(|error| {
            let file = file.display();
            ranking::Error::Invalid(format!(
                "invalid LAUREL_REDIS_CA {file} ({error}): expected a PEM file"
            ))
        });
        Ok(Some(read?))
    }

    /// The number of partitions that the deployment was made with, or is made with now.
    async fn partitions_of(&self, db: &DatabaseConnection) -> Result<Partitions> {
        let row = deployment_row::ActiveModel {
            id: Set(1),
            partitions: Set(self.partitions.unwrap_or(PARTITIONS_DEFAULT).into()),
            created_at_ms: Set(Clock::default().now_ms()),
        };
        let insert = deployment_row::Entity::insert(row)
            .on_conflict_do_nothing_on([deployment_row::Column::Id]);
        let _: TryInsertResult<u64> = insert.exec_without_returning(db).await?;
        let row = deployment_row::Entity::find_by_id(1).one(db).await?;
        let count = row
            .and_then(|row| u16::try_from(row.partitions).ok())
            .ok_or_else(|| ranking::Error::Corrupt("the deployment's row is broken".into()))?;
        match self.partitions {
            Some(asked) if asked != count => Err(ranking::Error::Invalid(format!(
                "invalid LAUREL_PARTITIONS {asked}: expected {count}, the number that this deployment was made with"
            ))
            .into()),
            _ => Ok(Partitions::new(count)?),
        }
    }
}
