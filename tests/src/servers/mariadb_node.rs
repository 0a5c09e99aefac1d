//! A MariaDB server on a port of its own that a test stops, stalls and starts again.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::servers::program::signal;
use crate::servers::redis_cluster::free_port;
use crate::wait::until_blocking;

/// Debian keeps its programs out of the path of some users.
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];

/// A server, running or not; stopped when dropped.
pub struct MariadbNode {
    port: u16,
    child: Option<Child>,
    // Dropped after the process is gone.
    dir: TempDir,
}

impl MariadbNode {
    /// Makes one with an empty database, and starts it.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-mariadb-").tempdir().unwrap();
        let mut node = Self { port: free_port(), child: None, dir };
        let mut install = program("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install.args(["--skip-test-db", &node.data(), &user()]).stdout(Stdio::null());
        assert!(install.status().unwrap().success(), "{install:?}");
        node.launch();
        let mut create = node.client("mariadb");
        create.args(["-e", "CREATE DATABASE laurel CHARACTER SET utf8mb4"]);
        assert!(create.status().unwrap().success(), "{create:?}");
        node
    }

    /// The URL of its database at a port: its own, or that of a proxy.
    pub fn url(port: u16) -> String {
        format!("mysql://root@127.0.0.1:{port}/laurel")
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts it again, and waits until it answers.
    pub fn launch(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = program("mariadbd");
        command
            .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"])
            .args(["--max-connections=200", "--innodb-buffer-pool-size=64M"])
            // A commit outlives the process, as the system has it.
            .arg("--innodb-flush-log-at-trx-commit=2")
            .args([self.data(), user(), format!("--port={}", self.port)])
            .arg(format!("--socket={}", self.path("socket").display()))
            .arg(format!("--pid-file={}", self.path("pid").display()))
            // A Ctrl-C in the terminal is for this process, which stops the server then.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.child = Some(command.spawn().expect("MariaDB is installed"));
        until_blocking("MariaDB answers", || self.answers().then_some(()));
    }

    /// Ends its sessions and stops it in order.
    pub fn stop(&mut self) {
        self.end("TERM");
    }

    /// Stops it as a crash does.
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Sends a signal to its process.
    pub fn signal(&self, name: &str) {
        signal(name, self.child.as_ref().expect("it runs").id());
    }

    fn answers(&self) -> bool {
        let mut ask = self.client("mariadb-admin");
        ask.args(["--connect-timeout=1", "ping"]).stdout(Stdio::null()).stderr(Stdio::null());
        ask.status().is_ok_and(|status| status.success())
    }

    /// A command of one of its clients.
    fn client(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root"]);
        command.arg(format!("--port={}", self.port));
        command
    }

    fn data(&self) -> String {
        format!("--datadir={}", self.path("data").display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn end(&mut self, by: &str) {
        if let Some(mut child) = self.child.take() {
            signal(by, child.id());
            child.wait().unwrap();
        }
    }
}

impl Drop for MariadbNode {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A command of one of its programs.
fn program(name: &str) -> Command {
    let mut found = PLACES.iter().map(|place| PathBuf::from(place).join(name));
    Command::new(found.find(|path| path.exists()).unwrap_or_else(|| name.into()))
}

/// The option that lets it run as this user, which may be root.
fn user() -> String {
    let name = Command::new("id").arg("-un").output().unwrap();
    format!("--user={}", String::from_utf8_lossy(&name.stdout).trim())
}
