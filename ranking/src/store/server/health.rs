//! The state of each server as the server itself tells it: role, persistence, eviction and clock.

use std::sync::Arc;

use futures::future::join_all;
use redis::RedisResult;

use super::cluster::Map;
use super::node::Node;
use super::run::Teller;
use crate::error::Result;
use crate::id::PartitionNo;
use crate::store::{Store, classify};

/// The state of one server. A field that it does not tell is `None`: some managed servers hide a
/// part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerHealth {
    /// `host:port`, or the path of a Unix socket.
    pub address: String,
    /// Changes with each start of the server.
    pub run_id: String,
    /// True if it belongs to a cluster, whose servers redirect commands to the master.
    pub is_in_cluster: bool,
    /// The master of a replica, `host:port`; `None` for a master.
    pub replica_of: Option<String>,
    /// The replicas that are connected to it.
    pub replicas: u64,
    /// True if it keeps an append-only file.
    pub appends: Option<bool>,
    /// True if its last write to that file failed; it then refuses writes.
    pub append_failed: bool,
    /// When that file goes to the disk: `always`, `everysec` or `no`.
    pub append_fsync: Option<String>,
    /// Its reaction when memory is short, such as `noeviction`.
    pub eviction_policy: Option<String>,
    /// The keys that it evicted since its start.
    pub evicted_keys: u64,
    /// True if it frees expired keys in a thread of their own.
    pub expires_lazily: Option<bool>,
    /// True if it answers `CONFIG GET`.
    pub tells_config: bool,
    /// Its clock, in Unix milliseconds.
    pub now_ms: Option<i64>,
}

impl ServerHealth {
    /// Reads the answer to `INFO`.
    fn of_info(address: &str, info: &str) -> Self {
        let line = |name: &str| {
            let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.map(str::trim)
        };
        let number = |name: &str| line(name).and_then(|text| text.parse::<u64>().ok());
        let master = || {
            let (host, port) = (line("master_host")?, line("master_port")?);
            Some(format!("{host}:{port}"))
        };
        let is_replica = line("role") == Some("slave");
        Self {
            address: address.to_owned(),
            run_id: line("run_id").unwrap_or_default().to_owned(),
            // Valkey's name for the mode is the second.
            is_in_cluster: line("redis_mode").or_else(|| line("server_mode")) == Some("cluster"),
            replica_of: is_replica.then(|| master().unwrap_or_else(|| "another server".to_owned())),
            replicas: number("connected_slaves").unwrap_or(0),
            appends: line("aof_enabled").map(|text| text == "1"),
            append_failed: line("aof_last_write_status") == Some("err"),
            append_fsync: None,
            eviction_policy: line("maxmemory_policy").map(str::to_owned),
            evicted_keys: number("evicted_keys").unwrap_or(0),
            expires_lazily: None,
            tells_config: false,
            now_ms: number("server_time_usec").and_then(|us| i64::try_from(us / 1000).ok()),
        }
    }
}

impl Store {
    /// Asks each server for its state: `INFO`, and two `CONFIG GET`, which a server may refuse;
    /// behind a proxy that keeps `INFO` back, by a script, and without `CONFIG GET`.
    ///
    /// # Errors
    /// `Unavailable` if the servers are not known; one that does not answer has an error of its
    /// own.
    pub async fn health(&self) -> Result<Vec<Result<ServerHealth>>> {
        let map = self.inner.cluster.map().await?;
        let asked = map.nodes.iter().map(|node| self.health_of(&map, node));
        Ok(join_all(asked).await)
    }

    async fn health_of(&self, map: &Map, node: &Arc<Node>) -> Result<ServerHealth> {
        let mut link = self.inner.cluster.link(map, node, self.lane).await?;
        let (mut pipe, is_told) = (redis::pipe(), link.teller == Teller::Info);
        if is_told {
            pipe.cmd("INFO");
        } else {
            let info = pipe.cmd("EVALSHA").arg(self.inner.scripts.info.get_hash());
            info.arg(1).arg(self.keys().head(PartitionNo(0))).arg("default");
        }
        let answer: RedisResult<(String,)> = link.query(&pipe).await;
        if let Err(error) = &answer
            && (error.is_io_error() || error.is_unrecoverable_error())
        {
            self.inner.cluster.doubt(map);
            node.unlink(&link).await;
        }
        let (info,) = answer.map_err(|error| classify(&error))?;
        let mut health = ServerHealth::of_info(&node.address, &info);
        if !is_told {
            // A proxy may close the connection at a command that it does not know.
            return Ok(health);
        }
        let mut pipe = redis::pipe();
        for name in ["appendfsync", "lazyfree-lazy-expire"] {
            pipe.cmd("CONFIG").arg("GET").arg(name);
        }
        let answer: RedisResult<(Vec<String>, Vec<String>)> = link.query(&pipe).await;
        if let Ok((fsync, expire)) = answer {
            health.tells_config = true;
            health.append_fsync = fsync.into_iter().nth(1);
            health.expires_lazily = expire.get(1).map(|text| text == "yes");
        }
        Ok(health)
    }

    /// The servers that the URL names, without the login.
    pub fn addresses(&self) -> Vec<String> {
        self.inner.cluster.addresses()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_tells_its_state_and_what_it_hides_is_unknown() {
        let info = "# Server\r\nredis_mode:standalone\r\nrun_id:ab\r\nserver_time_usec:1700000000123456\r\n\
            # Memory\r\nmaxmemory_policy:allkeys-lru\r\n# Persistence\r\naof_enabled:0\r\n\
            aof_last_write_status:err\r\n# Stats\r\nevicted_keys:7\r\n# Replication\r\nrole:slave\r\n\
            master_host:10.0.0.6\r\nmaster_port:6380\r\nconnected_slaves:2\r\n";
        let health = ServerHealth::of_info("a:1", info);
        assert_eq!(health.replica_of.as_deref(), Some("10.0.0.6:6380"));
        assert_eq!(health.eviction_policy.as_deref(), Some("allkeys-lru"));
        assert_eq!((health.appends, health.append_failed), (Some(false), true));
        assert_eq!((health.evicted_keys, health.replicas), (7, 2));
        assert_eq!(health.now_ms, Some(1_700_000_000_123));
        let hidden = ServerHealth::of_info("a:1", "role:master\r\n");
        assert_eq!((hidden.appends, hidden.now_ms, hidden.eviction_policy), (None, None, None));
        assert_eq!(hidden.replica_of, None);
        for (info, is_in_cluster) in [
            ("redis_mode:cluster\r\n", true),
            ("server_mode:cluster\r\n", true),
            ("server_mode:standalone\r\n", false),
        ] {
            assert_eq!(ServerHealth::of_info("a:1", info).is_in_cluster, is_in_cluster, "{info}");
        }
    }
}
