//! The world of a trial: the stores, a proxy before each, and the processes that share them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{sleep, timeout};

use crate::api::Api;
use crate::clock::{DAY_MS, now_ms};
use crate::deployment::{Deployment, Redis, Sql};
use crate::servers::postgres_node::PostgresNode;
use crate::servers::proxy::Proxy;
use crate::servers::redis_node::RedisNode;
use crate::servers::sql_node::SqlNode;
use crate::trial::disk::SmallDisk;
use crate::trial::fake_clock::FakeClock;
use crate::trial::load::Load;

/// The pause between two looks for recovery.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest wait for an answer whether a process is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The most lines of a log that are kept of a trial that failed.
const LOG_LINES: usize = 400;

/// How long before midnight clocks begin, in seconds: enough for all to start.
const BEFORE_MIDNIGHT_SECONDS: i64 = 40;

/// The servers of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisServers {
    One,
    /// A master, and a replica of it.
    WithReplica,
    /// A cluster of three masters with a replica each, without a proxy.
    Cluster,
}

/// The store whose disk is small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallDiskOf {
    None,
    Sql,
    Redis,
}

/// The clocks of the processes and of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// That of the machine.
    OfMachine,
    /// One each, right at first.
    Own,
    /// One each, at first some seconds before the last midnight in UTC.
    BeforeMidnight,
}

/// The stores and processes that a world is made of.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub sql: Sql,
    pub redis: RedisServers,
    /// The number of processes of `laurel serve`.
    pub processes: usize,
    pub small_disk: SmallDiskOf,
    pub clocks: Clocks,
    /// Settings of all processes.
    pub settings: &'static [(&'static str, &'static str)],
}

impl Shape {
    /// Two processes on PostgreSQL and one Redis.
    pub const POSTGRES: Self = Self {
        sql: Sql::Postgres,
        redis: RedisServers::One,
        processes: 2,
        small_disk: SmallDiskOf::None,
        clocks: Clocks::OfMachine,
        settings: &[],
    };

    /// Two processes on SQLite and one Redis.
    pub const SQLITE: Self = Self { sql: Sql::Sqlite, ..Self::POSTGRES };

    /// Two processes on MariaDB and one Redis.
    pub const MARIADB: Self = Self { sql: Sql::Mariadb, ..Self::POSTGRES };
}

/// A world that has recovered from a fault.
#[derive(Debug, Clone, Copy)]
pub struct Recovered {
    /// The time that it took.
    pub took: Duration,
    /// SQL has each event that was acknowledged before this instant, unless it was lost by then.
    pub in_sql: Instant,
}

/// A deployment with its stores, its processes and its load.
pub struct World {
    // In the order in which they end: a disk goes before the directory that it is mounted in.
    pub load: Load,
    pub apis: Vec<Api>,
    disk: Option<SmallDisk>,
    sql_proxy: Option<Proxy>,
    redis_proxy: Option<Proxy>,
    /// The master at first, and its replica; none of a cluster.
    pub redis: Vec<RedisNode>,
    sql: Option<SqlNode>,
    /// The clocks of the processes, and of Redis as the last one.
    pub clocks: Vec<FakeClock>,
    /// About how long a fault lasts that ends by itself.
    pub lasts: Duration,
    shape: Shape,
    pub deployment: Arc<Deployment>,
}

impl World {
    /// Starts all of it, with empty boards.
    pub async fn start(shape: Shape, seed: u64, lasts: Duration) -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-trial-").tempdir().unwrap();
        let sql_dir = dir.path().join("sql");
        let is_cluster = shape.redis == RedisServers::Cluster;
        let mut disk = match (shape.small_disk, shape.sql) {
            (SmallDiskOf::Redis, _) => Some(SmallDisk::new(&dir.path().join("redis-0"))),
            (SmallDiskOf::Sql, Sql::Sqlite) => Some(SmallDisk::new(&sql_dir)),
            // PostgreSQL has a directory of its own.
            _ => None,
        };
        let clocks = start_clocks(dir.path(), shape);
        let redis = if is_cluster { vec![] } else { start_redis(dir.path(), shape, &clocks) };
        let is_small = shape.small_disk == SmallDiskOf::Sql;
        let sql = match shape.sql {
            Sql::Postgres if !is_cluster => Some(SqlNode::postgres(|at| {
                if is_small {
                    disk = Some(SmallDisk::new(at));
                }
            })),
            Sql::Mariadb if !is_cluster => Some(SqlNode::mariadb()),
            _ => None,
        };
        let redis_proxy = match redis.first() {
            Some(node) => Some(Proxy::before(node.port()).await),
            None => None,
        };
        let sql_proxy = match &sql {
            Some(node) => Some(Proxy::before(node.port()).await),
            None => None,
        };
        let deployment = match redis.first() {
            None => Deployment::new(shape.sql, Redis::Cluster).await,
            Some(node) => {
                let _ = std::fs::create_dir(&sql_dir);
                let file = format!("sqlite://{}?mode=rwc", sql_dir.join("test.sqlite").display());
                let url = sql.as_ref().map_or(file, |node| node.url(node.port()));
                Deployment::elsewhere(dir, url, format!("redis://127.0.0.1:{}", node.port()))
            }
        };
        let token = deployment.admin_token().await.to_owned();
        let load = Load::new(seed, &token, vec![]);
        let mut world = Self {
            load,
            apis: vec![],
            disk,
            sql_proxy,
            redis_proxy,
            redis,
            sql,
            clocks,
            lasts,
            shape,
            deployment,
        };
        world.start_processes().await;
        world
    }

    /// Starts the processes, and creates the boards.
    async fn start_processes(&mut self) {
        for number in 0..self.shape.processes {
            let api = self.new_process(number).await;
            self.apis.push(api);
        }
        self.retarget();
        for input in self.load.inputs() {
            self.apis[0].create_board(input).await;
        }
    }

    /// The proxy before Redis.
    pub fn redis_proxy(&self) -> &Proxy {
        self.redis_proxy.as_ref().expect("a cluster has no proxy, and its faults use none")
    }

    /// The proxy before the server of SQL.
    pub fn sql_proxy(&self) -> &Proxy {
        self.sql_proxy.as_ref().expect("SQLite has no proxy, and its faults use none")
    }

    /// The server of SQL.
    pub fn sql(&mut self) -> &mut SqlNode {
        self.sql.as_mut().expect("SQLite has no server, and its faults use none")
    }

    /// The PostgreSQL server.
    pub fn postgres(&mut self) -> &mut PostgresNode {
        match self.sql() {
            SqlNode::Postgres(node) => node,
            SqlNode::Mariadb(_) => unreachable!("faults of PostgreSQL ask for one"),
        }
    }

    /// A random duration, at most the usual one of a fault.
    pub fn duration(&self, rng: &mut StdRng) -> Duration {
        self.lasts.mul_f64(rng.random_range(0.4..1.0))
    }

    /// Keeps its small disk full for a while; without a file system of its own, for these processes
    /// alone.
    pub async fn fill_disk(&self, pids: &[u32], rng: &mut StdRng) {
        let disk = self.disk.as_ref().expect("its world has a small disk");
        disk.fill(pids);
        sleep(self.duration(rng)).await;
        disk.free(pids);
    }

    /// The ids of the processes.
    pub fn pids(&self) -> Vec<u32> {
        self.apis.iter().map(Api::pid).collect()
    }

    /// Starts a process in the place of one that has ended or is ending.
    pub async fn start_again(&mut self, number: usize) {
        self.apis[number] = self.new_process(number).await;
        self.retarget();
    }

    /// Waits until every process is ready and confirms new events as durable. Nothing after
    /// `longest`.
    pub async fn recover(&self, longest: Duration) -> Option<Recovered> {
        let began = Instant::now();
        let mut in_sql = began;
        for api in &self.apis {
            loop {
                // Each partition gets its commits to SQL in their order.
                in_sql = Instant::now();
                if is_ready(api).await && self.load.probe(api.url()).await {
                    break;
                }
                if began.elapsed() > longest {
                    return None;
                }
                sleep(PAUSE).await;
            }
        }
        Some(Recovered { took: began.elapsed(), in_sql })
    }

    /// Keeps the ends of the logs of all processes in a directory.
    pub fn keep_logs(&self, dir: &Path) {
        std::fs::create_dir_all(dir).unwrap();
        for (number, api) in self.apis.iter().enumerate() {
            let log = api.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
            std::fs::write(dir.join(format!("{number}.log")), last).unwrap();
        }
    }

    /// A path in the directory of the deployment, for a fault's own files.
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(self.deployment.path(name))
    }

    async fn new_process(&self, number: usize) -> Api {
        let mut command = self.command();
        if let Some(clock) = self.clocks.get(number) {
            command.envs(clock.variables());
        }
        Api::start_command(&self.deployment, command).await
    }

    fn command(&self) -> Command {
        let usual = self.deployment.api(&["serve"]);
        // A signal for a file that is too large would end it; a full disk does not.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(usual.get_program());
        command.args(usual.get_args()).stdin(Stdio::null());
        for (name, value) in usual.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = usual.get_current_dir() {
            command.current_dir(dir);
        }
        // Few, so that each of them has load.
        command.env("LAUREL_PARTITIONS", "4");
        command.env("LAUREL_SQL_LOOKUP_TIMEOUT_MS", "1000");
        command.envs(self.shape.settings.iter().copied());
        if let Some(proxy) = &self.redis_proxy {
            command.env("LAUREL_REDIS_URL", format!("redis://127.0.0.1:{}", proxy.port()));
        }
        if let (Some(node), Some(proxy)) = (&self.sql, &self.sql_proxy) {
            command.env("LAUREL_DATABASE_URL", node.url(proxy.port()));
        }
        command
    }

    fn retarget(&self) {
        self.load.retarget(self.apis.iter().map(|api| api.url().to_owned()).collect());
    }
}

async fn is_ready(api: &Api) -> bool {
    timeout(READY_TIMEOUT, api.is_ready()).await.unwrap_or(false)
}

/// A clock for each process, and one for Redis.
fn start_clocks(dir: &Path, shape: Shape) -> Vec<FakeClock> {
    if shape.clocks == Clocks::OfMachine {
        return vec![];
    }
    let new = |number: usize| FakeClock::new(dir, &number.to_string());
    let clocks: Vec<FakeClock> = (0..=shape.processes).map(new).collect();
    if shape.clocks == Clocks::BeforeMidnight {
        let since_midnight = now_ms().rem_euclid(DAY_MS) / 1000;
        clocks.iter().for_each(|clock| clock.set(-since_midnight - BEFORE_MIDNIGHT_SECONDS));
    }
    clocks
}

fn start_redis(dir: &Path, shape: Shape, clocks: &[FakeClock]) -> Vec<RedisNode> {
    let variables = || clocks.last().map(FakeClock::variables).unwrap_or_default();
    let count = if shape.redis == RedisServers::WithReplica { 2 } else { 1 };
    let mut nodes: Vec<RedisNode> = vec![];
    for number in 0..count {
        let dir = dir.join(format!("redis-{number}"));
        let _ = std::fs::create_dir(&dir);
        let node = RedisNode::start(&dir, variables());
        if let Some(master) = nodes.first() {
            let port = master.port().to_string();
            let () = node.ask(&["REPLICAOF", "127.0.0.1", &port]);
        }
        nodes.push(node);
    }
    nodes
}
