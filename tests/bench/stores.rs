//! The stores, opened in this process: a redis-server on a Unix socket and a database, in a
//! directory that goes with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::deployment::Deployment;
use engine::partition::submit::{Prepared, Submitted};
use engine::settings::stores::Missing;
use engine::settings::{Settings, SqlSettings};
use entity::board::{self, first_windows, windows_text};
use ranking::board::Board;
use ranking::board::rules::{Rules, RulesInput};
use ranking::id::{EventId, MemberId, PartitionNo};
use ranking::submission::Submission;
use ranking::submission::effect::Report;
use ranking::window::Window;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tests::deployment::Sql;
use tokio::time::Instant;

/// The partitions, as of a deployment that is born without being told.
pub(crate) const PARTITIONS: u16 = 16;

/// How long Redis may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a submission is tried for.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A deployment of the benchmark's own.
pub(crate) struct Stores {
    pub(crate) deployment: Deployment,
    redis: MultiplexedConnection,
    redis_url: String,
    /// That of a server of SQL.
    database_url: Option<String>,
    events: AtomicU64,
    _server: Server,
    dir: TempDir,
}

/// The CPU time that Redis has spent since it started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    /// In scripts, in microseconds.
    pub(crate) scripts_us: f64,
    /// On the processor, by the thread that serves, in microseconds.
    pub(crate) cpu_us: f64,
}

/// A running redis-server; killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Spent {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            scripts_us: self.scripts_us - before.scripts_us,
            cpu_us: self.cpu_us - before.cpu_us,
        }
    }
}

impl Stores {
    /// As [`Self::open_on`], on SQLite.
    pub(crate) async fn open(partitions: u16) -> Self {
        Self::open_on(Sql::Sqlite, partitions).await
    }

    /// Starts and opens new ones with nothing in them, in so many partitions.
    pub(crate) async fn open_on(sql: Sql, partitions: u16) -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-bench-").tempdir().unwrap();
        let socket = dir.path().join("redis.sock");
        // As the private redis-server of a deployment is started.
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "everysec"])
            .arg("--dir")
            .arg(dir.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map(Server)
            .expect("redis-server is installed");
        let redis_url = format!("redis+unix://{}", socket.display());
        let redis = connect(&redis_url).await;
        let database_url = match sql {
            Sql::Sqlite => None,
            sql => Some(sql.new_database(dir.path()).await),
        };
        let settings = Settings {
            sql: SqlSettings::new(dir.path().join("data"), database_url.clone()),
            redis_url: Some(redis_url.clone()),
            redis_ca: None,
            redis_prefix: "laurel".to_owned(),
            redis_allow_volatile: false,
            redis_run_id: None,
            partitions: Some(partitions),
            dedup_hours: None,
            log_commits_max: 100_000,
            log_bytes_max: 256 << 20,
            redis_timeout_ms: 60_000,
            archive_dir: None,
            archive_copy_dir: None,
            checkpoint_key_file: None,
            mirror: Default::default(),
        };
        let db = settings.connect_sql(Missing::Create).await.unwrap();
        let stores = Self {
            deployment: settings.open(db).await.unwrap(),
            redis,
            redis_url,
            database_url,
            events: AtomicU64::new(0),
            _server: server,
            dir,
        };
        stores.settle().await;
        stores
    }

    /// The directory that all of it lies in.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where Redis is.
    pub(crate) fn redis_url(&self) -> &str {
        &self.redis_url
    }

    /// Where the database is, if it has a server.
    pub(crate) fn database_url(&self) -> Option<&str> {
        self.database_url.as_deref()
    }

    /// The socket that Redis listens on.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// A connection to Redis, the same each time.
    pub(crate) fn redis(&self) -> MultiplexedConnection {
        self.redis.clone()
    }

    /// A new connection to Redis.
    pub(crate) async fn connect(&self) -> MultiplexedConnection {
        connect(&self.redis_url).await
    }

    /// A board that a server made.
    pub(crate) async fn board(&self, slug: &str) -> Board {
        let row = board::of_slug(&self.deployment.db, slug).await.unwrap();
        row.unwrap().to_ranking().unwrap()
    }

    /// The memory of Redis, in bytes.
    pub(crate) async fn memory(&self) -> f64 {
        let memory = self.info("memory").await;
        field(&memory, "used_memory").parse().unwrap()
    }

    /// Closes them and stops the server.
    pub(crate) async fn close(self) {
        self.deployment.close().await;
    }

    /// A new board in one shard, where scores are added up, with those windows.
    pub(crate) async fn create_board(&self, slug: &str, windows: &[Window]) -> Board {
        self.create_board_that_retains(slug, windows, &BTreeMap::new()).await
    }

    /// As [`Self::create_board`], with the past periods that windows retain.
    pub(crate) async fn create_board_that_retains(
        &self,
        slug: &str,
        windows: &[Window],
        retained: &BTreeMap<Window, Option<u32>>,
    ) -> Board {
        let rules = Rules::new(RulesInput {
            max: 1_000_000_000,
            windows: windows.to_vec(),
            ..Default::default()
        });
        let rules = rules.unwrap();
        let mut row = board::of_rules(slug, slug, &rules, "UTC", 0);
        row.windows = windows_text(&first_windows(&rules, retained));
        let row = board::insert(&self.deployment.db, row).await.unwrap();
        row.unwrap().to_ranking().unwrap()
    }

    /// The partition that a board of one shard lies in.
    pub(crate) fn partition_of(&self, board: &Board) -> PartitionNo {
        self.deployment.store.partitions().of_board(board)[0]
    }

    /// A score with an event id of its own.
    pub(crate) fn score(&self, board: &Board, member: &MemberId, at_ms: Option<i64>) -> Submission {
        let event = self.events.fetch_add(1, Ordering::Relaxed);
        Submission {
            report: Report::Nothing,
            board: board.clone(),
            member: member.clone(),
            score: 1 + (event % 100) as i64,
            at_ms,
            event_id: Some(EventId::new(&format!("e{event}")).unwrap()),
            segments: vec![],
            metadata: None,
            provenance: None,
        }
    }

    /// Submits to a partition; all must be accepted.
    pub(crate) async fn submit(&self, partition: PartitionNo, batch: Vec<Submission>) -> Submitted {
        let now_ms = self.deployment.clock.now_ms();
        let deadline = Instant::now() + SUBMIT_TIMEOUT;
        let submitted = self
            .deployment
            .partition(partition)
            .submit(Prepared::new(batch, now_ms), None, deadline)
            .await;
        submitted.unwrap()
    }

    /// Puts all that the logs have into SQL.
    pub(crate) async fn settle(&self) {
        for partition in self.deployment.partitions() {
            partition.settle().await.unwrap();
        }
    }

    /// How many commits all partitions have had.
    pub(crate) async fn commits(&self) -> u64 {
        let heads = self.deployment.store.heads().await.unwrap();
        heads.into_iter().map(|head| head.unwrap().seq).sum()
    }

    /// The CPU time that Redis has spent so far.
    pub(crate) async fn spent(&self) -> Spent {
        let scripts = self.info("commandstats").await;
        let processor = self.info("cpu").await;
        let cpu_s: f64 = ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"]
            .map(|name| field(&processor, name).parse::<f64>().unwrap())
            .iter()
            .sum();
        let evalsha = field(&scripts, "cmdstat_evalsha").to_owned();
        let usec = evalsha.split(',').find_map(|part| part.strip_prefix("usec="));
        Spent { scripts_us: usec.unwrap().parse().unwrap(), cpu_us: cpu_s * 1e6 }
    }

    /// A section of what Redis says of itself.
    pub(crate) async fn info(&self, section: &str) -> String {
        redis::cmd("INFO").arg(section).query_async(&mut self.redis.clone()).await.unwrap()
    }
}

/// A field of what Redis says of itself; empty where it does not say.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(named, _)| *named == name);
    found.map_or("", |(_, value)| value.trim())
}

/// Connects as soon as the server answers.
async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_TIMEOUT));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        match connecting.await {
            Ok(connection) => return connection,
            Err(error) if Instant::now() > deadline => panic!("redis-server: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
