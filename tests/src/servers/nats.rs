//! A NATS server of a test's own, with JetStream in a directory.

use std::process::{Child, Command, Stdio};

use crate::servers::redis_cluster::free_port;

/// A running server; killed when dropped.
pub struct Nats {
    dir: String,
    port: u16,
    child: Child,
}

impl Nats {
    /// Starts one with its data in a directory. It answers some moments later.
    pub fn start(dir: String) -> Self {
        let port = free_port();
        Self { child: spawn(&dir, port), dir, port }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) {
        self.child = spawn(&self.dir, self.port);
    }
}

fn spawn(dir: &str, port: u16) -> Child {
    Command::new("nats-server")
        .args(["-a", "127.0.0.1", "-js", "-p", &port.to_string(), "-sd"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nats-server is installed")
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}
