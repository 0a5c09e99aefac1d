//! Redis: the servers, the scripts, and what an answer means.
//!
//! Reads are in [`read`], commits in [`write`], recovery in [`recovery`], what batch jobs need in [`batch`], what changes of history need in [`history`], rolling in [`roll`],
//! seals in [`seal`], the integrity diff's in [`integrity`], loads in [`stage`], a board's event ids in `ids`, the form that sorted sets are dumped in in [`payload`]; which server has a partition, and how a command gets there, in `cluster` and `route`. A partition is *level* while its head carries
//! the run id of the server that answers. Every connection belongs to one run of a server, whose id is asked once when
//! it is made; each read also reads the head, so a restart, a failover, a move to another server or a flush is noticed by the first read after it.

pub mod key;
pub mod log;
pub mod periods;
pub mod read;
pub mod recovery;
pub mod scan;
pub mod server;
mod snapshot;
pub mod stage;
pub mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{FromRedisValue, Pipeline, RedisError, Script};

use self::server::cluster::Cluster;
use self::server::node::Greeting;
use self::stage::Loading;
use crate::commit::Head;
use crate::error::{Error, Result};
use crate::id::Partition;
use crate::shard::Partitions;
use crate::store::key::KeySpace;

/// Laurel's data in one Redis: a server, or a cluster of them. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    cluster: Cluster,
    keys: KeySpace,
    partitions: Partitions,
    scripts: Scripts,
    own_writes: AtomicU64,
    loading: Loading,
}

#[derive(Debug)]
struct Scripts {
    snapshot: Script,
    commit: Script,
    recover: Script,
    trim: Script,
    count_before: Script,
    page: Script,
}

impl Scripts {
    fn new() -> Self {
        let with_writes =
            |body: &str| Script::new(&format!("{}{body}", include_str!("store/script/write.lua")));
        let with_order =
            |body: &str| Script::new(&format!("{}{body}", include_str!("store/script/order.lua")));
        Self {
            snapshot: Script::new(include_str!("store/script/snapshot.lua")),
            commit: with_writes(include_str!("store/script/commit.lua")),
            recover: with_writes(include_str!("store/script/recover.lua")),
            trim: Script::new(include_str!("store/script/trim.lua")),
            count_before: with_order(include_str!("store/script/count_before.lua")),
            page: with_order(include_str!("store/script/page.lua")),
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
        ] {
            pipe.load_script(script).ignore();
        }
        pipe
    }
}

impl Store {
    /// A store at a Redis URL (`redis://`, `redis+unix://`; `redis://a,b?cluster=true` for a cluster, by some of its servers); connects when first used.
    ///
    /// # Errors
    /// `Invalid` where the URL is none.
    pub fn new(
        url: &str,
        keys: KeySpace,
        partitions: Partitions,
        response_timeout: Duration,
    ) -> Result<Self> {
        let scripts = Scripts::new();
        let greeting =
            |is_cluster| Greeting { response_timeout, is_cluster, scripts: scripts.load() };
        let inner = Inner {
            cluster: Cluster::new(url, &keys, partitions, greeting)?,
            keys,
            partitions,
            scripts,
            own_writes: AtomicU64::new(0),
            loading: Loading::new(url),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The names of its keys.
    #[must_use]
    pub fn keys(&self) -> &KeySpace {
        &self.inner.keys
    }

    /// Its partitions.
    #[must_use]
    pub fn partitions(&self) -> Partitions {
        self.inner.partitions
    }

    /// How many writes of this process are through, so that what was read before one can be told from what was read after it. It counts
    /// commits, also those that changed nothing or whose answer was lost, and what [`Self::note_own_write`] was told of.
    #[must_use]
    pub fn own_writes(&self) -> u64 {
        self.inner.own_writes.load(Ordering::Acquire)
    }

    /// Says that this process wrote something elsewhere that reads may show: in SQL.
    pub fn note_own_write(&self) {
        self.inner.own_writes.fetch_add(1, Ordering::AcqRel);
    }

    /// The run id of the server that has a partition. One round trip where a connection has to be made, else none.
    ///
    /// # Errors
    /// `Unavailable` where it cannot be reached.
    pub async fn run_id(&self, partition: Partition) -> Result<Arc<str>> {
        let map = self.inner.cluster.map().await?;
        let node = map.node(Some(partition));
        Ok(self.inner.cluster.link(&map, node).await?.run_id)
    }

    /// Checks that all servers answer and will not evict what they hold: `CONFIG GET maxmemory-policy`, where it is allowed.
    ///
    /// # Errors
    /// `Unavailable` where one cannot be reached, or is a cluster's and the URL does not say so, or the other way round; `Invalid` under an
    /// eviction policy other than noeviction.
    pub async fn check_server(&self) -> Result<()> {
        let map = self.inner.cluster.map().await?;
        for node in &map.nodes {
            let mut pipe = redis::pipe();
            pipe.cmd("CONFIG").arg("GET").arg("maxmemory-policy");
            let mut link = self.inner.cluster.link(&map, node).await?;
            let answer: redis::RedisResult<(Vec<String>,)> = link.query(&pipe).await;
            if let Ok((answer,)) = &answer
                && let [_, policy] = &answer[..]
                && policy != "noeviction"
            {
                return Err(Error::invalid(format!(
                    "Redis at {} has the eviction policy {policy} and would drop entries when memory is short; noeviction is accepted",
                    node.address
                )));
            }
        }
        Ok(())
    }

    /// Sends a script that writes to one partition; again only where the server certainly did not run it.
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

    /// Checks that a partition's head, as read, is level with the run that answered.
    fn check_level(partition: Partition, head: Option<&str>, run_id: &str) -> Result<Head> {
        // A head that nobody here wrote is none.
        let head = head.and_then(|head| Head::parse(head).ok());
        head.filter(|head| head.run_id == run_id).ok_or(Error::NotLevel(partition.0))
    }
}

/// Why a script that writes gave no answer.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It was not sent, or the server refused it: nothing was written.
    Refused(Error),
    /// The reply was lost: whether it was written is not known.
    Lost(Error),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Refused(error) | Failed::Lost(error) => error,
        }
    }
}

/// Whether the server answered with an error of one of these codes, to any command of a pipeline.
fn has_code(error: &RedisError, codes: &[&str]) -> bool {
    let errors = error.clone().into_server_errors();
    errors.is_some_and(|errors| errors.iter().any(|(_, error)| codes.contains(&error.code())))
}

/// What a Redis error means to whoever called: that it is away or full for now, or that its data is not ours.
fn what_it_means(error: &RedisError) -> Error {
    let away = error.is_io_error() || error.is_cluster_error() || error.is_unrecoverable_error();
    let for_now = [
        "LOADING",
        "OOM",
        "MISCONF",
        "READONLY",
        "BUSY",
        "NOSCRIPT",
        "MASTERDOWN",
        "NOREPLICAS",
        "CLUSTERDOWN",
        "TRYAGAIN",
    ];
    if away || has_code(error, &for_now) {
        return Error::Unavailable(format!("Redis does not answer as it should for now: {error}"));
    }
    Error::corrupt(format!("Redis refused a command: {error}"))
}

/// Reads a value of an answer as what it should be.
fn decode<T: FromRedisValue>(value: Option<redis::Value>) -> Result<T> {
    let value = value.ok_or_else(|| Error::corrupt("Redis answered with too little"))?;
    T::from_redis_value(value)
        .map_err(|error| Error::corrupt(format!("an answer of an unknown form: {error}")))
}
