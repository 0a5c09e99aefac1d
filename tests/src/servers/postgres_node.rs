//! A PostgreSQL server on a port of its own that a test stops, stalls, restores and starts again.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::servers::postgres::{children, other_user, programs, send};
use crate::servers::program::signal;
use crate::servers::redis_cluster::free_port;
use crate::wait::until_blocking;

/// A server, running or not; stopped when dropped.
pub struct PostgresNode {
    programs: PathBuf,
    port: u16,
    /// The user to run as, or empty.
    user: String,
    child: Option<Child>,
    // Dropped after the process is gone.
    dir: TempDir,
}

impl PostgresNode {
    /// Makes an empty one, and starts it. Its data lie in a directory that `prepare` may make.
    pub fn start(prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-postgres-").tempdir().unwrap();
        prepare(&dir.path().join("disk"));
        let _ = std::fs::create_dir(dir.path().join("disk"));
        let mut node =
            Self { programs: programs(), port: free_port(), user: other_user(), child: None, dir };
        if !node.user.is_empty() {
            run(Command::new("chown").arg("-R").arg(&node.user).arg(node.dir.path()));
        }
        let mut init = node.command("initdb");
        init.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]);
        run(init.args(["--wal-segsize", "1", "-D"]).arg(node.data()).stdout(Stdio::null()));
        node.launch();
        node
    }

    /// The URL of a database at a port: its own, or that of a proxy.
    pub fn url(port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory on whose disk its data lie.
    pub fn disk(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// Starts it again, and waits until it answers.
    pub fn launch(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let path = self.dir.path().join("log");
        let log = File::options().create(true).append(true).open(path).unwrap();
        let mut command = self.command("postgres");
        command
            .args(["-F", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(["-c", "max_connections=200", "-c", "deadlock_timeout=200ms"])
            .args(["-c", "max_wal_size=8MB", "-c", "min_wal_size=2MB"])
            .arg("-k")
            .arg(self.dir.path())
            .arg("-D")
            .arg(self.data())
            // A Ctrl-C in the terminal is for this process, which stops the server then.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.child = Some(command.spawn().expect("PostgreSQL is installed"));
        until_blocking("PostgreSQL answers", || self.answers().then_some(()));
    }

    /// Ends its sessions and stops it in order.
    pub fn stop(&mut self) {
        self.end("INT");
    }

    /// Stops it as a crash does.
    pub fn kill(&mut self) {
        self.end("QUIT");
    }

    /// Starts it again if it has ended by itself.
    pub fn revive(&mut self) {
        if self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some()) {
            self.child = None;
            self.launch();
        }
        until_blocking("PostgreSQL answers again", || self.answers().then_some(()));
    }

    /// Sends a signal to each of its processes.
    pub fn signal_all(&self, name: &str) {
        let parent = self.child.as_ref().expect("it runs").id();
        signal(name, parent);
        send(name, &children(&parent.to_string()));
    }

    /// Stops it, copies its data for [`Self::restore`], and starts it again.
    pub fn back_up(&mut self) {
        self.stop();
        run(Command::new("cp").arg("-a").arg(self.data()).arg(self.copy()));
        self.launch();
    }

    /// Stops it, and starts it with the data of the last [`Self::back_up`].
    pub fn restore(&mut self) {
        self.stop();
        std::fs::remove_dir_all(self.data()).unwrap();
        std::fs::rename(self.copy(), self.data()).unwrap();
        self.launch();
    }

    fn data(&self) -> PathBuf {
        self.disk().join("data")
    }

    fn copy(&self) -> PathBuf {
        self.disk().join("copy")
    }

    fn answers(&self) -> bool {
        let mut ask = Command::new(self.programs.join("pg_isready"));
        ask.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        ask.status().is_ok_and(|status| status.success())
    }

    fn end(&mut self, by: &str) {
        if let Some(mut child) = self.child.take() {
            signal(by, child.id());
            child.wait().unwrap();
        }
    }

    /// A command of its programs, run as its user.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if self.user.is_empty() {
            return Command::new(program);
        }
        let group = Command::new("id").args(["-g", &self.user]).output().unwrap();
        let group = String::from_utf8_lossy(&group.stdout).trim().to_owned();
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", self.user))
            .arg(format!("--regid={group}"))
            .args(["--clear-groups", "--"])
            .arg(program)
            .current_dir(self.dir.path());
        command
    }
}

impl Drop for PostgresNode {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let ended = child.try_wait();
        if matches!(ended, Ok(None)) {
            let pid = [child.id().to_string()];
            send("CONT", &pid);
            send("QUIT", &pid);
        }
        let _ = child.wait();
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}");
}
