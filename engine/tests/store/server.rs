//! A server, and the values that the tests put into it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use ranking::board::Board;
use ranking::board::rules::{Rules, RulesInput};
use ranking::commit::{Commit, Head, ROOT_COMMIT};
use ranking::id::{BoardNo, MemberId, PartitionNo};
use ranking::score::rank_key::RankKey;
use ranking::shard::Partitions;
use ranking::standings_id::StandingsId;
use ranking::store::Store;
use ranking::store::key::KeySpace;
use ranking::store::read::Standings;
use ranking::window::Window;

pub(crate) const ALL: PartitionNo = PartitionNo(0);

/// A redis-server that a test may configure and crash, as a private one may not be. It ends with
/// the test.
pub(crate) struct OwnRedis {
    dir: PathBuf,
    child: Mutex<Child>,
}

impl OwnRedis {
    async fn start(dir: &Path) -> Self {
        let redis = Self { dir: dir.to_owned(), child: Mutex::new(spawn(dir)) };
        while ranking::store::server::ping(&redis.url()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        redis
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.dir.join("redis.sock").display())
    }

    /// Starts it again if it has ended.
    pub(crate) async fn ensure_running(&self) -> ranking::Result<()> {
        {
            let mut child = self.child.lock().unwrap();
            if child.try_wait().unwrap().is_some() {
                *child = spawn(&self.dir);
            }
        }
        ranking::store::server::ping(&self.url()).await
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(dir: &Path) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--unixsocket"]).arg(dir.join("redis.sock"));
    command.args(["--appendonly", "yes", "--save", "", "--lazyfree-lazy-expire", "yes", "--dir"]);
    command.arg(dir).stdout(Stdio::null()).spawn().unwrap()
}

/// A server with every partition level, and a raw connection to it.
pub(crate) struct Server {
    pub(crate) redis: OwnRedis,
    pub(crate) store: Store,
    pub(crate) raw: redis::aio::MultiplexedConnection,
    _dir: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start(partitions: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let redis = OwnRedis::start(dir.path()).await;
        let store = store(&redis.url(), partitions);
        for partition in store.partitions().each() {
            store
                .begin_recovery(partition, "test")
                .await
                .unwrap()
                .unwrap()
                .finish((0, ROOT_COMMIT), 1, 0, false)
                .await
                .unwrap();
        }
        let raw = redis::Client::open(redis.url())
            .unwrap()
            .get_multiplexed_async_connection()
            .await
            .unwrap();
        Self { redis, store, raw, _dir: dir }
    }

    pub(crate) async fn raw<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.raw).await.unwrap()
    }

    pub(crate) async fn calls(&mut self, command: &str) -> u64 {
        let stats: String = self.raw(&["INFO", "commandstats"]).await;
        let line = stats.lines().find_map(|line| {
            line.strip_prefix(&format!("cmdstat_{command}:calls=")).map(str::to_owned)
        });
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }
}

pub(crate) fn store(url: &str, partitions: u16) -> Store {
    let (keys, partitions) = (KeySpace::new("test").unwrap(), Partitions::new(partitions).unwrap());
    Store::new(&url.to_owned().into(), keys, partitions, Duration::from_secs(10)).unwrap()
}

pub(crate) fn board(no: i64, shards: u16) -> Board {
    let rules = Rules::new(RulesInput { shards, ..Default::default() });
    Board::new(BoardNo(no), rules.unwrap())
}

pub(crate) fn standings(store: &Store, board: &Board) -> Standings {
    let period = Window::All.period_at(0, &board.rules.calendar).unwrap();
    let id = StandingsId {
        board: board.no,
        generation: 1,
        segment: String::new(),
        window: Window::All,
        period: "all".into(),
    };
    Standings::new(store, board, id, period)
}

pub(crate) fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

pub(crate) fn key(key: i64) -> RankKey {
    RankKey::from_i64(key).unwrap()
}

/// A commit without events after a head; commits of different texts are different.
pub(crate) fn commit_after(head: &Head, text: &str) -> Commit {
    let mut random = [0; 32];
    random[..text.len().min(16)].copy_from_slice(&text.as_bytes()[..text.len().min(16)]);
    head.next(random, 0, vec![])
}
