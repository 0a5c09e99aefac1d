//! One PostgreSQL server for the run: started on first use, in a temporary directory, with a
//! database for each test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use sea_orm::{ConnectionTrait, Database};

use crate::servers::certificates::Certificates;
use crate::servers::redis_cluster::free_port;
use crate::servers::watchdog::Watchdog;

static SERVER: OnceLock<Postgres> = OnceLock::new();
static DATABASES: AtomicUsize = AtomicUsize::new(0);

/// Starts the server, stops and starts it as standard input says, and stops it when that closes.
/// $1 directory, $2 programs, $3 port, $4 user to run as, or empty, $5 directory of its
/// certificate, or empty.
/// The order of a language is asked for, where the server can, so that a query that forgets to
/// compare bytes is found out.
const SCRIPT: &str = r#"
dir=$1 bin=$2 port=$3 user=$4 certificates=$5 tls=
as() { if [ -n "$user" ]; then setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups -- "$@"; else "$@"; fi; }
end() { as "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1; cd /; rm -rf "$dir"; }
trap end EXIT
cd "$dir"
if [ -n "$user" ]; then chown "$user" "$dir"; fi
init() { as "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-sync "$@" >"$dir/init.log" 2>&1; }
if [ -n "$certificates" ]; then
    cp "$certificates/server.pem" "$certificates/server.key" "$dir"
    chmod 600 "$dir/server.key"
    if [ -n "$user" ]; then chown "$user" "$dir/server.pem" "$dir/server.key"; fi
    tls="-c ssl=on -c ssl_cert_file=$dir/server.pem -c ssl_key_file=$dir/server.key"
fi
init --locale-provider=icu --icu-locale=en || init || { cat "$dir/init.log" >&2; exit 1; }
start() { as "$bin/pg_ctl" -D "$dir/data" -l "$dir/data/server.log" -w -o "-F -p $port -h 127.0.0.1 -k $dir -c max_connections=300 $tls" start >"$dir/start.log" 2>&1; }
start || { cat "$dir/start.log" "$dir/data/server.log" >&2; exit 1; }
echo ready
while read -r command; do
    case "$command" in
        start) start ;;
        stop) as "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1 ;;
    esac
    echo ready
done
"#;

/// A running server; it stops when this value is dropped.
pub struct Postgres {
    port: u16,
    dir: PathBuf,
    watchdog: Mutex<Watchdog>,
}

/// A new empty database of the server that tests share; its URL.
pub async fn new_database() -> String {
    SERVER.get_or_init(|| Postgres::start(None)).new_database().await
}

impl Postgres {
    /// The URL of one of its databases.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    /// Starts one that also takes TLS, if it gets a certificate.
    pub fn start(certificates: Option<&Certificates>) -> Self {
        let port = free_port();
        let dir = tempfile::Builder::new().prefix("laurel-postgres-").tempdir().unwrap().keep();
        let (programs, port_text, user) = (programs(), port.to_string(), other_user());
        let certificates = certificates.map_or(Path::new(""), Certificates::dir);
        let arguments = [
            dir.as_os_str(),
            programs.as_os_str(),
            OsStr::new(&port_text),
            OsStr::new(&user),
            certificates.as_os_str(),
        ];
        let watchdog = Watchdog::start(SCRIPT, &arguments);
        Self { port, dir, watchdog: Mutex::new(watchdog) }
    }

    /// A new empty database; its URL.
    pub async fn new_database(&self) -> String {
        let name = format!("laurel_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let db = Database::connect(self.url("postgres")).await.unwrap();
        db.execute_unprepared(&format!("CREATE DATABASE {name}")).await.unwrap();
        db.close().await.unwrap();
        self.url(&name)
    }

    /// Stops the server at once, as if it had crashed.
    pub fn stop(&self) {
        self.watchdog.lock().unwrap().tell("stop");
    }

    /// Starts the server again.
    pub fn start_again(&self) {
        self.watchdog.lock().unwrap().tell("start");
    }

    /// Stops all its processes where they are: it takes connections and says nothing.
    pub fn silence(&self) {
        // It starts no other ones while the first one stands.
        send("STOP", self.first_process().as_slice());
        send("STOP", &self.other_processes());
    }

    /// Lets its processes go on.
    pub fn speak(&self) {
        send("CONT", &self.other_processes());
        send("CONT", self.first_process().as_slice());
    }

    /// The process that started all others; none while the server is stopped.
    fn first_process(&self) -> Option<String> {
        let file = std::fs::read_to_string(self.dir.join("data/postmaster.pid")).ok()?;
        file.lines().next().map(str::to_owned)
    }

    fn other_processes(&self) -> Vec<String> {
        self.first_process().as_deref().map(children).unwrap_or_default()
    }
}

/// The processes that a process has started.
pub(crate) fn children(pid: &str) -> Vec<String> {
    let started = Command::new("ps").args(["-o", "pid=", "--ppid", pid]).output().unwrap().stdout;
    let started = String::from_utf8(started).unwrap();
    started.split_whitespace().map(str::to_owned).collect()
}

/// Sends a signal to processes; some may have ended.
pub fn send(signal: &str, pids: &[String]) {
    if !pids.is_empty() {
        let _ = Command::new("kill").arg(format!("-{signal}")).args(pids).output().unwrap();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A silent server would not stop.
        self.speak();
    }
}

/// The directory of initdb and pg_ctl, which Debian keeps out of the path.
pub(crate) fn programs() -> PathBuf {
    let asked = Command::new("pg_config").arg("--bindir").output();
    let told = asked.map_or_else(
        |_| PathBuf::new(),
        |output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()),
    );
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut places: Vec<PathBuf> =
        debian.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    places.sort();
    places.push(told);
    places
        .into_iter()
        .rev()
        .find(|place| place.join("initdb").exists())
        .expect("PostgreSQL is installed")
}

/// The user to run PostgreSQL as where this process runs as root, which PostgreSQL refuses.
pub(crate) fn other_user() -> String {
    let id = |arguments: &[&str]| Command::new("id").args(arguments).output().unwrap();
    if id(&["-u"]).stdout != b"0\n" {
        return String::new();
    }
    let known = |user: &&str| id(&["-u", user]).status.success();
    ["postgres", "nobody"]
        .into_iter()
        .find(known)
        .expect("there is a user who is not root")
        .to_owned()
}
