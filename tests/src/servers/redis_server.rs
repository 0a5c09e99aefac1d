//! A redis-server of a test's own.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::servers::certificates::Certificates;
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
        Self::start_with(dir, &["--port", &port.to_string()])
    }

    /// Starts one that also listens on a port, by TLS; and that port.
    pub fn start_encrypted(dir: &Path, certificates: &Certificates) -> (Self, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let file = |name: &str| certificates.dir().join(name).display().to_string();
        let (cert, key, authority) = (file("server.pem"), file("server.key"), file("ca.pem"));
        let tls_port = port.to_string();
        let arguments: [&str; 12] = [
            "--port",
            "0",
            "--tls-port",
            &tls_port,
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &authority,
            "--tls-auth-clients",
            "no",
        ];
        (Self::start_with(dir, &arguments), port)
    }

    /// Starts one with more arguments.
    pub fn start_with(dir: &Path, arguments: &[&str]) -> Self {
        let socket = dir.join("redis.sock");
        let child = Command::new("redis-server")
            .args(arguments)
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
