//! A private redis-server in a directory: started as a child, adopted by every process that finds
//! it running, restarted when it dies, and stopped by the last process that uses it.
//!
//! ```text
//! <dir>/redis.sock   the Unix socket; in the temporary directory if this path is too long
//! <dir>/users.lock   every process that uses the server holds it shared
//! <dir>/start.lock   held by the process that starts a server
//! <dir>/…            the append-only file
//! ```

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ranking::store::server;
use ranking::{Error, Result};

/// The longest path of a Unix socket, in bytes.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The longest time until a started server answers, loading included.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A private redis-server. It counts as used while this value lives.
#[derive(Debug)]
pub struct PrivateRedis {
    dir: PathBuf,
    socket: PathBuf,
    users: File,
}

impl PrivateRedis {
    /// Starts the server of a directory, or adopts a running one.
    ///
    /// # Errors
    /// `Unavailable` if redis-server is not installed or does not start.
    pub async fn start(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
        let dir = dir.canonicalize().map_err(|error| failed(dir, &error))?;
        let users = lock_file(&dir, "users.lock")?;
        users.lock_shared().map_err(|error| failed(&dir, &error))?;
        let socket = socket_path(&dir)?;
        let server = Self { dir, socket, users };
        server.ensure_running().await?;
        Ok(server)
    }

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket.display())
    }

    /// Starts the server again unless it runs. Safe to call from many processes at once.
    ///
    /// # Errors
    /// `Unavailable` if it does not start.
    pub async fn ensure_running(&self) -> Result<()> {
        if server::ping(&self.url()).await.is_ok() {
            return Ok(());
        }
        let start = lock_file(&self.dir, "start.lock")?;
        let deadline = tokio::time::Instant::now() + START_TIMEOUT;
        while start.try_lock().is_err() {
            self.wait_until(deadline).await?;
        }
        // A socket that refuses connections has no server; a server that answers LOADING is
        // starting.
        if !self.listens().await {
            self.spawn()?;
        }
        while server::ping(&self.url()).await.is_err() {
            self.wait_until(deadline).await?;
        }
        Ok(())
    }

    /// Makes the server save its data and stop, unless another process uses it.
    pub async fn stop(&self) {
        if self.users.unlock().is_err() || self.users.try_lock().is_err() {
            return;
        }
        // The server closes the connection instead of answering.
        let _ = server::shut_down(&self.url()).await;
        for _ in 0..500 {
            if !self.listens().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tracing::warn!(dir = %self.dir.display(), "the private redis-server has not stopped within 5 s");
    }

    async fn wait_until(&self, deadline: tokio::time::Instant) -> Result<()> {
        if tokio::time::Instant::now() >= deadline {
            return Err(Error::Unavailable(format!(
                "redis-server in {} did not answer within {} s; its log is redis.log there",
                self.dir.display(),
                START_TIMEOUT.as_secs()
            )));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }

    async fn listens(&self) -> bool {
        tokio::net::UnixStream::connect(&self.socket).await.is_ok()
    }

    fn spawn(&self) -> Result<()> {
        // A dead server's socket file stays behind and would block the new one.
        let _ = std::fs::remove_file(&self.socket);
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            "0",
            "--unixsocketperm",
            "700",
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
        ]);
        command.args([
            "--maxmemory-policy",
            "noeviction",
            "--lazyfree-lazy-server-del",
            "yes",
            "--daemonize",
            "no",
        ]);
        command.arg("--unixsocket").arg(&self.socket).arg("--dir").arg(&self.dir);
        command.arg("--logfile").arg(self.dir.join("redis.log"));
        // Its own process group: a Ctrl-C in the terminal reaches its users only, and the last one
        // stops it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| {
            Error::Unavailable(format!("redis-server cannot be started ({error}); install it, or name a running one in LAUREL_REDIS_URL"))
        })?;
        // Without a thread that collects the exit status, a dead server stays a zombie.
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}

fn socket_path(dir: &Path) -> Result<PathBuf> {
    let inside = dir.join("redis.sock");
    if inside.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(inside);
    }
    let name = xxhash_rust::xxh3::xxh3_64(dir.as_os_str().as_encoded_bytes());
    let outside = std::env::temp_dir().join(format!("laurel-{name:016x}"));
    std::fs::create_dir_all(&outside).map_err(|error| failed(&outside, &error))?;
    Ok(outside.join("redis.sock"))
}

fn lock_file(dir: &Path, name: &str) -> Result<File> {
    let path = dir.join(name);
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| failed(&path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Unavailable(format!("{}: {error}", path.display()))
}
