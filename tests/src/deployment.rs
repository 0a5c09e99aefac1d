//! A deployment of a test's own: a data directory, a database and a Redis, removed when its last
//! user is dropped.

mod sql;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::settings::SqlSettings;
use engine::settings::stores::Missing;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::servers::redis_cluster::RedisCluster;
use crate::servers::redis_server::RedisServer;
use crate::servers::{mariadb, program};

pub use sql::Sql;

/// The owner of the redis-server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redis {
    /// A private one that the programs start in the data directory.
    Private,
    /// One that the test starts.
    Own,
    /// A cluster that the test starts.
    Cluster,
}

/// The redis-servers that the test has started.
enum Servers {
    None,
    One(RedisServer),
    Cluster(RedisCluster),
    /// One at this URL, which belongs to the test.
    Elsewhere(String),
}

/// The end of the key that has the number of the last change of a board.
pub const CHANGES: &str = ":changes";

/// The stores of a test, and their directory.
pub struct Deployment {
    dir: TempDir,
    database_url: String,
    servers: Servers,
    token: OnceCell<String>,
    processes: AtomicUsize,
}

impl Deployment {
    /// A new, empty deployment.
    pub async fn new(sql: Sql, redis: Redis) -> Arc<Self> {
        let dir = new_directory();
        let database_url = sql.new_database(dir.path()).await;
        Self::on(dir, database_url, redis)
    }

    /// A new deployment in an empty database of a server that the caller started.
    pub fn on_database(url: String, redis: Redis) -> Arc<Self> {
        Self::on(new_directory(), url, redis)
    }

    /// A new deployment in a directory, on empty stores that the test starts and stops.
    pub fn elsewhere(dir: TempDir, database_url: String, redis_url: String) -> Arc<Self> {
        Self::of(dir, database_url, Servers::Elsewhere(redis_url))
    }

    /// A deployment on SQLite and a private Redis, from an archive of its directory.
    pub fn stored(archive: &Path) -> Arc<Self> {
        let dir = new_directory();
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(archive).arg("-C").arg(dir.path());
        assert!(unpack.status().unwrap().success(), "{unpack:?}");
        let database = dir.path().join("data/laurel.sqlite");
        Self::on(dir, format!("sqlite://{}?mode=rwc", database.display()), Redis::Private)
    }

    fn on(dir: TempDir, database_url: String, redis: Redis) -> Arc<Self> {
        let servers = match redis {
            Redis::Private => Servers::None,
            Redis::Own => Servers::One(RedisServer::start(dir.path())),
            Redis::Cluster => Servers::Cluster(RedisCluster::start(dir.path())),
        };
        Self::of(dir, database_url, servers)
    }

    fn of(dir: TempDir, database_url: String, servers: Servers) -> Arc<Self> {
        Arc::new(Self {
            dir,
            database_url,
            servers,
            token: OnceCell::new(),
            processes: AtomicUsize::new(0),
        })
    }

    /// The stores, opened as the programs do.
    pub async fn open_stores(&self) -> engine::deployment::Deployment {
        let settings = self.settings();
        let db = settings.connect_sql(Missing::Create).await.unwrap();
        settings.open(db).await.unwrap()
    }

    /// Lets SQL catch up with Redis.
    pub async fn settle(&self) {
        let stores = self.open_stores().await;
        settle(&stores).await;
        stores.close().await;
    }

    /// The settings that the programs get.
    pub fn settings(&self) -> engine::settings::Settings {
        engine::settings::Settings {
            sql: SqlSettings::new(self.dir.path().join("data"), Some(self.database_url.clone())),
            redis_url: Some(self.redis_url()),
            redis_ca: None,
            redis_prefix: "laurel".to_owned(),
            redis_allow_volatile: false,
            redis_run_id: None,
            partitions: None,
            dedup_hours: None,
            log_commits_max: 100_000,
            log_bytes_max: 256 << 20,
            redis_timeout_ms: 5000,
            archive_dir: None,
            archive_copy_dir: None,
            checkpoint_key_file: None,
            mirror: Default::default(),
        }
    }

    /// A command of the server's program with this deployment's settings; it runs no daily diff.
    pub fn api(&self, arguments: &[&str]) -> Command {
        let mut command = self.settled(program::api(), arguments);
        command.env("LAUREL_DIFF_AT", "off");
        // Most tests change something behind the server's back, and look at once.
        command.env("LAUREL_TOKEN_ANSWERS", "off");
        command
    }

    /// A command of the program of batch jobs with this deployment's settings.
    pub fn analytics_command(&self, arguments: &[&str]) -> Command {
        self.settled(program::analytics(), arguments)
    }

    /// Runs a batch job with this deployment's settings to its end.
    pub fn analytics(&self, arguments: &[&str]) -> Output {
        self.analytics_command(arguments).output().unwrap()
    }

    /// Runs a command of the server's program that must succeed, and returns what it prints.
    pub async fn api_output(self: &Arc<Self>, arguments: &[&str]) -> String {
        let mut command = self.api(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "api {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// An admin token, the same each time.
    pub async fn admin_token(self: &Arc<Self>) -> &str {
        self.token.get_or_init(|| async { self.new_token(&["--scope", "admin"]).await }).await
    }

    /// A new token, created on the command line.
    pub async fn new_token(self: &Arc<Self>, arguments: &[&str]) -> String {
        // The first server makes the rest of the deployment.
        self.settings().sql.create().await.unwrap().close().await.unwrap();
        let arguments = [&["token", "create"], arguments].concat();
        self.api_output(&arguments).await.trim().to_owned()
    }

    /// A new file in the deployment's directory, such as for the output of a process.
    pub fn new_file(&self, name: &str) -> PathBuf {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        self.dir.path().join(format!("{name}.{number}"))
    }

    /// The path of this name in the deployment's directory.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// The URL of its database.
    pub fn database_url(&self) -> &str {
        &self.database_url
    }

    /// A connection to Redis, a single server.
    pub async fn redis(&self) -> MultiplexedConnection {
        self.try_redis().await.unwrap()
    }

    /// Sends a command to Redis, a single server.
    pub async fn ask_redis<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.redis().await).await.unwrap()
    }

    /// The keys of Redis, a single server, in order, each with its content as `DUMP` tells it. The
    /// number of the last change of a board is left out: a worker notes it in its own time.
    pub async fn redis_contents(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let mut redis = self.redis().await;
        let mut keys: Vec<String> = redis.keys("*").await.unwrap();
        keys.retain(|key| !key.ends_with(CHANGES));
        keys.sort();
        let mut contents = vec![];
        for key in keys {
            // A token of a recovery may go between the two commands.
            let dump = redis::cmd("DUMP").arg(&key).query_async(&mut redis).await.unwrap();
            contents.push((key, dump));
        }
        contents
    }

    /// The process id of the redis-server.
    pub async fn redis_pid(&self) -> u32 {
        let info: String = self.ask_redis(&["INFO", "server"]).await;
        let line = info.lines().find_map(|line| line.strip_prefix("process_id:"));
        line.unwrap().trim().parse().unwrap()
    }

    /// A connection to the database.
    pub async fn sql(&self) -> DatabaseConnection {
        mariadb::connect(&self.database_url).await
    }

    /// The one number that a SELECT answers with.
    pub async fn number(&self, select: &str) -> i64 {
        let rows: Vec<i64> = self.column(select).await;
        assert_eq!(rows.len(), 1, "{select}");
        rows[0]
    }

    /// The first column of a SELECT. A cast to BIGINT is one to a number of that size everywhere.
    pub async fn column<T: sea_orm::TryGetable>(&self, select: &str) -> Vec<T> {
        let db = self.sql().await;
        let backend = db.get_database_backend();
        let select = match backend {
            DbBackend::MySql => {
                select.replace(" AS BIGINT)", " AS SIGNED)").replace(" AS TEXT)", " AS CHAR)")
            }
            _ => select.to_owned(),
        };
        let statement = Statement::from_string(backend, select);
        let rows = db.query_all_raw(statement).await.unwrap();
        db.close().await.unwrap();
        rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
    }

    /// A connection to Redis, if it is running.
    pub async fn try_redis(&self) -> redis::RedisResult<MultiplexedConnection> {
        let config =
            redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
        redis::Client::open(self.redis_url())?
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// Empties Redis.
    pub async fn flush_redis(&self) {
        let mut connection = self.try_redis().await.unwrap();
        let flush = redis::cmd("FLUSHALL");
        let () = flush.query_async(&mut connection).await.unwrap();
    }

    /// The URL of its Redis.
    pub fn redis_url(&self) -> String {
        self.servers_url().unwrap_or_else(|| {
            let dir = self.dir.path().join("data/redis");
            // There is none before the first start.
            let lines = std::fs::read_to_string(dir.join("password.conf")).unwrap_or_default();
            let line = lines.lines().next().unwrap_or_default();
            let password = line.replace("requirepass ", "");
            format!("redis+unix://{}?pass={password}", dir.join("redis.sock").display())
        })
    }

    /// Its cluster.
    pub fn cluster(&self) -> &RedisCluster {
        let Servers::Cluster(cluster) = &self.servers else {
            panic!("its Redis is no cluster");
        };
        cluster
    }

    /// The directory of its archive.
    pub fn archive_dir(&self) -> PathBuf {
        self.dir.path().join("data/archive")
    }

    fn servers_url(&self) -> Option<String> {
        match &self.servers {
            Servers::None => None,
            Servers::One(server) => Some(server.url().to_owned()),
            Servers::Cluster(cluster) => Some(cluster.url()),
            Servers::Elsewhere(url) => Some(url.clone()),
        }
    }

    fn settled(&self, mut command: Command, arguments: &[&str]) -> Command {
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env("LAUREL_DATA_DIR", self.dir.path().join("data"))
            .env("LAUREL_DATABASE_URL", &self.database_url)
            .stdin(std::process::Stdio::null());
        if let Some(url) = self.servers_url() {
            command.env("LAUREL_REDIS_URL", url);
        }
        command
    }
}

fn new_directory() -> TempDir {
    crate::failure::tell_at_once();
    tempfile::Builder::new().prefix("laurel-").tempdir().unwrap()
}

/// Lets SQL catch up with Redis, as the background work does.
pub async fn settle(stores: &engine::deployment::Deployment) {
    for partition in stores.partitions() {
        partition.settle().await.unwrap();
    }
}

/// How long a private redis-server may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

impl Drop for Deployment {
    fn drop(&mut self) {
        // The private redis-server outlives a process that was killed.
        if let Servers::None = self.servers
            && let Ok(client) = redis::Client::open(self.redis_url())
            && let Ok(mut connection) = client.get_connection_with_timeout(SHUTDOWN_TIMEOUT)
            && connection.set_read_timeout(Some(SHUTDOWN_TIMEOUT)).is_ok()
        {
            let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut connection);
        }
    }
}
