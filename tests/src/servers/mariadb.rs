//! One MariaDB server for the run: started on first use, in a temporary directory, with a database
//! for each test.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use entity::sql::dialect::MYSQL_SESSION;
use sea_orm::sqlx::Executor;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection};

use crate::servers::certificates::Certificates;
use crate::servers::redis_cluster::free_port;
use crate::servers::watchdog::Watchdog;

static SERVER: OnceLock<Mariadb> = OnceLock::new();
static DATABASES: AtomicUsize = AtomicUsize::new(0);

/// Starts the server, and stops it when standard input closes. $1 directory, $2 port, $3 directory
/// of certificates or empty. MariaDB runs as root only if it is told to.
const SCRIPT: &str = r#"
dir=$1 port=$2 tls=${3:+--ssl-cert=$3/server.pem --ssl-key=$3/server.key} user=$(id -un) PATH=$PATH:/usr/sbin:/usr/local/sbin
end() {
    kill -KILL "$(cat "$dir/pid")" 2>/dev/null
    while kill -0 "$(cat "$dir/pid")" 2>/dev/null; do sleep 0.1; done
    cd /; rm -rf "$dir"
}
trap end EXIT
cd "$dir"
mariadb-install-db --no-defaults --datadir="$dir/data" --user="$user" --auth-root-authentication-method=normal --skip-test-db >"$dir/init.log" 2>&1 || { cat "$dir/init.log" >&2; exit 1; }
start() {
    mariadbd --no-defaults --datadir="$dir/data" --user="$user" --socket="$dir/socket" --pid-file="$dir/pid" \
        --port="$port" --bind-address=127.0.0.1 --skip-name-resolve --max-connections=300 \
        --innodb-flush-log-at-trx-commit=2 --innodb-buffer-pool-size=64M $tls >>"$dir/log" 2>&1 </dev/null &
    for _ in $(seq 300); do
        if mariadb-admin --no-defaults --protocol=tcp --host=127.0.0.1 --port="$port" --user=root --connect-timeout=1 ping >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    cat "$dir/log" >&2
    exit 1
}
start
echo ready
cat >/dev/null
"#;

/// A running server; it stops when this value is dropped.
pub struct Mariadb {
    port: u16,
    _watchdog: Watchdog,
}

/// A new empty database of the server that tests share; its URL.
pub async fn new_database() -> String {
    SERVER.get_or_init(|| Mariadb::start(None)).new_database().await
}

/// A connection to a database by URL. In MariaDB its session takes the same statements as those of
/// other databases.
pub async fn connect(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.map_sqlx_mysql_pool_opts(|pool| {
        pool.after_connect(|connection, _| {
            Box::pin(async move { connection.execute(MYSQL_SESSION).await.map(drop) })
        })
    });
    Database::connect(options).await.unwrap()
}

impl Mariadb {
    /// Starts one; with certificates, it speaks TLS, too.
    pub fn start(certificates: Option<&Certificates>) -> Self {
        let port = free_port();
        let dir = tempfile::Builder::new().prefix("laurel-mariadb-").tempdir().unwrap().keep();
        let port_text = port.to_string();
        let certificates = certificates.map_or(Path::new(""), Certificates::dir);
        let arguments = [dir.as_os_str(), OsStr::new(&port_text), certificates.as_os_str()];
        let _watchdog = Watchdog::start(SCRIPT, &arguments);
        Self { port, _watchdog }
    }

    /// The URL of one of its databases.
    pub fn url(&self, name: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{name}", self.port)
    }

    /// A new empty database; its URL. It compares text without case, unless a column says
    /// otherwise.
    pub async fn new_database(&self) -> String {
        let name = format!("laurel_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let db = connect(&self.url("mysql")).await;
        let create = format!("CREATE DATABASE {name} CHARACTER SET utf8mb4");
        db.execute_unprepared(&create).await.unwrap();
        db.close().await.unwrap();
        self.url(&name)
    }
}
