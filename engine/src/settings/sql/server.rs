//! A server as the database: PostgreSQL, MariaDB or MySQL. The way to it is encrypted or does not
//! leave this machine.

use std::path::PathBuf;
use std::time::Duration;

use ranking::Error;
use ranking::store::server::address::is_loopback;
use sea_orm::ConnectOptions;
use sqlx::ConnectOptions as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use url::Url;

use super::connection::{guarded, in_session, limited};
use crate::settings::redacted::Redacted;

/// The accepted forms of URLs.
const POSTGRES_EXPECTED: &str = "postgres://user:password@host:port/name; in a password write / as %2F, # as %23, ? as %3F, @ as %40; sslmode is disable, allow, prefer, require, verify-ca or verify-full";
const MYSQL_EXPECTED: &str = "mysql://user:password@host:port/name; in a password write / as %2F, # as %23, ? as %3F, @ as %40; ssl-mode is DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY";

/// The parameters that sqlx knows. It passes over others, such as a misspelt mode of encryption.
const POSTGRES_PARAMETERS: [&str; 18] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];
const MYSQL_PARAMETERS: [&str; 14] = [
    "sslmode",
    "ssl-mode",
    "sslca",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "charset",
    "collation",
    "statement-cache-capacity",
    "socket",
    "timezone",
    "time-zone",
];

/// The parameters that name files.
const FILES: [&str; 8] =
    ["sslrootcert", "ssl-root-cert", "sslca", "ssl-ca", "sslcert", "ssl-cert", "sslkey", "ssl-key"];

/// The accepted ways to a server on another machine.
const POSTGRES_ENCRYPTION_EXPECTED: &str = "sslmode=verify-full, with the authority's file as sslrootcert, or LAUREL_ALLOW_CLEARTEXT=true on a network that no stranger can read; without them passwords and scores may go in clear text";
const MYSQL_ENCRYPTION_EXPECTED: &str = "ssl-mode=VERIFY_IDENTITY, with the authority's file as ssl-ca, or LAUREL_ALLOW_CLEARTEXT=true on a network that no stranger can read; without them passwords and scores may go in clear text";

/// The time to reach a server that gave no connection.
const REACHED_TIMEOUT: Duration = Duration::from_secs(3);

/// The times after which a server ends something by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The time of one statement, unless it is the longest one.
    pub(super) statement: Option<Duration>,
    /// The time that a transaction may do nothing.
    pub(super) idle: Duration,
}

/// The error about a URL, which it shows without its password.
pub(super) fn refused(url: &str, expected: &str) -> Error {
    let url = Redacted(url);
    Error::Invalid(format!("invalid LAUREL_DATABASE_URL {url}: expected {expected}"))
}

/// The options of a pool for the server that a URL names.
///
/// # Errors
/// `Invalid` if the URL names none, or if the way there may be in clear text and `allow_cleartext`
/// is false.
pub(super) fn options(
    url: &str,
    limits: Limits,
    allow_cleartext: bool,
) -> Result<ConnectOptions, Error> {
    match url.split_once(':').map(|(kind, _)| kind) {
        Some("postgres" | "postgresql") => postgres(url, limits, allow_cleartext),
        Some("mysql" | "mariadb") => mysql(url, limits, allow_cleartext),
        _ => Err(refused(url, "sqlite://, postgres://, mysql:// or mariadb://")),
    }
}

/// Checks that a URL has no other parameters than these, and that files which they name are there.
/// The reason of sqlx names no file.
fn check_parameters(url: &str, known: &[&str]) -> Result<(), Error> {
    let Ok(parsed) = Url::parse(url) else { return Ok(()) };
    for (name, value) in parsed.query_pairs() {
        if !known.contains(&&*name) && !name.starts_with("options[") {
            return Err(refused(url, &format!("no other parameters than {}", known.join(", "))));
        }
        if FILES.contains(&&*name)
            && let Err(error) = std::fs::metadata(&*value)
        {
            return Err(refused(url, &format!("a file of this machine as {name}: {error}")));
        }
    }
    Ok(())
}

/// The place of a server.
enum Place {
    Address(String, u16),
    Socket(PathBuf),
}

/// The reason why no connection to a server was to be had, from one more try to reach it.
pub(super) async fn unreached(url: &str) -> Option<Error> {
    let place = place(url)?;
    let reach = async {
        match &place {
            Place::Address(host, port) => {
                TcpStream::connect((host.as_str(), *port)).await.map(|_| ())
            }
            Place::Socket(path) => UnixStream::connect(path).await.map(|_| ()),
        }
    };
    let reason = match timeout(REACHED_TIMEOUT, reach).await {
        Ok(Ok(())) => "it is reached, and gives no connection".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", REACHED_TIMEOUT.as_secs()),
    };
    let place = match place {
        Place::Address(host, port) => format!("at {host}:{port}"),
        Place::Socket(path) => format!("behind the socket {}", path.display()),
    };
    Some(Error::Unavailable(format!("the server {place} is unavailable: {reason}")))
}

/// The place of the server that a URL names.
fn place(url: &str) -> Option<Place> {
    let (socket, host, port) = if url.starts_with("postgres") {
        let server = url.parse::<PgConnectOptions>().ok()?;
        let (host, port) = (server.get_host().to_owned(), server.get_port());
        let directory = server.get_socket().cloned();
        let directory = directory.or_else(|| host.starts_with('/').then(|| host.clone().into()));
        (directory.map(|directory| directory.join(format!(".s.PGSQL.{port}"))), host, port)
    } else {
        let server = url.parse::<MySqlConnectOptions>().ok()?;
        (server.get_socket().cloned(), server.get_host().to_owned(), server.get_port())
    };
    Some(match socket {
        Some(path) => Place::Socket(path),
        None => Place::Address(host, port),
    })
}

fn postgres(url: &str, limits: Limits, allow_cleartext: bool) -> Result<ConnectOptions, Error> {
    let Ok(server) = url.parse::<PgConnectOptions>() else {
        return Err(refused(url, POSTGRES_EXPECTED));
    };
    check_parameters(url, &POSTGRES_PARAMETERS)?;
    let is_encrypted = matches!(
        server.get_ssl_mode(),
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
    );
    let host = server.get_host();
    let is_here = server.get_socket().is_some() || host.starts_with('/') || is_loopback(host);
    if !(is_encrypted || is_here || allow_cleartext) {
        return Err(refused(url, POSTGRES_ENCRYPTION_EXPECTED));
    }
    let server = limited(server, limits).disable_statement_logging();
    // SeaORM's spans show the URL that it gets, with the password.
    let mut options = ConnectOptions::new("postgres://localhost");
    options.map_sqlx_postgres_opts(move |_| server.clone()).map_sqlx_postgres_pool_opts(guarded);
    Ok(options)
}

fn mysql(url: &str, limits: Limits, allow_cleartext: bool) -> Result<ConnectOptions, Error> {
    let server = url.parse::<MySqlConnectOptions>().ok();
    let Some(server) = server.filter(|server| server.get_database().is_some()) else {
        return Err(refused(url, MYSQL_EXPECTED));
    };
    check_parameters(url, &MYSQL_PARAMETERS)?;
    let is_encrypted = matches!(
        server.get_ssl_mode(),
        MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
    );
    let is_here = server.get_socket().is_some() || is_loopback(server.get_host());
    if !(is_encrypted || is_here || allow_cleartext) {
        return Err(refused(url, MYSQL_ENCRYPTION_EXPECTED));
    }
    let server = server.disable_statement_logging();
    // As with PostgreSQL.
    let mut options = ConnectOptions::new("mysql://localhost");
    options
        .map_sqlx_mysql_opts(move |_| server.clone())
        .map_sqlx_mysql_pool_opts(move |pool| in_session(pool, limits));
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_is_not_reached_is_named_with_the_reason() {
        let vacant = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for kind in ["postgres", "postgresql", "mysql", "mariadb"] {
            let url = format!("{kind}://u:cret@{vacant}/x");
            let reason = unreached(&url).await.unwrap().to_string();
            assert!(reason.contains(&format!("the server at {vacant}")), "{reason}");
            assert!(reason.contains("refused") && !reason.contains("cret"), "{reason}");
        }
        for (url, socket) in [
            ("postgres://u:cret@localhost:7/x?host=/no/such", "/no/such/.s.PGSQL.7"),
            ("mysql://u:cret@localhost/x?socket=/no/such", "/no/such"),
        ] {
            let reason = unreached(url).await.unwrap().to_string();
            assert!(reason.contains(&format!("behind the socket {socket} is")), "{reason}");
            assert!(reason.contains("No such file") && !reason.contains("cret"), "{reason}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (kind, name) in
            [("postgres", "sslrootcert"), ("postgres", "sslkey"), ("mysql", "ssl-ca")]
        {
            let url = |path: &str| format!("{kind}://u:cret@localhost/x?{name}={path}");
            let limits = Limits { statement: None, idle: Duration::from_secs(1) };
            let there = options(&url(file.path().to_str().unwrap()), limits, true);
            assert!(there.is_ok(), "{name}: {there:?}");
            let reason = options(&url("%2Fno%2Fsuch"), limits, true).unwrap_err().to_string();
            assert!(reason.contains(name) && reason.contains("No such file"), "{reason}");
            assert!(!reason.contains("cret@"), "{reason}");
        }
    }
}
