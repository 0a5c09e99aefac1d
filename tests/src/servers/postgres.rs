//! One PostgreSQL server for the run: started on first use, in a temporary directory, with a
//! database for each test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use sea_orm::{ConnectionTrait, Database};

use crate::servers::certificates::Certificates;

static SERVER: OnceLock<Postgres> = OnceLock::new();
static DATABASES: AtomicUsize = AtomicUsize::new(0);

/// Starts the server and stops it when its standard input closes: a static is never dropped, but a
/// pipe closes with its process, however that ends. $1 directory, $2 programs, $3 port, $4 user to
/// run as, or empty, $5 directory of its certificate, or empty. The order of a language is asked
/// for, where the server can, so that a query that forgets to compare bytes is found out.
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
as "$bin/pg_ctl" -D "$dir/data" -l "$dir/data/server.log" -w -o "-F -p $port -h 127.0.0.1 -k $dir -c max_connections=300 $tls" start \
    >"$dir/start.log" 2>&1 || { cat "$dir/start.log" "$dir/data/server.log" >&2; exit 1; }
echo ready
cat >/dev/null
"#;

/// A running server; it stops when this value is dropped.
pub struct Postgres {
    port: u16,
    /// The server stops when the standard input of this process closes.
    _watchdog: Child,
}

/// A new empty database; its URL.
pub async fn new_database() -> String {
    let server = SERVER.get_or_init(|| Postgres::start(None));
    let name = format!("laurel_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let db = Database::connect(server.url("postgres")).await.unwrap();
    db.execute_unprepared(&format!("CREATE DATABASE {name}")).await.unwrap();
    db.close().await.unwrap();
    server.url(&name)
}

impl Postgres {
    /// The URL of one of its databases.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    /// Starts one that also takes TLS, if it gets a certificate.
    pub fn start(certificates: Option<&Certificates>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let dir = tempfile::Builder::new().prefix("laurel-postgres-").tempdir().unwrap().keep();
        let mut watchdog = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .args([&dir, &programs()])
            .args([port.to_string(), other_user()])
            .arg(certificates.map_or(Path::new(""), Certificates::dir))
            // A Ctrl-C in the terminal is for this process; the watchdog follows it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = watchdog.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "PostgreSQL does not start");
        Self { port, _watchdog: watchdog }
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
