//! One redis-server: the connections to it, each of which belongs to one run of the server.
//!
//! A connection answers in the order in which it was asked. So commits, and the persister's reads
//! of the log, have one of their own: a commit never waits for the answers of readers. Costly reads
//! have one, on which they take turns: a read of one entry does not wait for those of a thousand.
//! So has the probe: it tells a server that hangs from one that is asked much.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionInfo, FromRedisValue, Pipeline, RedisError, RedisResult, Value,
};
use tokio::sync::{Mutex, RwLock};

use super::run::{RunName, Teller, run_id_of, unless_of_redis};
use crate::error::{Error, Result};
use crate::store::classify;

/// The first major version of Redis whose scripts have flags.
const MAJOR_VERSION_MIN: u32 = 7;

/// The longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest time to answer the probe before its connection counts as broken.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The most commands that one read has under way at a server: other readers share the connection.
const READS_UNDER_WAY_MAX: usize = 64;

/// The same for costly reads, all of a process together: Redis does one thing at a time.
const COSTLY_UNDER_WAY_MAX: usize = 8;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Commits, the persister, recovery and jobs.
    Work,
    /// Reads of requests.
    Reads,
    /// Reads of costly requests.
    CostlyReads,
    /// The probe of the process.
    Probe,
}

/// The start of every connection.
#[derive(Debug)]
pub(crate) struct Greeting {
    /// The longest time to answer one request.
    pub(crate) response_timeout: Duration,
    /// True if the server must belong to a cluster; false if it must not.
    pub(crate) is_cluster: bool,
    /// Loads the scripts.
    pub(crate) scripts: Pipeline,
    /// Asks for `INFO server` by a script.
    pub(crate) info: Pipeline,
    /// The operator's name for the present run.
    pub(crate) run_name: Option<RunName>,
}

/// A redis-server; each connection is made when it is first used.
#[derive(Debug)]
pub(crate) struct Node {
    /// `host:port`, or the path of a Unix socket.
    pub(crate) address: String,
    client: redis::Client,
    /// By the lane.
    slots: [RwLock<Slot>; 4],
}

/// A connection to a server, and the failures to make one.
#[derive(Debug, Default)]
struct Slot {
    link: Option<Link>,
    failures: u64,
    last: Option<Error>,
}

/// A connection and the run of the server at its other end.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
    lane: Lane,
    pub(crate) run_id: Arc<str>,
    pub(crate) teller: Teller,
    /// Held while a part of a costly read is under way.
    turn: Arc<Mutex<()>>,
}

/// A new connection, with the server's answer to `INFO` and the one who gave it.
pub(super) struct Met {
    connection: MultiplexedConnection,
    info: String,
    teller: Teller,
}

impl Node {
    /// A server that is not connected yet.
    pub(crate) fn new(info: ConnectionInfo) -> redis::RedisResult<Self> {
        // The name of the library goes by a command that a proxy or few rights may keep back.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        let info = info.set_redis_settings(settings);
        Ok(Self {
            address: info.addr().to_string(),
            client: redis::Client::open(info)?,
            slots: Default::default(),
        })
    }

    /// The parameters of the connection.
    pub(crate) fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    /// The connection of a lane; makes one if there is none. Up to three round trips, and some more
    /// where `INFO` does not pass.
    pub(crate) async fn link(&self, greeting: &Greeting, lane: Lane) -> Result<Link> {
        let slot = &self.slots[lane as usize];
        let failures = {
            let slot = slot.read().await;
            if let Some(link) = &slot.link {
                return Ok(link.clone());
            }
            slot.failures
        };
        let mut slot = slot.write().await;
        if let Some(link) = &slot.link {
            return Ok(link.clone());
        }
        // A caller that waited for a failed attempt shares its error: one attempt after the other
        // would take long for a server that is gone.
        if let Some(error) = slot.last.as_ref().filter(|_| slot.failures > failures) {
            return Err(error.clone());
        }
        // In a box: it is made once, and each read would be as large as all that it may await.
        match Box::pin(self.connect(greeting, lane)).await {
            Ok(link) => {
                slot.link = Some(link.clone());
                Ok(link)
            }
            Err(error) => {
                slot.failures += 1;
                slot.last = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Drops a broken connection. With the probe's, those of readers go too: they would be as
    /// silent, and readers that wait for them learn that late.
    pub(crate) async fn unlink(&self, broken: &Link) {
        let lanes = match broken.lane {
            Lane::Probe => &[Lane::Probe, Lane::Reads, Lane::CostlyReads][..],
            _ => &[broken.lane],
        };
        for &lane in lanes {
            let mut slot = self.slots[lane as usize].write().await;
            slot.link.take_if(|link| link.run_id == broken.run_id);
        }
    }

    /// True if there is a connection that is not known to be broken.
    pub(crate) fn is_linked(&self) -> bool {
        let is_linked = |slot: &RwLock<Slot>| slot.try_read().is_ok_and(|slot| slot.link.is_some());
        self.slots.iter().any(is_linked)
    }

    async fn connect(&self, greeting: &Greeting, lane: Lane) -> Result<Link> {
        let response_timeout = match lane {
            Lane::Work | Lane::Reads | Lane::CostlyReads => greeting.response_timeout,
            Lane::Probe => greeting.response_timeout.min(PROBE_TIMEOUT),
        };
        let Met { connection, info, teller } = self.meet(greeting, response_timeout).await?;
        let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        self.check_version(line("redis_version:"))?;
        // Valkey's name for the mode is the second.
        self.check_mode(line("redis_mode:").or_else(|| line("server_mode:")), greeting)?;
        let run_id = match (run_id_of(&info), &greeting.run_name) {
            (Some(run_id), _) => run_id.into(),
            (None, Some(name)) => name.as_str().into(),
            // Without it, a server that lost its data would not be told from the one before.
            (None, None) => return Err(self.keeps_back("its INFO has no run_id")),
        };
        let mut link = Link { connection, lane, run_id, teller, turn: Arc::default() };
        let () = link.query(&greeting.scripts).await.map_err(|error| self.away(&error))?;
        Ok(link)
    }

    /// Connects, and learns which run of the server is at the other end.
    async fn meet(&self, greeting: &Greeting, response_timeout: Duration) -> Result<Met> {
        let reason = match self.ask_info(response_timeout).await? {
            Ok(met) => return Ok(met),
            Err(reason) if greeting.is_cluster => return Err(self.keeps_back(&reason)),
            Err(reason) => reason,
        };
        let mut connection =
            self.open(response_timeout).await.map_err(|error| self.away(&error))?;
        let asked: RedisResult<(String,)> = greeting.info.query_async(&mut connection).await;
        match asked {
            Ok((info,)) if run_id_of(&info).is_some() => {
                Ok(Met { connection, info, teller: Teller::Script })
            }
            // The server itself has said that it does not tell it.
            Ok((info,)) if greeting.run_name.is_some() => {
                Ok(Met { connection, info, teller: Teller::Operator })
            }
            Ok(_) => Err(self.keeps_back(&reason)),
            Err(error) => Err(self.keeps_back(&format!("{reason}; a script: {error}"))),
        }
    }

    /// Connects and asks for `INFO server`; the reason why a server that answers `PING` does not
    /// tell its run by that.
    ///
    /// # Errors
    /// `Unavailable` if it does not answer `PING` either.
    pub(super) async fn ask_info(
        &self,
        response_timeout: Duration,
    ) -> Result<std::result::Result<Met, String>> {
        let mut connection =
            self.open(response_timeout).await.map_err(|error| self.away(&error))?;
        let asked = redis::cmd("INFO").arg("server").query_async(&mut connection).await;
        match asked {
            Ok::<String, _>(info) if run_id_of(&info).is_some() => {
                Ok(Ok(Met { connection, info, teller: Teller::Info }))
            }
            Ok(_) => Ok(Err("its INFO has no run_id".to_owned())),
            Err(error) if self.answers_ping(&error, response_timeout).await => {
                Ok(Err(error.to_string()))
            }
            Err(error) => Err(self.away(&unless_of_redis(error))),
        }
    }

    /// A new connection, on which nothing was said.
    pub(super) async fn open(
        &self,
        response_timeout: Duration,
    ) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(response_timeout));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// True if a new connection answers `PING` after this error, which a server that is gone or
    /// silent does not.
    async fn answers_ping(&self, error: &RedisError, response_timeout: Duration) -> bool {
        if error.is_timeout() || error.is_connection_refusal() {
            return false;
        }
        let Ok(mut connection) = self.open(response_timeout).await else { return false };
        redis::cmd("PING").exec_async(&mut connection).await.is_ok()
    }

    /// The error of a server that cannot be reached.
    pub(super) fn away(&self, error: &RedisError) -> Error {
        match classify(error) {
            Error::Unavailable(_) => {
                Error::Unavailable(format!("Redis at {} is unavailable: {error}", self.address))
            }
            other => other,
        }
    }

    /// The error of a program that answers for Redis, but not everything.
    fn keeps_back(&self, reason: &str) -> Error {
        Error::Unavailable(format!(
            "Redis at {} answers PING but does not say which run of the server it is ({reason}): expected a Redis or Valkey server that lets INFO pass, to scripts at least, or LAUREL_REDIS_RUN_ID",
            self.address
        ))
    }

    /// Valkey says which version of Redis it is like.
    fn check_version(&self, version: Option<&str>) -> Result<()> {
        let version = version.map(str::trim).unwrap_or_default();
        match version.split('.').next().unwrap_or_default().parse::<u32>() {
            Ok(major) if major < MAJOR_VERSION_MIN => Err(Error::Unavailable(format!(
                "Redis at {} is of version {version}: expected Redis {MAJOR_VERSION_MIN}.0 or later, or Valkey",
                self.address
            ))),
            _ => Ok(()),
        }
    }

    fn check_mode(&self, mode: Option<&str>, greeting: &Greeting) -> Result<()> {
        let address = &self.address;
        match mode.map(str::trim) {
            Some("cluster") if !greeting.is_cluster => Err(Error::Unavailable(format!(
                "Redis at {address} belongs to a cluster: expected redis://{address}?cluster=true"
            ))),
            Some("standalone") if greeting.is_cluster => Err(Error::Unavailable(format!(
                "Redis at {address} has no cluster enabled: expected redis://{address} without cluster=true, or a server with cluster-enabled yes"
            ))),
            _ => Ok(()),
        }
    }
}

impl Link {
    /// Sends a pipeline and waits for its answers.
    pub(crate) async fn query<T: FromRedisValue>(&mut self, pipe: &Pipeline) -> RedisResult<T> {
        let answer = pipe.query_async(&mut self.connection).await;
        match self.teller {
            Teller::Info => answer,
            Teller::Script | Teller::Operator => answer.map_err(unless_of_redis),
        }
    }

    /// As [`Self::query`]; a long pipeline of reads of requests goes in parts, one after the other,
    /// so that other readers come in between. Only one part of all costly reads is under way.
    pub(crate) async fn query_in_turn(&mut self, pipe: &Pipeline) -> RedisResult<Vec<Value>> {
        let is_costly = self.lane == Lane::CostlyReads;
        let is_short = pipe.len() <= READS_UNDER_WAY_MAX && !is_costly;
        if self.lane == Lane::Work || is_short {
            return self.query(pipe).await;
        }
        let turn = self.turn.clone();
        let mut values = Vec::with_capacity(pipe.len());
        let mut commands = pipe.cmd_iter().peekable();
        while commands.peek().is_some() {
            let (count, _turn) = match is_costly {
                true => (COSTLY_UNDER_WAY_MAX, Some(turn.lock().await)),
                false => (READS_UNDER_WAY_MAX, None),
            };
            let mut part = redis::pipe();
            for command in commands.by_ref().take(count) {
                part.add_command(command.clone());
            }
            match self.query::<Vec<Value>>(&part).await {
                Ok(answers) => values.extend(answers),
                // The places of the errors must be those in the whole pipeline.
                Err(error) if error.clone().into_server_errors().is_some() => {
                    return self.query(pipe).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn a_redis_without_flags_of_scripts_is_refused_by_its_version() {
        let node = Node::new("redis://127.0.0.1:1".into_connection_info().unwrap()).unwrap();
        for old in ["6.2.14\r", "6.3.4", "5.0.14"] {
            let error = node.check_version(Some(old)).unwrap_err().to_string();
            assert!(
                error.contains(&format!("version {}: expected Redis 7.0", old.trim())),
                "{error}"
            );
        }
        // A server that does not say its version, or says it in another way, may be right.
        for taken in
            [Some("7.0.15\r"), Some("7.2.4"), Some("10.0.0"), Some("255.255.255"), Some("-"), None]
        {
            node.check_version(taken).unwrap();
        }
    }
}
