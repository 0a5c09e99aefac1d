//! Redis: the servers, the scripts, and the interpretation of answers.
//!
//! Reads are in [`read`] and [`periods`], commits in [`write`], a partition's log in [`log`], the
//! deployment that has a partition in [`owner`], revoked tokens in [`revoked`], recovery in
//! [`recovery`], loads in [`stage`], scans for batch jobs, rolling, sealing and the integrity diff
//! in [`scan`]. [`server`] knows which server has a partition and routes commands there.
//!
//! A partition is *level* while its head carries the run id of the server that answers, and the id
//! of the deployment that asks: once another one has adopted a Redis, no process of the former one
//! reads from it or commits to it.
//!
//! Every connection belongs to one run of a server and asks for the run id once, when it is made.
//! Behind a proxy that keeps `INFO` back, it may not: there, scripts ask the server itself, one
//! behind each read, and each that writes. Each read also reads the head, so the first read after a
//! restart, a failover, a move to another server or a flush notices it.

pub mod entrants;
pub mod key;
pub mod log;
mod marks;
pub mod owner;
mod paces;
pub mod periods;
pub mod positions;
pub mod read;
pub mod recovery;
pub mod revoked;
pub mod scan;
pub mod server;
mod snapshot;
pub mod stage;
pub mod write;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{FromRedisValue, Pipeline, RedisError, Script};

use self::server::address::Address;
use self::server::cluster::Cluster;
use self::server::node::{Greeting, Lane};
use self::server::run::RunName;
use self::stage::Loading;
use crate::commit::Head;
use crate::error::{Error, Result};
use crate::id::PartitionNo;
use crate::shard::Partitions;
use crate::store::key::KeySpace;

/// Laurel's data in one Redis: a server or a cluster. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
    /// The connections that reads use. Writes always use those of [`Lane::Work`].
    lane: Lane,
}

#[derive(Debug)]
struct Inner {
    cluster: Cluster,
    keys: KeySpace,
    partitions: Partitions,
    scripts: Scripts,
    own_writes: AtomicU64,
    loading: Loading,
    /// The deployment's clock, as the last snapshot told it.
    clock_ms: AtomicI64,
    deployment: OnceLock<String>,
}

#[derive(Debug)]
struct Scripts {
    snapshot: Script,
    commit: Script,
    recover: Script,
    trim: Script,
    count_before: Script,
    page: Script,
    around: Script,
    rank: Script,
    neighbors: Script,
    renew: Script,
    log: Script,
    entrants: Script,
    info: Script,
    same_run: Script,
}

impl Scripts {
    fn new() -> Self {
        let run = include_str!("store/script/run.lua");
        let with_run = |body: &str| Script::new(&format!("{run}{body}"));
        let with_writes =
            |body: &str| with_run(&format!("{}{body}", include_str!("store/script/write.lua")));
        let with_order =
            |body: &str| Script::new(&format!("{}{body}", include_str!("store/script/order.lua")));
        Self {
            snapshot: Script::new(include_str!("store/script/snapshot.lua")),
            commit: with_writes(include_str!("store/script/commit.lua")),
            recover: with_writes(include_str!("store/script/recover.lua")),
            trim: with_run(include_str!("store/script/trim.lua")),
            count_before: with_order(include_str!("store/script/count_before.lua")),
            page: with_order(include_str!("store/script/page.lua")),
            around: with_order(include_str!("store/script/around.lua")),
            rank: Script::new(include_str!("store/script/rank.lua")),
            neighbors: Script::new(include_str!("store/script/neighbors.lua")),
            log: Script::new(include_str!("store/script/log.lua")),
            renew: Script::new(&format!(
                "#!lua flags=allow-oom\n{run}{}",
                include_str!("store/script/renew.lua")
            )),
            entrants: with_run(include_str!("store/script/entrants.lua")),
            info: Script::new(include_str!("store/script/info.lua")),
            same_run: Script::new(include_str!("store/script/same_run.lua")),
        }
    }

    fn load(&self) -> Pipeline {
        let mut pipe = redis::pipe();
        for script in [
            &self.snapshot,
            &self.commit,
            &self.recover,
            &self.trim,
            &self.count_before,
            &self.page,
            &self.around,
            &self.rank,
            &self.neighbors,
            &self.renew,
            &self.log,
            &self.entrants,
            &self.info,
            &self.same_run,
        ] {
            pipe.load_script(script).ignore();
        }
        pipe
    }

    /// Asks for `INFO server` by a script, which it loads first.
    fn load_and_ask(&self, keys: &KeySpace) -> Pipeline {
        let mut pipe = redis::pipe();
        pipe.load_script(&self.info).ignore();
        let ask = pipe.cmd("EVALSHA").arg(self.info.get_hash());
        ask.arg(1).arg(keys.head(PartitionNo(0))).arg("server");
        pipe
    }
}

impl Store {
    /// A store at an address (`redis://`, `rediss://`, `redis+unix://`; for a cluster
    /// `redis://a,b?cluster=true`, with some of its servers). It connects on first use.
    ///
    /// # Errors
    /// `Invalid` for any other URL, and for one that leads to another machine in clear text where
    /// the address does not allow that.
    pub fn new(
        address: &Address,
        keys: KeySpace,
        partitions: Partitions,
        response_timeout: Duration,
    ) -> Result<Self> {
        let scripts = Scripts::new();
        let greeting = |is_cluster| Greeting {
            response_timeout,
            is_cluster,
            scripts: scripts.load(),
            info: scripts.load_and_ask(&keys),
            run_name: address.run_name.clone(),
        };
        let inner = Inner {
            cluster: Cluster::new(address, &keys, partitions, greeting)?,
            keys,
            partitions,
            scripts,
            own_writes: AtomicU64::new(0),
            loading: Loading::new(address),
            clock_ms: AtomicI64::new(0),
            deployment: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner), lane: Lane::Work })
    }

    /// The same store, for reads that answer requests: they have connections of their own, so that
    /// no commit waits for them.
    pub fn for_reads(&self) -> Self {
        Self { inner: self.inner.clone(), lane: Lane::Reads }
    }

    /// The same store, for reads that answer costly requests: they have connections of their own,
    /// and go in small parts, so that no other read waits for them.
    pub fn for_costly_reads(&self) -> Self {
        Self { inner: self.inner.clone(), lane: Lane::CostlyReads }
    }

    /// The same store, for the probe that asks whether the servers answer: it has connections of
    /// its own, on which nothing is before its question.
    pub fn for_probe(&self) -> Self {
        Self { inner: self.inner.clone(), lane: Lane::Probe }
    }

    /// Sets the id of the deployment that reads and writes by it and its clones; the first one
    /// stays. Heads of any other deployment are not level.
    pub fn belong_to(&self, deployment: &str) {
        self.inner.deployment.get_or_init(|| deployment.to_owned());
    }

    /// The id of the deployment; `-` if none was set.
    pub(crate) fn deployment(&self) -> &str {
        self.inner.deployment.get().map_or("-", String::as_str)
    }

    /// The names of its keys.
    pub fn keys(&self) -> &KeySpace {
        &self.inner.keys
    }

    /// The operator's name for the present run of Redis, if there is one; it counts only where
    /// Redis does not tell its run.
    pub fn run_name(&self) -> Option<&str> {
        self.inner.cluster.run_name().map(RunName::as_str)
    }

    /// Its partitions.
    pub fn partitions(&self) -> Partitions {
        self.inner.partitions
    }

    /// The number of completed writes of this process: it orders a read before or after a write. It
    /// counts commits, including those that changed nothing or lost their answer, and the calls of
    /// [`Self::note_own_write`].
    pub fn own_writes(&self) -> u64 {
        self.inner.own_writes.load(Ordering::Acquire)
    }

    /// Counts a write of this process to SQL that reads may show.
    pub fn note_own_write(&self) {
        self.inner.own_writes.fetch_add(1, Ordering::AcqRel);
    }

    /// The run id of the server that has a partition. One round trip if it has to connect, else
    /// none.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn run_id(&self, partition: PartitionNo) -> Result<Arc<str>> {
        let map = self.inner.cluster.map().await?;
        let node = map.node(Some(partition));
        Ok(self.inner.cluster.link(&map, node, self.lane).await?.run_id)
    }

    /// Sends a script that writes to one partition; sends it again only if the server certainly did
    /// not run it.
    async fn write<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        args: &[&[u8]],
    ) -> std::result::Result<T, Failed> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(keys.len()).arg(keys).arg(args);
        self.write_once(command).await
    }

    /// Checks that a partition's head is level with the run that answered, and this deployment's.
    fn check_level(
        &self,
        partition: PartitionNo,
        head: Option<&str>,
        run_id: &str,
    ) -> Result<Head> {
        // A head in another form counts as none.
        let head = head.and_then(|head| Head::parse(head).ok());
        let is_level = |head: &Head| head.run_id == run_id && head.deployment == self.deployment();
        head.filter(is_level).ok_or(Error::NotLevel(partition.0))
    }
}

/// The reason why a writing script gave no answer.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It was not sent, or the server refused it: it wrote nothing.
    Refused(Error),
    /// The reply was lost: the script may or may not have written.
    Lost(Error),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Refused(error) | Failed::Lost(error) => error,
        }
    }
}

/// True if the server answered any command of the pipeline with one of these error codes.
fn has_code(error: &RedisError, codes: &[&str]) -> bool {
    let errors = error.clone().into_server_errors();
    errors.is_some_and(|errors| errors.iter().any(|(_, error)| codes.contains(&error.code())))
}

/// The message of a Redis that is out of memory.
const OUT_OF_MEMORY: &str = "Redis is out of memory (OOM): expected more maxmemory, or fewer entries; until then it takes no writes";

/// True if Redis refused a write as it is out of memory; a replica, for one, refuses it for another
/// reason.
pub fn is_out_of_memory(error: &Error) -> bool {
    matches!(error, Error::Overloaded(text) if text == OUT_OF_MEMORY)
}

/// Classifies a Redis error for the caller: Redis is away or full for now, or its data is foreign.
fn classify(error: &RedisError) -> Error {
    let away = error.is_io_error() || error.is_cluster_error() || error.is_unrecoverable_error();
    let for_now = [
        "LOADING",
        "MISCONF",
        "READONLY",
        "BUSY",
        "NOSCRIPT",
        "MASTERDOWN",
        "NOREPLICAS",
        "CLUSTERDOWN",
        "TRYAGAIN",
    ];
    if has_code(error, &["OOM"]) {
        return Error::Overloaded(OUT_OF_MEMORY.into());
    }
    if away || has_code(error, &for_now) {
        return Error::Unavailable(format!("Redis is unavailable for now: {error}"));
    }
    Error::corrupt(format!("Redis refused a command: {error}"))
}

/// The error of one of Laurel's keys that has a type which Laurel does not give it.
fn foreign_key(key: &str) -> Error {
    // A prefix has no braces.
    let partition = key.split_once('}').map_or(key, |(partition, _)| partition);
    Error::corrupt(format!(
        "another program has written the Redis key {key}: expected a value of Laurel's or none; delete {key} and {partition}}}:head, and the partition is loaded from SQL"
    ))
}

/// Converts a value of an answer.
fn decode<T: FromRedisValue>(value: Option<redis::Value>) -> Result<T> {
    let value = value.ok_or_else(|| Error::corrupt("Redis sent too few answers"))?;
    T::from_redis_value(value).map_err(|error| {
        Error::corrupt(format!("Redis sent an answer of an unexpected form: {error}"))
    })
}
