//! Settings that name the stores, and the stores opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use entity::deployment as deployment_row;
use entity::error::{Error, Result, is_locked, is_missing_table};
use ranking::shard::Partitions;
use ranking::store::Store;
use ranking::store::key::KeySpace;
use ranking::store::write::Dedup;
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::{
    ActiveValue::Set, ConnectOptions, Database, DatabaseConnection, DbErr, EntityTrait,
    TryInsertResult,
};
use tokio::time::{Instant, sleep};

use crate::deployment::Deployment;
use crate::deployment::private_redis::PrivateRedis;
use entity::deployment::clock::Clock;

/// The partitions of a new deployment whose settings name no number.
const PARTITIONS_DEFAULT: u16 = 16;

/// The part of the database that a connection to SQLite keeps in memory, in KiB; SQLite wants the
/// minus sign.
const SQLITE_CACHE: &str = "-32768";

/// The length at which SQLite copies its write-ahead log back, in pages of 4 KiB: a page written
/// often is copied once.
const SQLITE_CHECKPOINT_PAGES: &str = "8000";

/// The rows that SQLite reads ahead of its reader: each wait for the reader costs as much as some
/// rows.
const SQLITE_ROWS_MAX: usize = 1000;

/// The longest wait at start for processes that make or upgrade a SQLite database, and the pause
/// between two tries. SQLite at once refuses some of the processes that switch a new file to
/// write-ahead logging, and an upgrade may outlast the wait for a lock.
const SQLITE_LOCKED_TIMEOUT: Duration = Duration::from_secs(600);
const SQLITE_PAUSE: Duration = Duration::from_millis(250);

/// The name of the embedded database in the data directory.
const SQLITE_FILE: &str = "laurel.sqlite";

/// The behavior of a command without a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It makes one.
    Create,
    /// It says so and ends.
    Refuse,
}

/// The address of SQL.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Stores")]
pub struct SqlSettings {
    /// The directory of embedded data: the SQLite file, the private Redis, archived events.
    #[arg(long, env = "LAUREL_DATA_DIR", default_value = "./data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The database: sqlite:// or postgres://. By default laurel.sqlite in the data directory.
    #[arg(long, env = "LAUREL_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
}

/// The addresses of the stores, and the limits of a deployment.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Stores")]
pub struct Settings {
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help of the command")]
    pub sql: SqlSettings,
    /// Redis: redis:// or redis+unix://; a cluster as redis://host:port,host:port?cluster=true, by
    /// some of its servers. By default a private redis-server in the data directory, started and
    /// stopped with the processes that use it.
    #[arg(long, env = "LAUREL_REDIS_URL", hide_env_values = true, value_name = "URL")]
    pub redis_url: Option<String>,
    /// The prefix of every Redis key; no braces.
    #[arg(long, env = "LAUREL_REDIS_PREFIX", default_value = "laurel", value_name = "PREFIX")]
    pub redis_prefix: String,
    /// The time that Redis may take to answer one request, in milliseconds.
    #[arg(long, env = "LAUREL_REDIS_TIMEOUT_MS", default_value_t = 5000, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=600_000))]
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
}

impl SqlSettings {
    /// Connects to the database of a deployment and brings its schema up to date.
    ///
    /// # Errors
    /// `Invalid` if there are no tables of a deployment, or for a URL of another kind; `Sql` if the
    /// database does not answer or has a newer version.
    pub async fn connect(&self) -> Result<DatabaseConnection> {
        let db = self.connect_without_upgrade().await?;
        match deployment_row::Entity::find_by_id(1).one(&db).await {
            Ok(_) => {}
            Err(error) if is_missing_table(&error) => return Err(self.no_deployment()),
            Err(error) => return Err(error.into()),
        }
        until_unlocked(|| migration::up(&db)).await?;
        Ok(db)
    }

    /// Connects to an existing database, and leaves its schema unchanged.
    ///
    /// # Errors
    /// As [`Self::connect`]; an empty database of PostgreSQL is taken.
    pub async fn connect_without_upgrade(&self) -> Result<DatabaseConnection> {
        let options = self.options()?;
        if let Some(file) = sqlite_file(options.get_url())
            && !file.exists()
        {
            return Err(self.no_deployment());
        }
        until_unlocked(|| Database::connect(options.clone())).await
    }

    /// Connects to the database; creates the data directory, the SQLite file and the schema if they
    /// are missing.
    pub async fn create(&self) -> Result<DatabaseConnection> {
        std::fs::create_dir_all(&self.data_dir).map_err(|error| {
            ranking::Error::Unavailable(format!(
                "the data directory {}: {error}",
                self.data_dir.display()
            ))
        })?;
        let options = self.options()?;
        let db = until_unlocked(|| Database::connect(options.clone())).await?;
        until_unlocked(|| migration::up(&db)).await?;
        Ok(db)
    }

    fn options(&self) -> Result<ConnectOptions> {
        let embedded =
            || format!("sqlite://{}?mode=rwc", self.data_dir.join(SQLITE_FILE).display());
        let url = self.database_url.clone().unwrap_or_else(embedded);
        if !["sqlite:", "postgres:", "postgresql:"].iter().any(|kind| url.starts_with(kind)) {
            let kind = url.split(':').next().unwrap_or_default();
            return Err(ranking::Error::Invalid(format!(
                "invalid LAUREL_DATABASE_URL of kind {kind:?}: expected sqlite:// or postgres://"
            ))
            .into());
        }
        let mut options = ConnectOptions::new(url);
        options.sqlx_logging(false).max_connections(16).acquire_timeout(Duration::from_secs(10));
        // FULL: a power cut must not lose commits that the cursor names, as the log in Redis is
        // trimmed up to it.
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
        Ok(options)
    }

    fn no_deployment(&self) -> Error {
        let place = match &self.database_url {
            Some(_) => "in the database that LAUREL_DATABASE_URL names".to_owned(),
            None => format!("in {}", self.data_dir.display()),
        };
        ranking::Error::Invalid(format!(
            "there is no deployment {place}: `laurel serve`, `laurel demo` and `laurel import` make one; name another by \
             --data-dir or LAUREL_DATA_DIR, or by --database-url or LAUREL_DATABASE_URL"
        ))
        .into()
    }
}

/// The file that a URL of SQLite names; none for a database in memory or another kind.
fn sqlite_file(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = path.split('?').next().filter(|path| !path.is_empty() && *path != ":memory:")?;
    Some(Path::new(path))
}

/// Repeats `once` while SQLite refuses it because of a lock.
async fn until_unlocked<T, F>(once: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T, DbErr>>,
{
    let deadline = Instant::now() + SQLITE_LOCKED_TIMEOUT;
    loop {
        match once().await {
            Err(error) if is_locked(&error) && Instant::now() < deadline => {
                tracing::info!(
                    "waiting for another process that makes or upgrades the database: {error}"
                );
                sleep(SQLITE_PAUSE).await;
            }
            done => return Ok(done?),
        }
    }
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
        let store = Store::new(&url, keys, partitions, timeout)?;
        if let Err(error) = store.check_server().await {
            if let Some(redis) = private_redis.and_then(Arc::into_inner) {
                redis.stop().await;
            }
            return Err(error.into());
        }
        Ok(Deployment {
            db,
            store,
            dedup: Dedup { window_ms: i64::from(self.dedup_hours) * 3_600_000 },
            log_commits_max: self.log_commits_max,
            clock: Clock::default(),
            archive_dir: (self.archive_dir.clone())
                .unwrap_or_else(|| self.sql.data_dir.join("archive")),
            archive_copy_dir: self.archive_copy_dir.clone(),
            private_redis,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_sqlite_names_its_file() {
        let file = |url| sqlite_file(url).map(|path| path.to_str().unwrap());
        assert_eq!(file("sqlite:///a/b.sqlite?mode=rwc"), Some("/a/b.sqlite"));
        assert_eq!(file("sqlite://b.sqlite"), Some("b.sqlite"));
        assert_eq!(file("sqlite:b.sqlite"), Some("b.sqlite"));
        assert_eq!(file("sqlite::memory:"), None);
        assert_eq!(file("postgres://host/db"), None);
    }
}
