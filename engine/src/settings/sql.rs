//! Settings of SQL, and its connections: what commits, look-ups and reads each have of their own.

mod connection;
mod mysql;
mod pools;
mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use entity::deployment as deployment_row;
use entity::error::{Error, Result, is_locked, is_missing_table, is_out_of_time};
use ranking::store::server::address::is_loopback;
use sea_orm::{ConnectOptions, Database, DatabaseConnection, DbBackend, DbErr};
use sqlx::sqlite::SqliteConnectOptions;
use tokio::time::{Instant, sleep};

use self::connection::{guarded, sqlite_options};
pub use self::pools::PoolSettings;
use self::server::Limits;
use crate::deployment::files::{keep_private, lock_holders};

/// The longest wait at start for processes that make or upgrade a SQLite database, and the pause
/// between two tries. SQLite at once refuses some of the processes that switch a new file to
/// write-ahead logging, and an upgrade may outlast the wait for a lock.
const SQLITE_LOCKED_TIMEOUT: Duration = Duration::from_secs(600);
const SQLITE_PAUSE: Duration = Duration::from_millis(250);

/// The name of the embedded database in the data directory.
const SQLITE_FILE: &str = "laurel.sqlite";

/// The connections for writes and background work.
const CONNECTIONS_DEFAULT: u32 = 16;

/// The most connections of a pool to SQLite. More of them only wait for the one that writes, and
/// each keeps some 15 MB.
const SQLITE_CONNECTIONS_MAX: u32 = 8;

/// The time to wait for a connection of a pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that a transaction of a server may do nothing before the database ends it.
const IDLE_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(20);

/// As [`IDLE_TRANSACTION_TIMEOUT`], for batch jobs, which compute while they hold a view.
pub const IDLE_JOB_TIMEOUT: Duration = Duration::from_secs(600);

/// The ways to other machines.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Stores")]
pub struct CleartextSettings {
    /// Lets a database and Redis on other machines, the broker of a queue or a feed, the server
    /// that scores go to, the collector of spans, and receivers of webhooks be reached in clear
    /// text, for a network that no stranger can read.
    #[arg(long, env = "LAUREL_ALLOW_CLEARTEXT", default_value_t = false, action = clap::ArgAction::Set)]
    pub allow_cleartext: bool,
}

impl CleartextSettings {
    /// True if a host may be reached in clear text: it is this machine, or the settings let any be.
    pub fn permit(&self, host: &str) -> bool {
        self.allow_cleartext || is_loopback(host)
    }
}

/// The address of SQL.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Stores")]
pub struct SqlSettings {
    /// The directory of embedded data: the SQLite file, the private Redis, archived events. It is
    /// for this user alone.
    #[arg(long, env = "LAUREL_DATA_DIR", default_value = "./data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The database: sqlite://, postgres:// or mysql://, which is for MariaDB too. By default
    /// laurel.sqlite in the data directory.
    #[arg(long, env = "LAUREL_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// The most connections to the database for writes and background work, 1 to 1000; SQLite,
    /// which has one writer at a time, gets at most 8.
    #[arg(long, env = "LAUREL_SQL_CONNECTIONS", default_value_t = CONNECTIONS_DEFAULT, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sql_connections: u32,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help of the command")]
    pub cleartext: CleartextSettings,
    /// The time that a transaction may do nothing before a server ends it.
    #[arg(skip = IDLE_TRANSACTION_TIMEOUT)]
    pub idle_transaction_timeout: Duration,
}

/// The connections for an upgrade: for its statements, and for what asks how far it is.
const UPGRADE_CONNECTIONS: u32 = 2;

impl SqlSettings {
    /// The defaults, with a directory and a database.
    pub fn new(data_dir: PathBuf, database_url: Option<String>) -> Self {
        Self {
            data_dir,
            database_url,
            sql_connections: CONNECTIONS_DEFAULT,
            cleartext: CleartextSettings { allow_cleartext: false },
            idle_transaction_timeout: IDLE_TRANSACTION_TIMEOUT,
        }
    }

    /// Connects to the database of a deployment and brings its schema up to date.
    ///
    /// # Errors
    /// `Invalid` if there are no tables of a deployment, or for a URL of another kind; `Sql` if the
    /// database does not answer or has a newer version.
    pub async fn connect(&self) -> Result<DatabaseConnection> {
        let db = self.connect_without_upgrade().await?;
        match deployment_row::find(&db).await {
            Ok(_) => {}
            Err(error) if is_missing_table(&error) => return Err(self.no_deployment()),
            Err(error) => return Err(error.into()),
        }
        self.upgrade(&db).await?;
        Ok(db)
    }

    /// Connects to an existing database, and leaves its schema unchanged.
    ///
    /// # Errors
    /// As [`Self::connect`]; an empty database of a server is taken.
    pub async fn connect_without_upgrade(&self) -> Result<DatabaseConnection> {
        let options = self.options(self.sql_connections, None)?;
        if self.data_dir.exists() {
            keep_private(&self.data_dir)?;
        }
        if let Some(file) = sqlite_file(options.get_url())
            && !file.exists()
        {
            return Err(self.no_deployment());
        }
        self.open(options).await
    }

    /// Connects to the database; creates the data directory, the SQLite file and the schema if they
    /// are missing.
    pub async fn create(&self) -> Result<DatabaseConnection> {
        let db = self.create_empty().await?;
        self.upgrade(&db).await?;
        Ok(db)
    }

    /// As [`Self::create`], without the schema.
    pub(crate) async fn create_empty(&self) -> Result<DatabaseConnection> {
        keep_private(&self.data_dir).map_err(Self::no_directory)?;
        self.open(self.options(self.sql_connections, None)?).await
    }

    /// Opens the first pool, and checks the server behind it.
    async fn open(&self, options: ConnectOptions) -> Result<DatabaseConnection> {
        let db = self.open_pool(options).await?;
        mysql::check(&db).await?;
        Ok(db)
    }

    async fn open_pool(&self, options: ConnectOptions) -> Result<DatabaseConnection> {
        let file = sqlite_file(options.get_url()).map(Path::to_owned);
        let opened = until_unlocked(file.as_deref(), || Database::connect(options.clone())).await;
        // The pool tells that it waited, and not for what.
        if let (Err(Error::Sql(error)), Some(url)) = (&opened, &self.database_url)
            && is_out_of_time(error)
            && let Some(reason) = server::unreached(url).await
        {
            return Err(reason.into());
        }
        opened
    }

    /// Brings the schema of the database behind a pool up to date. On a server it takes connections
    /// of its own, whose statements have no limit of time: an index of a large table takes hours,
    /// and one that is cut short is begun again at the next start.
    ///
    /// # Errors
    /// `Sql` if the database does not answer, has a newer version, or refuses a step.
    pub async fn upgrade(&self, db: &DatabaseConnection) -> Result<()> {
        let options = self.options(UPGRADE_CONNECTIONS, Some(Duration::ZERO))?;
        if db.get_database_backend() == DbBackend::Sqlite {
            until_unlocked(sqlite_file(options.get_url()), || migration::up(db)).await?;
            return Ok(());
        }
        let own = self.open_pool(options).await?;
        let upgraded = migration::up(&own).await;
        // All has been written, or has failed.
        let _ = own.close().await;
        Ok(upgraded?)
    }

    /// The options of a pool of `count` connections, whose statements a server ends after
    /// `timeout`.
    fn options(&self, count: u32, timeout: Option<Duration>) -> Result<ConnectOptions> {
        let embedded =
            || format!("sqlite://{}?mode=rwc", self.data_dir.join(SQLITE_FILE).display());
        let url = self.database_url.clone().unwrap_or_else(embedded);
        let is_sqlite = url.starts_with("sqlite:");
        let mut options = match is_sqlite {
            true if url.parse::<SqliteConnectOptions>().is_ok() => ConnectOptions::new(url),
            true => return Err(server::refused(&url, "sqlite://path").into()),
            false => {
                let limits = Limits { statement: timeout, idle: self.idle_transaction_timeout };
                server::options(&url, limits, self.cleartext.allow_cleartext)?
            }
        };
        let count = if is_sqlite { count.min(SQLITE_CONNECTIONS_MAX) } else { count };
        options.sqlx_logging(false).max_connections(count).acquire_timeout(ACQUIRE_TIMEOUT);
        options.map_sqlx_sqlite_opts(sqlite_options).map_sqlx_sqlite_pool_opts(guarded);
        Ok(options)
    }

    /// The file of the database; `None` for a server, and for a database in memory.
    pub(super) fn file(&self) -> Option<PathBuf> {
        match &self.database_url {
            Some(url) => sqlite_file(url).map(Path::to_owned),
            None => Some(self.data_dir.join(SQLITE_FILE)),
        }
    }

    /// The error about a data directory that cannot be made or read.
    fn no_directory(error: ranking::Error) -> ranking::Error {
        match error {
            ranking::Error::Unavailable(reason) => ranking::Error::Unavailable(format!(
                "the data directory (LAUREL_DATA_DIR): {reason}"
            )),
            error => error,
        }
    }

    pub(crate) fn no_deployment(&self) -> Error {
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

/// Repeats `once` while SQLite refuses it because of a lock of its file.
async fn until_unlocked<T, F>(file: Option<&Path>, once: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T, DbErr>>,
{
    let deadline = Instant::now() + SQLITE_LOCKED_TIMEOUT;
    loop {
        let error = match once().await {
            Err(error) if is_locked(&error) => error,
            done => return Ok(done?),
        };
        let file = file.unwrap_or(Path::new("the database"));
        let shared = PathBuf::from(format!("{}-shm", file.display()));
        let holders = lock_holders(&[file, &shared]);
        if Instant::now() >= deadline {
            return Err(ranking::Error::Unavailable(format!(
                "{} was locked for {} s, by {holders}: {error}",
                file.display(),
                SQLITE_LOCKED_TIMEOUT.as_secs()
            ))
            .into());
        }
        tracing::info!("waiting for {holders}, which makes or upgrades the database: {error}");
        sleep(SQLITE_PAUSE).await;
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
        assert_eq!(file("mysql://host/db"), None);
    }

    fn settings(url: &str, allow_cleartext: bool) -> SqlSettings {
        let database_url = Some(url.to_owned());
        let cleartext = CleartextSettings { allow_cleartext };
        SqlSettings { cleartext, ..SqlSettings::new(PathBuf::new(), database_url) }
    }

    #[test]
    fn a_url_that_is_refused_is_shown_without_its_password() {
        for url in [
            "postgres://u:pa/cret@h/x",
            "postgres://u:pa#cret@h/x",
            "postgres://u:pa?cret@h/x",
            "postgres://u:pa@cret@h:port/x",
            "mysql://u:pa/cret@h/x",
            "mysql://u:pa@cret@h:port/x",
            "mysql://u:cret@localhost",
            "postgres://u:cret@localhost/x?ssl_mode=verify-full",
            "mysql://u:cret@localhost/x?ssl_mode=REQUIRED",
            "mysql://u:cret@localhost/x?ssl-mode=verify-full",
            "mysql://u@localhost/x?ssl-ca=/ca.pem&other=1",
            "oracle://u:cret@h/x",
            "u:cret@h/x",
            "cret",
        ] {
            let refused = settings(url, false).options(1, None).unwrap_err().to_string();
            assert!(!refused.contains("cret"), "{url}: {refused}");
            assert!(refused.contains("expected"), "{refused}");
        }
    }

    #[test]
    fn clear_text_stays_on_this_machine_unless_it_is_allowed() {
        for (url, is_taken) in [
            ("postgres://u@localhost/x", true),
            ("postgres://u@127.0.0.2:1/x", true),
            ("postgres://u@[::1]/x", true),
            ("postgres://u@localhost/x?host=/run/postgresql", true),
            ("postgres://u@db.example/x?sslmode=require", true),
            ("postgres://u@db.example/x?sslmode=verify-full", true),
            ("postgres://u@db.example/x", false),
            ("postgres://u@10.0.0.5/x?sslmode=prefer", false),
            ("postgres://u@10.0.0.5/x?sslmode=disable", false),
            ("mysql://u@localhost/x", true),
            ("mariadb://u@127.0.0.2:1/x", true),
            ("mysql://u@[::1]/x", true),
            ("mysql://u@db.example/x?socket=/run/mysqld/mysqld.sock", true),
            ("mysql://u@db.example/x?ssl-mode=REQUIRED", true),
            ("mysql://u@db.example/x?ssl-mode=VERIFY_IDENTITY", true),
            ("mysql://u@db.example/x", false),
            ("mysql://u@10.0.0.5/x?ssl-mode=PREFERRED", false),
            ("mysql://u@10.0.0.5/x?ssl-mode=DISABLED", false),
        ] {
            assert_eq!(settings(url, false).options(1, None).is_ok(), is_taken, "{url}");
            assert!(settings(url, true).options(1, None).is_ok(), "{url}");
        }
        for (url, expected) in [
            ("postgres://u:cret@db.example/x", "sslmode=verify-full"),
            ("mysql://u:cret@db.example/x", "ssl-mode=VERIFY_IDENTITY"),
        ] {
            let refused = settings(url, false).options(1, None).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
            assert!(refused.contains("LAUREL_ALLOW_CLEARTEXT") && !refused.contains("cret"));
        }
    }
}
