//! One redis-server: the connection to it, which belongs to one run of the server.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, FromRedisValue, Pipeline};
use tokio::sync::RwLock;

use crate::error::{Error, Result};
use crate::store::classify;

/// The longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The start of every connection.
#[derive(Debug)]
pub(crate) struct Greeting {
    /// The longest time to answer one request.
    pub(crate) response_timeout: Duration,
    /// True if the server must belong to a cluster; false if it must not.
    pub(crate) is_cluster: bool,
    /// Loads the scripts.
    pub(crate) scripts: Pipeline,
}

/// A redis-server; connects when first used.
#[derive(Debug)]
pub(crate) struct Node {
    /// `host:port`, or the path of a Unix socket.
    pub(crate) address: String,
    client: redis::Client,
    slot: RwLock<Slot>,
}

/// The connection to a server, and the failures to make one.
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
    pub(crate) run_id: Arc<str>,
}

impl Node {
    pub(crate) fn new(info: ConnectionInfo) -> redis::RedisResult<Self> {
        Ok(Self {
            address: info.addr().to_string(),
            client: redis::Client::open(info)?,
            slot: RwLock::default(),
        })
    }

    /// The parameters of the connection.
    pub(crate) fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    /// The connection; makes one if there is none. Up to three round trips.
    pub(crate) async fn link(&self, greeting: &Greeting) -> Result<Link> {
        let failures = {
            let slot = self.slot.read().await;
            if let Some(link) = &slot.link {
                return Ok(link.clone());
            }
            slot.failures
        };
        let mut slot = self.slot.write().await;
        if let Some(link) = &slot.link {
            return Ok(link.clone());
        }
        // A caller that waited for a failed attempt shares its error: one attempt after the other
        // would take long for a server that is gone.
        if let Some(error) = slot.last.as_ref().filter(|_| slot.failures > failures) {
            return Err(error.clone());
        }
        match self.connect(greeting).await {
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

    /// Drops a broken connection.
    pub(crate) async fn unlink(&self, broken: &Link) {
        let mut slot = self.slot.write().await;
        slot.link.take_if(|link| link.run_id == broken.run_id);
    }

    /// True if there is a connection that is not known to be broken.
    pub(crate) fn is_linked(&self) -> bool {
        self.slot.try_read().is_ok_and(|slot| slot.link.is_some())
    }

    async fn connect(&self, greeting: &Greeting) -> Result<Link> {
        let away = |error| match classify(&error) {
            Error::Unavailable(_) => {
                Error::Unavailable(format!("Redis at {} is unavailable: {error}", self.address))
            }
            other => other,
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(greeting.response_timeout));
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connecting.await.map_err(away)?;
        let mut info = redis::cmd("INFO");
        let info = info.arg("server").query_async(&mut connection);
        let info: String = info.await.map_err(away)?;
        let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        self.check_mode(line("redis_mode:"), greeting)?;
        let run_id = line("run_id:").unwrap_or_default().trim().into();
        let loading = greeting.scripts.query_async(&mut connection);
        let () = loading.await.map_err(away)?;
        Ok(Link { connection, run_id })
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
    pub(crate) async fn query<T: FromRedisValue>(
        &mut self,
        pipe: &Pipeline,
    ) -> redis::RedisResult<T> {
        pipe.query_async(&mut self.connection).await
    }
}
