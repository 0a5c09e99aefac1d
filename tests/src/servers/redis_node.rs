//! A redis-server on a port of its own that a test kills, changes and starts again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use redis::FromRedisValue;

use crate::servers::program::signal;
use crate::servers::redis_cluster::free_port;
use crate::wait::until_blocking;

/// A redis-server with an append-only file, running or not; killed when dropped.
pub struct RedisNode {
    dir: PathBuf,
    port: u16,
    /// Variables of its process, such as those of a clock.
    variables: Vec<(String, String)>,
    child: Option<Child>,
}

impl RedisNode {
    /// Starts one in a directory that exists, with these variables in its environment.
    pub fn start(dir: &Path, variables: Vec<(String, String)>) -> Self {
        let mut node = Self { dir: dir.to_owned(), port: free_port(), variables, child: None };
        node.launch();
        node
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Starts it again, and waits until it has loaded its data.
    pub fn launch(&mut self) {
        self.launch_with(&[]);
    }

    /// Like [`Self::launch`], with more arguments.
    pub fn launch_with(&mut self, arguments: &[&str]) {
        self.spawn(arguments);
        self.wait_until_loaded();
    }

    /// Waits until it has loaded its data.
    pub fn wait_until_loaded(&self) {
        until_blocking("redis-server answers", || self.try_ask::<String>(&["PING"]));
    }

    /// Starts it again, and waits for nothing.
    pub fn spawn(&mut self, arguments: &[&str]) {
        assert!(self.child.is_none(), "it runs");
        // A signal for a file that is too large would end it; a full disk does not.
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec redis-server \"$@\"", "sh"])
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction"])
            .args(["--lazyfree-lazy-expire", "yes", "--repl-diskless-sync-delay", "0"])
            .arg("--dir")
            .arg(&self.dir)
            .args(arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.child = Some(command.spawn().expect("redis-server is installed"));
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends a signal to it.
    pub fn signal(&self, name: &str) {
        signal(name, self.pid());
    }

    /// True if its process has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// Sends a command to it.
    pub fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.query(words).unwrap()
    }

    /// Like [`Self::ask`]; nothing if it does not answer.
    pub fn try_ask<T: FromRedisValue>(&self, words: &[&str]) -> Option<T> {
        self.query(words).ok()
    }

    fn query<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut connection = client.get_connection()?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
    }

    /// The newest file of its append-only log.
    pub fn log_file(&self) -> PathBuf {
        let entries = std::fs::read_dir(self.dir.join("appendonlydir")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let logs = paths.filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
        logs.max_by_key(|path| {
            // appendonly.aof.<number>.incr.aof
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.split('.').filter_map(|part| part.parse::<u64>().ok()).next_back()
        })
        .expect("it has an append-only log")
    }

    /// Replaces all its files by copies of those of a directory; by nothing if there is none.
    pub fn put_files(&self, of: Option<&Path>) {
        let own = self.dir.join("appendonlydir");
        let _ = std::fs::remove_dir_all(&own);
        if let Some(dir) = of {
            copy(dir, &own);
        }
    }

    /// Copies its files into a directory that does not exist.
    pub fn copy_files(&self, to: &Path) {
        copy(&self.dir.join("appendonlydir"), to);
    }
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.kill();
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp -a {} {}", from.display(), to.display());
}
