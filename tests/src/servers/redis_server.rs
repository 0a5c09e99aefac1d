//! A redis-server of a test's own.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::wait::until_blocking;

/// A running redis-server with an append-only file; killed when dropped.
pub struct RedisServer {
    child: Child,
    url: String,
}

impl RedisServer {
    /// Starts one in an existing directory.
    pub fn start(dir: &Path) -> Self {
        Self::start_at(dir, 0)
    }

    /// Starts one that also listens on a port.
    pub fn start_at(dir: &Path, port: u16) -> Self {
        let socket = dir.join("redis.sock");
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "yes"])
            .arg("--dir")
            .arg(dir)
            .arg("--unixsocket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let server = Self { child, url: format!("redis+unix://{}", socket.display()) };
        let client = redis::Client::open(server.url()).unwrap();
        until_blocking("redis-server answers", || {
            let mut connection = client.get_connection().ok()?;
            redis::cmd("PING").query::<String>(&mut connection).ok()
        });
        server
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
