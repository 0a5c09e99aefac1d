//! A twemproxy of a test's own, in front of a redis-server.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::servers::redis_cluster::free_port;

/// A running proxy; killed when dropped.
pub struct Twemproxy {
    port: u16,
    child: Child,
}

impl Twemproxy {
    /// Starts one, with its files in an existing directory, that passes commands to the server on a
    /// port. It answers some moments later.
    pub fn start(dir: &Path, server: u16) -> Self {
        let port = free_port();
        let file = dir.join("nutcracker.yml");
        let text = format!(
            "redis:\n  listen: 127.0.0.1:{port}\n  redis: true\n  hash_tag: \"{{}}\"\n  servers:\n    - 127.0.0.1:{server}:1\n"
        );
        std::fs::write(&file, text).unwrap();
        // Its page of statistics has a port, too.
        let child = Command::new(program())
            .args(["-a", "127.0.0.1", "-s", &free_port().to_string(), "-c"])
            .arg(&file)
            .arg("-p")
            .arg(dir.join("nutcracker.pid"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nutcracker is installed");
        Self { port, child }
    }

    /// The address at which it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// Debian keeps it out of the path of some users.
fn program() -> &'static str {
    let of_debian = "/usr/sbin/nutcracker";
    if Path::new(of_debian).exists() { of_debian } else { "nutcracker" }
}

impl Drop for Twemproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
