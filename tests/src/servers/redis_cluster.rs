//! A Redis Cluster of a test's own: three masters, a replica of each.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rand::RngExt;
use redis::FromRedisValue;

use crate::wait::{until, until_blocking};

/// The number of servers that have slots.
pub const MASTERS: usize = 3;

/// The time after which the others take a silent server for dead, in milliseconds: longer than a
/// busy machine delays one.
const NODE_TIMEOUT_MS: u64 = 3000;

/// The distance between the port for clients and the port of the cluster bus.
const BUS_PORT: u16 = 10_000;

/// Running redis-servers with append-only files; killed when dropped.
pub struct RedisCluster {
    servers: Vec<Server>,
}

struct Server {
    dir: PathBuf,
    port: u16,
    child: Mutex<Child>,
}

impl RedisCluster {
    /// Starts one in an existing directory, and waits until it is complete.
    pub fn start(dir: &Path) -> Self {
        let start = |number| {
            let dir = dir.join(format!("node-{number}"));
            std::fs::create_dir(&dir).unwrap();
            let port = free_port();
            let child = Mutex::new(spawn(&dir, port));
            Server { dir, port, child }
        };
        let cluster = Self { servers: (0..2 * MASTERS).map(start).collect() };
        for server in &cluster.servers {
            until_blocking("a server of the cluster answers", || {
                server.try_ask::<String>(&["PING"])
            });
        }
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]);
        create.args(cluster.servers.iter().map(Server::address));
        create.args(["--cluster-replicas", "1", "--cluster-yes"]);
        let created = create.output().expect("redis-cli is installed");
        let said = String::from_utf8_lossy(&created.stdout);
        assert!(created.status.success(), "{said}");
        until_blocking("the cluster is whole", || {
            cluster.servers.iter().all(Server::is_well).then_some(())
        });
        cluster
    }

    /// Its URL: two of its servers.
    pub fn url(&self) -> String {
        let (first, last) = (&self.servers[0], &self.servers[2 * MASTERS - 1]);
        format!("redis://{},{}?cluster=true", first.address(), last.address())
    }

    /// The plain URL of one of its servers.
    pub fn plain_url(&self) -> String {
        format!("redis://{}", self.servers[0].address())
    }

    /// The servers that are masters, by their ports.
    pub fn masters(&self) -> Vec<u16> {
        let is_master = |server: &&Server| {
            let info = server.try_ask::<String>(&["INFO", "replication"]);
            info.is_some_and(|info| info.contains("role:master"))
        };
        let masters = self.servers.iter().filter(is_master);
        masters.map(|server| server.port).collect()
    }

    /// The server that has the slot of a key.
    pub fn master_of(&self, key: &str) -> u16 {
        let mut ports = self.servers.iter().map(|server| server.port);
        ports.find(|&port| self.has(port, key)).unwrap()
    }

    /// True if a server answers for a key; otherwise it names another one.
    pub fn has(&self, port: u16, key: &str) -> bool {
        self.server(port).try_ask::<Option<String>>(&["GET", key]).is_some()
    }

    /// The replica of a master.
    pub fn replica_of(&self, master: u16) -> u16 {
        let is_its = |server: &&Server| {
            let info = server.try_ask::<String>(&["INFO", "replication"]);
            info.is_some_and(|info| info.contains(&format!("master_port:{master}\r")))
        };
        self.servers.iter().find(is_its).unwrap().port
    }

    /// Sends a command to a server.
    pub fn ask<T: FromRedisValue>(&self, port: u16, words: &[&str]) -> T {
        self.server(port).ask(words).unwrap()
    }

    /// The id of a server's process.
    pub fn pid(&self, port: u16) -> u32 {
        self.server(port).child().id()
    }

    /// Kills a server without warning.
    pub fn kill(&self, port: u16) {
        let mut child = self.server(port).child();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Cuts a master's replica off until the master is restarted.
    pub fn cut_off_replica_of(&self, master: u16) {
        let () = self.ask(master, &["CONFIG", "SET", "requirepass", "unknown"]);
        let server = self.server(master);
        let client = redis::Client::open(format!("redis://:unknown@{}", server.address()));
        let mut connection = client.unwrap().get_connection().unwrap();
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("replica");
        assert_eq!(kill.query::<u64>(&mut connection).unwrap(), 1);
    }

    /// Restarts a killed server.
    pub fn restart(&self, port: u16) {
        let server = self.server(port);
        *server.child() = spawn(&server.dir, port);
    }

    /// Waits until every server runs, sees all slots, and has caught up with its master.
    pub async fn wait_until_well(&self) {
        until("the cluster is well", async || {
            self.servers.iter().all(Server::is_well).then_some(())
        })
        .await;
    }

    /// Waits until a replica has replaced a killed master.
    pub async fn wait_until_replaced(&self, killed: u16) {
        until("a replica has taken over", async || {
            let masters = self.masters();
            (masters.len() == MASTERS && !masters.contains(&killed)).then_some(())
        })
        .await;
    }

    /// Moves the slot of a key to another master, a key at a time, beginning with `first`, which
    /// may not exist; returns the number of keys moved. Awaits `between` before each key and after
    /// the last.
    pub async fn move_slot(
        &self,
        key: &str,
        to: u16,
        first: &str,
        mut between: impl AsyncFnMut(),
    ) -> usize {
        let slot: u64 = self.ask(to, &["CLUSTER", "KEYSLOT", key]);
        let (from, slot) = (self.master_of(key), slot.to_string());
        let id = |port| self.ask::<String>(port, &["CLUSTER", "MYID"]);
        let set = |at: u16, words: &[&str]| {
            let words = [&["CLUSTER", "SETSLOT", &slot], words].concat();
            let () = self.ask(at, &words);
        };
        set(to, &["IMPORTING", &id(from)]);
        set(from, &["MIGRATING", &id(to)]);
        let (port, mut moved) = (to.to_string(), 0);
        let mut next = Some(first.to_owned());
        loop {
            between().await;
            let found = || self.ask::<Vec<String>>(from, &["CLUSTER", "GETKEYSINSLOT", &slot, "1"]);
            let Some(key) = next.take().or_else(|| found().pop()) else {
                break;
            };
            let said: String = self.ask(from, &["MIGRATE", "127.0.0.1", &port, &key, "0", "10000"]);
            moved += usize::from(said == "OK");
        }
        let mut masters = self.masters();
        masters.sort_by_key(|&port| port != to);
        for port in masters {
            set(port, &["NODE", &id(to)]);
        }
        moved
    }

    fn server(&self, port: u16) -> &Server {
        self.servers.iter().find(|server| server.port == port).unwrap()
    }
}

impl Server {
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(format!("redis://{}", self.address()))?;
        let mut connection = client.get_connection()?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
    }

    fn try_ask<T: FromRedisValue>(&self, words: &[&str]) -> Option<T> {
        self.ask(words).ok()
    }

    /// True if it sees all slots and, as a replica, has caught up with its master.
    fn is_well(&self) -> bool {
        let info = |words: &[&str]| self.try_ask::<String>(words).unwrap_or_default();
        let replication = info(&["INFO", "replication"]);
        let has_all =
            replication.contains("role:master") || replication.contains("master_link_status:up");
        has_all && info(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
    }
}

impl Drop for RedisCluster {
    fn drop(&mut self) {
        for server in &self.servers {
            let _ = server.child().kill();
            let _ = server.child().wait();
        }
    }
}

fn spawn(dir: &Path, port: u16) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--save", "", "--appendonly", "yes", "--dir"]).arg(dir);
    command.args(["--cluster-enabled", "yes", "--cluster-node-timeout"]);
    command.arg(NODE_TIMEOUT_MS.to_string());
    // Otherwise a replica waits five seconds for others to join it.
    command.args(["--repl-diskless-sync-delay", "0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("redis-server is installed")
}

/// A free port with a free bus port, below the range of ports for outgoing connections.
pub fn free_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let port = rand::rng().random_range(12_000..22_000);
        if is_free(port) && is_free(port + BUS_PORT) {
            return port;
        }
    }
}
