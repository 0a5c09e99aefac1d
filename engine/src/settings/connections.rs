//! Settings of the server's connections: their number, the time that a client may take, and the
//! hosts, origins and proxies that the server knows.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::server::parse_address;

/// The most connections where the process may open many files.
const CONNECTIONS_DEFAULT: u64 = 1024;

/// The files that are left to the stores, the log and the batch jobs.
pub(super) const FILES_RESERVED: u64 = 128;

/// The fewest connections, however few files the process may open.
const CONNECTIONS_LEAST: u64 = 16;

/// The limits of connections, and where they come from.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionSettings {
    /// The connections that clients may hold, 16 to 1000000. By default the files that the process
    /// may open (ulimit -n) less 128, and at most 1024.
    #[arg(long, env = "LAUREL_CONNECTIONS_MAX", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(16..=1_000_000))]
    pub connections_max: Option<u64>,
    /// The connections that one address may hold, 1 to 1000000; of IPv6 a network of 56 bits counts
    /// as one address. Trusted proxies may hold more.
    #[arg(long, env = "LAUREL_ADDRESS_CONNECTIONS_MAX", default_value_t = 256, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub address_connections_max: u64,
    /// The time that the headers of a request may take, in milliseconds, 100 to 600000.
    #[arg(long, env = "LAUREL_HEADER_TIMEOUT_MS", default_value_t = 10_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub header_timeout_ms: u64,
    /// The size of the headers of a request, with its first line, in bytes, 8192 to 1048576.
    #[arg(long, env = "LAUREL_HEADER_BYTES", default_value_t = 32 << 10, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(8192..=1_048_576))]
    pub header_bytes: u64,
    /// The number of headers of a request, 16 to 100.
    #[arg(long, env = "LAUREL_HEADERS_MAX", default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(16..=100))]
    pub headers_max: u64,
    /// The time that the body of a request may take, in milliseconds, 100 to 600000.
    #[arg(long, env = "LAUREL_BODY_TIMEOUT_MS", default_value_t = 10_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub body_timeout_ms: u64,
    /// The rate at which a body must arrive once half of its time is over, in bytes a second; 0 for
    /// any.
    #[arg(
        long,
        env = "LAUREL_BODY_BYTES_PER_SECOND",
        default_value_t = 1024,
        value_name = "BYTES"
    )]
    pub body_bytes_per_second: u64,
    /// The memory for bodies that are arriving, in bytes. An address may hold as much of it as it
    /// leaves free; the first 16 KiB of a body do not count.
    #[arg(long, env = "LAUREL_BODIES_BYTES", default_value_t = 32 << 20, value_name = "BYTES")]
    pub bodies_bytes: u64,
    /// The time that a connection may wait for its next request, in milliseconds, 100 to 3600000.
    #[arg(long, env = "LAUREL_IDLE_TIMEOUT_MS", default_value_t = 60_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    pub idle_timeout_ms: u64,
    /// The time that a client may take none of its answer, in milliseconds, 100 to 600000.
    #[arg(long, env = "LAUREL_WRITE_TIMEOUT_MS", default_value_t = 30_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub write_timeout_ms: u64,
    /// A second address, for /healthz, /readyz and /metrics. Once it is set, the first one does not
    /// serve them.
    #[arg(long, env = "LAUREL_OPERATIONS_LISTEN", value_name = "HOST:PORT", value_parser = parse_address)]
    pub operations_listen: Option<SocketAddr>,
    /// The certificate chain of the server, a PEM file; the server then speaks TLS only. SIGHUP
    /// reads it again.
    #[arg(long, env = "LAUREL_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file.
    #[arg(long, env = "LAUREL_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The names that a Host header may have, with commas between them; * for any. By default
    /// localhost and loopback addresses where the server listens on one, else any.
    #[arg(long, env = "LAUREL_ALLOWED_HOSTS", value_name = "NAMES", value_parser = Hosts::parse)]
    pub allowed_hosts: Option<Hosts>,
    /// The origins whose pages may send requests from a browser, such as https://game.example, with
    /// commas between them; * for any. None by default.
    #[arg(long, env = "LAUREL_CORS_ORIGINS", value_name = "ORIGINS", value_parser = Origins::parse)]
    pub cors_origins: Option<Origins>,
    /// The origins whose pages may show lists of this server in a frame, at /embed/BOARD, with
    /// commas between them; * for any. None by default.
    #[arg(long, env = "LAUREL_EMBED_ORIGINS", value_name = "ORIGINS", value_parser = Origins::parse)]
    pub embed_origins: Option<Origins>,
    /// The hosts from which the page at / loads the pictures of members and the icons of boards,
    /// such as img.example or img.example:8443, with commas between them. None by default: it shows
    /// initials.
    #[arg(long, env = "LAUREL_IMAGE_HOSTS", value_name = "HOSTS", value_parser = ImageHosts::parse)]
    pub image_hosts: Option<ImageHosts>,
    /// The proxies whose X-Forwarded-For names the client, as addresses or networks such as
    /// 10.0.0.0/8, with commas between them. None by default.
    #[arg(long, env = "LAUREL_TRUSTED_PROXIES", value_name = "NETWORKS", value_parser = Networks::parse)]
    pub trusted_proxies: Option<Networks>,
}

impl ConnectionSettings {
    /// The connections that clients may hold.
    ///
    /// # Errors
    /// `Invalid` for more than the process may open files.
    pub fn connections_max(&self) -> ranking::Result<usize> {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        connections_max(self.connections_max, files).map_err(ranking::Error::Invalid)
    }

    /// The hosts that requests may name to a server that listens on an address.
    pub fn hosts(&self, listen: SocketAddr) -> Hosts {
        match &self.allowed_hosts {
            Some(hosts) => hosts.clone(),
            None if listen.ip().is_loopback() => Hosts::Loopback,
            None => Hosts::Any,
        }
    }

    /// The time that a body may take.
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }
}

/// The number of connections of a process that may open so many files; `None` for any number.
fn connections_max(set: Option<u64>, files: Option<u64>) -> Result<usize, String> {
    let most = files.map(|files| files.saturating_sub(FILES_RESERVED).max(CONNECTIONS_LEAST));
    let less = FILES_RESERVED.to_string();
    within_files(("LAUREL_CONNECTIONS_MAX", set), (most, CONNECTIONS_DEFAULT), &less)
}

/// The count of a setting, or by default the lower one of two: the most that the files of the
/// process allow, and a default.
///
/// # Errors
/// A message if the setting asks for more than the files allow.
pub(super) fn within_files(
    (setting, set): (&str, Option<u64>),
    (most, default): (Option<u64>, u64),
    less: &str,
) -> Result<usize, String> {
    let count = match (set, most) {
        (Some(set), Some(most)) if set > most => {
            return Err(format!(
                "invalid {setting} {set}: expected at most {most}, the files that the process may open (ulimit -n) less {less}"
            ));
        }
        (Some(set), _) => set,
        (None, most) => most.unwrap_or(default).min(default),
    };
    Ok(usize::try_from(count).expect("the range of the setting fits"))
}

/// The names that a Host header may have. Ports do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// Any name.
    Any,
    /// `localhost` and loopback addresses: a page of another site whose name leads here by its own
    /// DNS is refused.
    Loopback,
    /// These names, in lower case.
    Named(Vec<String>),
}

impl Hosts {
    fn parse(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = items(text).collect();
        if names.contains(&"*") {
            return Ok(Self::Any);
        }
        let is_name =
            |name: &&str| !name.contains(|c: char| c == '/' || c == '*' || c.is_whitespace());
        match names.iter().all(is_name) && !names.is_empty() {
            true => {
                Ok(Self::Named(names.iter().map(|name| bare(name).to_ascii_lowercase()).collect()))
            }
            false => Err("expected names such as scores.example, with commas between them".into()),
        }
    }

    /// True if a request may name this host, with or without a port.
    pub fn allows(&self, authority: &str) -> bool {
        let host = bare(authority);
        match self {
            Self::Any => true,
            Self::Loopback => {
                let address = host.trim_start_matches('[').trim_end_matches(']');
                host.eq_ignore_ascii_case("localhost")
                    || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Self::Named(names) => names.iter().any(|name| name.eq_ignore_ascii_case(host)),
        }
    }
}

/// The origins of pages that may send requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// Any origin.
    Any,
    /// These origins, in visible ASCII.
    Named(Vec<String>),
}

impl Origins {
    fn parse(text: &str) -> Result<Self, String> {
        let origins: Vec<String> = items(text).map(str::to_owned).collect();
        if origins == ["*"] {
            return Ok(Self::Any);
        }
        let is_origin = |origin: &String| {
            let host = origin.strip_prefix("https://").or(origin.strip_prefix("http://"));
            host.is_some_and(|host| {
                let is_part = |c: char| c.is_ascii_graphic() && !"/*?#@;'\"".contains(c);
                !host.is_empty() && host.chars().all(is_part)
            })
        };
        match origins.iter().all(is_origin) && !origins.is_empty() {
            true => Ok(Self::Named(origins)),
            false => Err(
                "expected origins such as https://game.example, without a path, with commas between them"
                    .into(),
            ),
        }
    }
}

/// The hosts of pictures, each with its port unless that is the one of its scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageHosts(Vec<String>);

impl ImageHosts {
    fn parse(text: &str) -> Result<Self, String> {
        let hosts: Vec<String> = items(text).map(str::to_ascii_lowercase).collect();
        // A policy for browsers has the names as they are.
        let is_host = |host: &String| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
            host.chars().all(is_part) && host.starts_with(|c: char| c.is_alphanumeric() || c == '[')
        };
        match hosts.iter().all(is_host) && !hosts.is_empty() {
            true => Ok(Self(hosts)),
            false => Err("expected hosts such as img.example, with commas between them".into()),
        }
    }

    /// The hosts, with a space between them.
    pub fn spaced(&self) -> String {
        self.0.join(" ")
    }

    /// True if a picture at an address may be loaded.
    pub fn have(&self, host: &str) -> bool {
        self.0.iter().any(|one| one.eq_ignore_ascii_case(host))
    }
}

/// Networks of addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Reads a list.
    ///
    /// # Errors
    /// A message, if an item is no address and no network.
    pub fn parse(text: &str) -> Result<Self, String> {
        let network = |item: &str| {
            item.parse::<IpNet>().or_else(|_| item.parse::<IpAddr>().map(IpNet::from)).map_err(
                |_| {
                    "expected addresses or networks such as 10.0.0.0/8, with commas between them"
                        .to_owned()
                },
            )
        };
        items(text).map(network).collect::<Result<_, _>>().map(Self)
    }

    /// True if an address is in one of them.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// The items of a list with commas.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// A host without its port and without the dot of the root.
fn bare(authority: &str) -> &str {
    let host = match authority.strip_prefix('[').and_then(|rest| rest.find(']')) {
        Some(end) => &authority[..end + 2],
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_stores() {
        assert_eq!(connections_max(None, Some(1024)), Ok(896));
        assert_eq!(connections_max(None, Some(1 << 20)), Ok(1024));
        assert_eq!(connections_max(None, None), Ok(1024));
        assert_eq!(connections_max(None, Some(64)), Ok(16));
        assert_eq!(connections_max(Some(5000), None), Ok(5000));
        assert_eq!(connections_max(Some(896), Some(1024)), Ok(896));
        let refused = connections_max(Some(897), Some(1024)).unwrap_err();
        assert!(refused.contains("at most 896"), "{refused}");
    }

    #[test]
    fn a_host_is_compared_without_its_port() {
        let named = Hosts::parse("Scores.example, [2001:db8::1]:443,localhost:8000").unwrap();
        for allowed in ["scores.EXAMPLE:8443", "scores.example.", "[2001:db8::1]", "localhost"] {
            assert!(named.allows(allowed), "{allowed}");
        }
        for refused in ["", "example", "evil.scores.example", "scores.example.evil", "[::1]"] {
            assert!(!named.allows(refused), "{refused}");
        }
        assert_eq!(Hosts::parse("a, *"), Ok(Hosts::Any));
        for wrong in ["", ",", "https://a", "a b", "*.a"] {
            assert!(Hosts::parse(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }

    #[test]
    fn a_name_that_only_resolves_to_loopback_is_not_one_of_its_names() {
        for allowed in ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000"] {
            assert!(Hosts::Loopback.allows(allowed), "{allowed}");
        }
        for refused in ["evil.example:8000", "localhost.evil.example", "10.0.0.1", "", "[::2]"] {
            assert!(!Hosts::Loopback.allows(refused), "{refused}");
        }
    }

    #[test]
    fn an_origin_has_a_scheme_and_no_path() {
        assert_eq!(Origins::parse("*"), Ok(Origins::Any));
        let named = ["https://game.example", "http://localhost:3000"];
        let parsed = Origins::parse("https://game.example ,http://localhost:3000");
        assert_eq!(parsed, Ok(Origins::Named(named.map(str::to_owned).into())));
        for wrong in [
            "",
            "game.example",
            "https://",
            "https://a/",
            "https://*.a",
            "https://ä",
            "https://a;b",
            "null",
        ] {
            assert!(Origins::parse(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }

    #[test]
    fn a_host_of_pictures_says_nothing_else_to_a_browser() {
        let hosts = ImageHosts::parse("Img.example, [2001:db8::1]:8443").unwrap();
        assert_eq!(hosts.spaced(), "img.example [2001:db8::1]:8443");
        assert!(hosts.have("IMG.example") && !hosts.have("example"));
        for wrong in ["", "*", "https://a", "a b", "a;script-src *", "'self'", "a/b", ":"] {
            assert!(ImageHosts::parse(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        let networks = Networks::parse("10.0.0.0/8, 192.0.2.1, 2001:db8::/32").unwrap();
        for inside in ["10.255.0.1", "192.0.2.1", "2001:db8:1::1", "::ffff:10.0.0.1"] {
            assert!(networks.contain(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.1", "192.0.2.2", "2001:db9::1"] {
            assert!(!networks.contain(outside.parse().unwrap()), "{outside}");
        }
        for wrong in ["10.0.0.0/33", "proxy.example", "10.0.0"] {
            assert!(Networks::parse(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }
}
