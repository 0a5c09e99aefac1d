//! A deployment: the settings that say where its stores are, and the stores, opened.

pub mod private_redis;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::deployment::private_redis::PrivateRedis;
use ranking::shard::Partitions;
use ranking::store::Store;
use ranking::store::key::KeySpace;
use ranking::store::write::Dedup;
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::{
    AccessMode, ActiveValue::Set, ConnectOptions, Database, DatabaseConnection,
    DatabaseTransaction, DbBackend, DbErr, EntityTrait, IsolationLevel, TransactionTrait,
    TryInsertResult,
};
use tokio::time::{Instant, sleep};

use entity::deployment as deployment_row;
use entity::error::{Error, Result, is_locked};

/// The partitions of a deployment that is born without being told.
const PARTITIONS_UNASKED: u16 = 16;

/// How much of the database a connection to SQLite keeps in memory, in KiB, as SQLite wants it said.
const SQLITE_CACHE: &str = "-32768";

/// How long SQLite's write-ahead log gets before it is copied back, in pages of 4 KiB: what is written often is copied once.
const SQLITE_CHECKPOINT_PAGES: &str = "8000";

/// How many rows SQLite reads ahead of who takes them: each time it has to wait costs as much as some rows.
const SQLITE_ROWS_MAX: usize = 1000;

/// How long a start waits for others that make or upgrade a database of SQLite, and how often it looks. Of processes that turn a new file to write-ahead
/// logging at once SQLite refuses some without waiting, and an upgrade may take longer than a lock is waited for.
const SQLITE_PATIENCE: Duration = Duration::from_secs(600);
const SQLITE_PAUSE: Duration = Duration::from_millis(250);

/// Where the stores are. Each is an environment variable, or the flag of the same name.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// The directory of embedded data: the SQLite file, the private Redis.
    #[arg(long, env = "LAUREL_DATA_DIR", default_value = "./data", global = true)]
    pub data_dir: PathBuf,
    /// The directory of archived events. By default archive in the data directory.
    #[arg(long, env = "LAUREL_ARCHIVE_DIR", global = true)]
    pub archive_dir: Option<PathBuf>,
    /// A directory, best on another disk, where each archived file is written as well; a file that is damaged is put back from it. None by default.
    #[arg(long, env = "LAUREL_ARCHIVE_COPY_DIR", global = true)]
    pub archive_copy_dir: Option<PathBuf>,
    /// The database: sqlite:// or postgres://. By default laurel.sqlite in the data directory.
    #[arg(long, env = "LAUREL_DATABASE_URL", hide_env_values = true, global = true)]
    pub database_url: Option<String>,
    /// Redis: redis:// or redis+unix://; a cluster as redis://host:port,host:port?cluster=true, by some of its servers. By default a private redis-server in the data directory, started and stopped with its users.
    #[arg(long, env = "LAUREL_REDIS_URL", hide_env_values = true, global = true)]
    pub redis_url: Option<String>,
    /// What every Redis key begins with; no braces.
    #[arg(long, env = "LAUREL_REDIS_PREFIX", default_value = "laurel", global = true)]
    pub redis_prefix: String,
    /// Partitions, a power of two up to 4096, fixed when the deployment is born. By default 16, or what it was born with.
    #[arg(long, env = "LAUREL_PARTITIONS", global = true)]
    pub partitions: Option<u16>,
    /// How long an event id is remembered, in hours, 1 to 720.
    #[arg(long, env = "LAUREL_DEDUP_HOURS", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=720), global = true)]
    pub dedup_hours: u32,
    /// How many commits a partition's log may hold while SQL is away; beyond it submissions are refused.
    #[arg(long, env = "LAUREL_LOG_COMMITS_MAX", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..), global = true)]
    pub log_commits_max: u64,
    /// How long Redis may take to answer one request, in milliseconds.
    #[arg(long, env = "LAUREL_REDIS_TIMEOUT_MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(10..=600_000), global = true)]
    pub redis_timeout_ms: u64,
}

/// The environment variables of [`Settings`], in their order.
pub const SETTING_NAMES: [&str; 10] = [
    "LAUREL_DATA_DIR",
    "LAUREL_ARCHIVE_DIR",
    "LAUREL_ARCHIVE_COPY_DIR",
    "LAUREL_DATABASE_URL",
    "LAUREL_REDIS_URL",
    "LAUREL_REDIS_PREFIX",
    "LAUREL_PARTITIONS",
    "LAUREL_DEDUP_HOURS",
    "LAUREL_LOG_COMMITS_MAX",
    "LAUREL_REDIS_TIMEOUT_MS",
];

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
    private_redis: Option<Arc<PrivateRedis>>,
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

/// Reads the command line and the environment. A refused value is named by its variable too.
#[must_use]
pub fn parse_arguments<A: clap::Parser>() -> A {
    A::try_parse().unwrap_or_else(|error| {
        let argument = error
            .get(clap::error::ContextKind::InvalidArg)
            .map(ToString::to_string)
            .unwrap_or_default();
        let variable =
            argument.strip_prefix("--").and_then(|argument| argument.split_whitespace().next());
        let Some(variable) =
            variable.filter(|_| error.kind() != clap::error::ErrorKind::UnknownArgument)
        else {
            error.exit()
        };
        eprintln!(
            "LAUREL_{}, or the flag of the same name:",
            variable.to_uppercase().replace('-', "_")
        );
        error.exit()
    })
}

/// Refuses environment variables that begin with `LAUREL_` and are none of `known`: a misspelt setting must not be silently ignored.
///
/// # Errors
/// `Invalid`, naming the variable.
pub fn refuse_unknown_variables(known: &[&str]) -> Result<()> {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("LAUREL_")
            && !known.contains(&&*name)
            && !SETTING_NAMES.contains(&&*name)
        {
            let mut all: Vec<&str> = SETTING_NAMES.iter().chain(known).copied().collect();
            all.sort_unstable();
            return Err(ranking::Error::Invalid(format!(
                "{name} is no setting; those are {}",
                all.join(", ")
            ))
            .into());
        }
    }
    Ok(())
}

impl Settings {
    /// The settings as environment variables, for another program that is to find the same stores.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Self {
            data_dir,
            archive_dir,
            archive_copy_dir,
            database_url,
            redis_url,
            redis_prefix,
            partitions,
            dedup_hours,
            log_commits_max,
            redis_timeout_ms,
        } = self;
        let text = |text: &dyn ToString| Some(text.to_string().into());
        let values: [Option<OsString>; SETTING_NAMES.len()] = [
            Some(data_dir.into()),
            archive_dir.as_ref().map(Into::into),
            archive_copy_dir.as_ref().map(Into::into),
            database_url.as_ref().map(Into::into),
            redis_url.as_ref().map(Into::into),
            text(redis_prefix),
            partitions.as_ref().and_then(|count| text(count)),
            text(dedup_hours),
            text(log_commits_max),
            text(redis_timeout_ms),
        ];
        let named = SETTING_NAMES.into_iter().zip(values);
        named.filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Connects to SQL; creates the data directory and the SQLite file where they are missing, and brings the schema up to date.
    ///
    /// # Errors
    /// `Invalid` for a URL of another kind; `Sql` where the database does not answer, or is of a newer version.
    pub async fn connect_sql(&self) -> Result<DatabaseConnection> {
        std::fs::create_dir_all(&self.data_dir).map_err(|error| {
            ranking::Error::Unavailable(format!(
                "the data directory {}: {error}",
                self.data_dir.display()
            ))
        })?;
        let embedded =
            || format!("sqlite://{}?mode=rwc", self.data_dir.join("laurel.sqlite").display());
        let url = self.database_url.clone().unwrap_or_else(embedded);
        if !["sqlite:", "postgres:", "postgresql:"].iter().any(|kind| url.starts_with(kind)) {
            return Err(ranking::Error::Invalid(
                "LAUREL_DATABASE_URL: a URL of kind sqlite:// or postgres:// is accepted".into(),
            )
            .into());
        }
        let mut options = ConnectOptions::new(url);
        options.sqlx_logging(false).max_connections(16).acquire_timeout(Duration::from_secs(10));
        // FULL: what the cursor says SQL has, a power cut must not take, as the log in Redis is trimmed to it.
        options.map_sqlx_sqlite_opts(|sqlite| {
            sqlite
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .busy_timeout(Duration::from_secs(30))
                .row_buffer_size(SQLITE_ROWS_MAX)
                .pragma("cache_size", SQLITE_CACHE)
                // The journals of single statements are small and not worth a file.
                .pragma("temp_store", "MEMORY")
                .pragma("wal_autocheckpoint", SQLITE_CHECKPOINT_PAGES)
        });
        let deadline = Instant::now() + SQLITE_PATIENCE;
        loop {
            match connect_up_to_date(options.clone()).await {
                Err(error) if is_locked(&error) && Instant::now() < deadline => {
                    tracing::info!(
                        "waiting for another process that makes or upgrades the database: {error}"
                    );
                    sleep(SQLITE_PAUSE).await;
                }
                connected => return Ok(connected?),
            }
        }
    }

    /// Opens the stores; `db` has its schema. Starts or adopts the private Redis where no other is named.
    ///
    /// # Errors
    /// `Invalid` for settings that contradict each other or how the deployment was born; else what the stores say.
    pub async fn open(&self, db: DatabaseConnection) -> Result<Deployment> {
        let partitions = Partitions::new(self.born_partitions(&db).await?)?;
        let keys = KeySpace::new(&self.redis_prefix)?;
        let private_redis = match &self.redis_url {
            Some(_) => None,
            None => Some(Arc::new(PrivateRedis::start(&self.data_dir.join("redis")).await?)),
        };
        let url = self
            .redis_url
            .clone()
            .or_else(|| private_redis.as_ref().map(|redis| redis.url()))
            .unwrap_or_default();
        let store =
            Store::new(&url, keys, partitions, Duration::from_millis(self.redis_timeout_ms))?;
        if let Err(error) = store.check_server().await {
            if let Some(redis) = private_redis.and_then(Arc::into_inner) {
                redis.stop().await;
            }
            return Err(error.into());
        }
        let dedup = Dedup { window_ms: i64::from(self.dedup_hours) * 3_600_000 };
        Ok(Deployment {
            db,
            store,
            dedup,
            log_commits_max: self.log_commits_max,
            clock: Clock::default(),
            archive_dir: (self.archive_dir.clone())
                .unwrap_or_else(|| self.data_dir.join("archive")),
            archive_copy_dir: self.archive_copy_dir.clone(),
            private_redis,
        })
    }

    async fn born_partitions(&self, db: &DatabaseConnection) -> Result<u16> {
        let row = deployment_row::ActiveModel {
            id: Set(1),
            partitions: Set(self.partitions.unwrap_or(PARTITIONS_UNASKED).into()),
            created_at_ms: Set(entity::now_ms()),
        };
        if self.partitions.is_some_and(|count| Partitions::new(count).is_err()) {
            return Err(ranking::Error::Invalid(
                "LAUREL_PARTITIONS: a power of two from 1 to 4096 is accepted".into(),
            )
            .into());
        }
        let insert = deployment_row::Entity::insert(row)
            .on_conflict_do_nothing_on([deployment_row::Column::Id]);
        let _: TryInsertResult<u64> = insert.exec_without_returning(db).await?;
        let row = deployment_row::Entity::find_by_id(1).one(db).await?;
        let born = row
            .and_then(|row| u16::try_from(row.partitions).ok())
            .ok_or_else(|| ranking::Error::Corrupt("the deployment's row is broken".into()))?;
        match self.partitions {
            Some(asked) if asked != born => Err(Error::Ranking(ranking::Error::Invalid(format!(
                "LAUREL_PARTITIONS is {asked}; this deployment was born with {born} and keeps them"
            )))),
            _ => Ok(born),
        }
    }
}

async fn connect_up_to_date(options: ConnectOptions) -> Result<DatabaseConnection, DbErr> {
    let db = Database::connect(options).await?;
    migration::up(&db).await?;
    Ok(db)
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
