//! A server of SQL that a test stops, stalls and starts again.

use std::path::Path;

use crate::servers::mariadb_node::MariadbNode;
use crate::servers::postgres_node::PostgresNode;

/// A server, running or not; stopped when dropped.
pub enum SqlNode {
    Postgres(PostgresNode),
    Mariadb(MariadbNode),
}

impl SqlNode {
    /// Makes an empty PostgreSQL, and starts it. Its data lie in a directory that `prepare` may
    /// make.
    pub fn postgres(prepare: impl FnOnce(&Path)) -> Self {
        Self::Postgres(PostgresNode::start(prepare))
    }

    /// Makes an empty MariaDB, and starts it.
    pub fn mariadb() -> Self {
        Self::Mariadb(MariadbNode::start())
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Postgres(node) => node.port(),
            Self::Mariadb(node) => node.port(),
        }
    }

    /// The URL of its database at a port: its own, or that of a proxy.
    pub fn url(&self, port: u16) -> String {
        match self {
            Self::Postgres(_) => PostgresNode::url(port),
            Self::Mariadb(_) => MariadbNode::url(port),
        }
    }

    /// Starts it again, and waits until it answers.
    pub fn launch(&mut self) {
        match self {
            Self::Postgres(node) => node.launch(),
            Self::Mariadb(node) => node.launch(),
        }
    }

    /// Ends its sessions and stops it in order.
    pub fn stop(&mut self) {
        match self {
            Self::Postgres(node) => node.stop(),
            Self::Mariadb(node) => node.stop(),
        }
    }

    /// Stops it as a crash does.
    pub fn kill(&mut self) {
        match self {
            Self::Postgres(node) => node.kill(),
            Self::Mariadb(node) => node.kill(),
        }
    }

    /// Sends a signal to each of its processes.
    pub fn signal_all(&self, name: &str) {
        match self {
            Self::Postgres(node) => node.signal_all(name),
            Self::Mariadb(node) => node.signal(name),
        }
    }
}
