//! Redis: one connection, the scripts, and what an answer means.
//!
//! Reads are in [`read`], commits in [`write`], recovery in [`recovery`], what batch jobs need in [`batch`], what changes of history need in [`history`], rolling in [`roll`],
//! seals in [`seal`]. A partition is *level* while its head carries
//! the run id of the server that answers. Every connection belongs to one run of the server, whose id is asked once when
//! it is made; each read also reads the head, so a restart, a failover or a flush is noticed by the first read after it.

pub mod batch;
pub mod history;
pub mod merge;
pub mod read;
pub mod recovery;
pub mod roll;
pub mod seal;
pub mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, Pipeline, RedisError, Script};
use tokio::sync::RwLock;

use crate::commit::Head;
use crate::error::{Error, Result};
use crate::id::Partition;
use crate::key::KeySpace;
use crate::shard::Partitions;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Laurel's data in one Redis. Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: redis::Client,
    keys: KeySpace,
    partitions: Partitions,
    response_timeout: Duration,
    scripts: Scripts,
    link: RwLock<Option<Link>>,
    own_writes: AtomicU64,
}

/// A connection and the run of the server at its other end.
#[derive(Clone, Debug)]
struct Link {
    connection: MultiplexedConnection,
    run_id: Arc<str>,
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
            |body: &str| Script::new(&format!("{}{body}", include_str!("store/write.lua")));
        let with_order =
            |body: &str| Script::new(&format!("{}{body}", include_str!("store/order.lua")));
        Self {
            snapshot: Script::new(include_str!("store/snapshot.lua")),
            commit: with_writes(include_str!("store/commit.lua")),
            recover: with_writes(include_str!("store/recover.lua")),
            trim: Script::new(include_str!("store/trim.lua")),
            count_before: with_order(include_str!("store/count_before.lua")),
            page: with_order(include_str!("store/page.lua")),
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
    /// A store at a Redis URL (`redis://`, `redis+unix://`); connects when first used.
    ///
    /// # Errors
    /// `Invalid` where the URL is none.
    pub fn new(
        url: &str,
        keys: KeySpace,
        partitions: Partitions,
        response_timeout: Duration,
    ) -> Result<Self> {
        let client = redis::Client::open(url).map_err(|error| {
            Error::invalid(format!("the Redis URL is not accepted ({error}); redis://host:port or redis+unix:///path is"))
        })?;
        let inner = Inner {
            client,
            keys,
            partitions,
            response_timeout,
            scripts: Scripts::new(),
            link: RwLock::new(None),
            own_writes: AtomicU64::new(0),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
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

    /// The run id of the server that is connected. One round trip where a connection has to be made, else none.
    ///
    /// # Errors
    /// `Unavailable` where Redis cannot be reached.
    pub async fn run_id(&self) -> Result<Arc<str>> {
        Ok(self.link().await?.run_id)
    }

    /// Checks that Redis answers and will not evict what it holds: `CONFIG GET maxmemory-policy`, where it is allowed.
    ///
    /// # Errors
    /// `Unavailable` where Redis cannot be reached; `Invalid` under an eviction policy other than noeviction.
    pub async fn check_server(&self) -> Result<()> {
        let mut link = self.link().await?;
        let answer: redis::RedisResult<Vec<String>> = redis::cmd("CONFIG")
            .arg("GET")
            .arg("maxmemory-policy")
            .query_async(&mut link.connection)
            .await;
        match answer.as_deref() {
            Ok([_, policy]) if policy != "noeviction" => Err(Error::invalid(format!(
                "Redis has the eviction policy {policy} and would drop entries when memory is short; noeviction is accepted"
            ))),
            _ => Ok(()),
        }
    }

    async fn link(&self) -> Result<Link> {
        if let Some(link) = &*self.inner.link.read().await {
            return Ok(link.clone());
        }
        let mut slot = self.inner.link.write().await;
        if let Some(link) = &*slot {
            return Ok(link.clone());
        }
        let link = self
            .connect()
            .await
            .map_err(|error| what_it_means(&error))?;
        *slot = Some(link.clone());
        Ok(link)
    }

    async fn connect(&self) -> redis::RedisResult<Link> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(self.inner.response_timeout));
        let mut connection = self
            .inner
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query_async(&mut connection)
            .await?;
        let run_id = info
            .lines()
            .find_map(|line| line.strip_prefix("run_id:"))
            .unwrap_or_default()
            .trim()
            .into();
        let () = self
            .inner
            .scripts
            .load()
            .query_async(&mut connection)
            .await?;
        Ok(Link { connection, run_id })
    }

    async fn unlink(&self, broken: &Link) {
        let mut slot = self.inner.link.write().await;
        if slot
            .as_ref()
            .is_some_and(|link| link.run_id == broken.run_id)
        {
            *slot = None;
        }
    }

    /// Sends a pipeline of reads; once more where the connection was lost or the scripts were. Says by which run it was answered.
    async fn read<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<(T, Arc<str>)> {
        let link = self.link().await?;
        let run_id = link.run_id.clone();
        match self.send(link, pipe).await {
            Ok(answer) => Ok((answer, run_id)),
            Err(error) if error.is_io_error() || has_code(&error, &["NOSCRIPT"]) => {
                let link = self.link().await?;
                let run_id = link.run_id.clone();
                let again = self.send(link, pipe).await;
                again
                    .map(|answer| (answer, run_id))
                    .map_err(|error| what_it_means(&error))
            }
            Err(error) => Err(what_it_means(&error)),
        }
    }

    /// Sends a script that writes; once more only where the server did not know it, as then nothing was done.
    async fn write<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        args: &[&[u8]],
    ) -> std::result::Result<T, Failed> {
        let mut command: Cmd = redis::cmd("EVALSHA");
        command
            .arg(script.get_hash())
            .arg(keys.len())
            .arg(keys)
            .arg(args);
        let mut pipe = redis::pipe();
        pipe.add_command(command);
        for attempt in 0..2 {
            let link = self.link().await.map_err(Failed::Refused)?;
            let answer: redis::RedisResult<(T,)> = self.send(link, &pipe).await;
            match answer {
                Ok((value,)) => return Ok(value),
                Err(error) if attempt == 0 && has_code(&error, &["NOSCRIPT"]) => {}
                // An error that the server answered with comes before its script's first write.
                Err(error) if error.clone().into_server_errors().is_some() => {
                    return Err(Failed::Refused(what_it_means(&error)));
                }
                Err(error) => return Err(Failed::Lost(what_it_means(&error))),
            }
        }
        Err(Failed::Refused(Error::Unavailable(
            "Redis forgets its scripts as soon as it has them".into(),
        )))
    }

    async fn send<T: FromRedisValue>(
        &self,
        mut link: Link,
        pipe: &Pipeline,
    ) -> redis::RedisResult<T> {
        let answer = pipe.query_async(&mut link.connection).await;
        if let Err(error) = &answer
            && (error.is_io_error()
                || error.is_unrecoverable_error()
                || has_code(error, &["NOSCRIPT"]))
        {
            self.unlink(&link).await;
        }
        answer
    }

    /// Checks that a partition's head, as read, is level with the run that answered.
    fn check_level(partition: Partition, head: Option<&str>, run_id: &str) -> Result<Head> {
        // A head that nobody here wrote is none.
        let head = head.and_then(|head| Head::parse(head).ok());
        head.filter(|head| head.run_id == run_id)
            .ok_or(Error::NotLevel(partition.0))
    }
}

/// Why a script that writes gave no answer.
#[derive(Debug)]
enum Failed {
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
    errors.is_some_and(|errors| {
        errors
            .iter()
            .any(|(_, error)| codes.contains(&error.code()))
    })
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
    ];
    if away || has_code(error, &for_now) {
        return Error::Unavailable(format!(
            "Redis does not answer as it should for now: {error}"
        ));
    }
    Error::corrupt(format!("Redis refused a command: {error}"))
}

/// Reads a value of an answer as what it should be.
fn decode<T: FromRedisValue>(value: Option<redis::Value>) -> Result<T> {
    let value = value.ok_or_else(|| Error::corrupt("Redis answered with too little"))?;
    T::from_redis_value(value)
        .map_err(|error| Error::corrupt(format!("an answer of an unknown form: {error}")))
}
