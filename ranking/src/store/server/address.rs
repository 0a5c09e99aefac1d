//! The address of Redis: a URL, and the protection of the way there.
//!
//! A URL names one server or, with `cluster=true`, some servers of a cluster. `rediss://` is TLS.
//! In clear text, passwords and scores are readable on the way; so that way must not leave the
//! machine unless a setting allows it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsCertificates,
};

use super::node::Node;
use super::run::RunName;
use crate::error::{Error, Result};

/// The accepted forms of a Redis URL.
const ACCEPTED: &str = "expected redis://host:port, rediss://host:port, redis+unix:///path or redis://host:port,host:port?cluster=true";

/// How Redis is reached.
#[derive(Clone)]
pub struct Address {
    /// The URL, with its password.
    pub url: String,
    /// The authorities that a server's certificate may come from, in PEM; those of the system if
    /// `None`.
    pub authorities: Option<Vec<u8>>,
    /// True if servers on other machines may be reached in clear text.
    pub allows_cleartext: bool,
    /// The operator's name for the present run, where Redis does not tell it.
    pub run_name: Option<RunName>,
}

impl From<String> for Address {
    fn from(url: String) -> Self {
        Self { url, authorities: None, allows_cleartext: false, run_name: None }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

/// True if a host is this machine: `localhost`, or an address of the loopback interface.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

impl Address {
    /// Checks that the way to a server is encrypted, or does not leave this machine.
    pub(crate) fn check_protected(&self, server: &ConnectionAddr) -> Result<()> {
        match server {
            ConnectionAddr::Tcp(host, _) if !self.allows_cleartext && !is_loopback(host) => {
                Err(Error::invalid(format!(
                    "Redis at {host} would be reached in clear text: expected rediss://, a server on this machine, or LAUREL_ALLOW_CLEARTEXT=true on a network that no stranger can read"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The servers that the URL names, and true for a cluster.
    pub(crate) fn servers(&self) -> Result<(Vec<Arc<Node>>, bool)> {
        let refused = |why: &str| Error::invalid(format!("invalid Redis URL ({why}): {ACCEPTED}"));
        let (place, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let (ours, others): (Vec<&str>, Vec<&str>) =
            query.split('&').partition(|pair| pair.starts_with("cluster="));
        let is_cluster = match ours[..] {
            [] => false,
            ["cluster=true"] => true,
            _ => return Err(refused("a cluster is named by cluster=true, and nothing else")),
        };
        let query = match others.join("&") {
            query if query.is_empty() => query,
            query => format!("?{query}"),
        };
        let (scheme, place) = place.split_once("://").ok_or_else(|| refused("it has no scheme"))?;
        let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
        let (login, hosts) = match authority.rfind('@') {
            Some(at) => authority.split_at(at + 1),
            None => ("", authority),
        };
        let mut nodes = vec![];
        for host in hosts.split(',') {
            let info = self.parse(format!("{scheme}://{login}{host}{path}{query}"));
            let info = info.map_err(|error| refused(&error.to_string()))?;
            if is_cluster && matches!(info.addr(), ConnectionAddr::Unix(_)) {
                return Err(refused("a cluster cannot be reached over a Unix socket"));
            }
            self.check_protected(info.addr())?;
            nodes.push(Arc::new(Node::new(info).map_err(|error| refused(&error.to_string()))?));
        }
        if nodes.len() > 1 && !is_cluster {
            return Err(refused("several servers need cluster=true"));
        }
        Ok((nodes, is_cluster))
    }

    fn parse(&self, url: String) -> RedisResult<ConnectionInfo> {
        let info = url.into_connection_info()?;
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Ok(info);
        }
        // Other crates bring a second provider, so rustls would not know which one to take. It
        // fails if this process has chosen already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let Some(authorities) = &self.authorities else {
            return Ok(info);
        };
        let trusted = TlsCertificates { client_tls: None, root_cert: Some(authorities.clone()) };
        Ok(Client::build_with_tls(info, trusted)?.get_connection_info().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers_of(url: &str) -> Result<(Vec<Arc<Node>>, bool)> {
        Address { allows_cleartext: true, ..Address::from(url.to_owned()) }.servers()
    }

    #[test]
    fn a_url_names_one_server_or_those_of_a_cluster() {
        let addresses = |url: &str| {
            let (nodes, is_cluster) = servers_of(url).unwrap();
            let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
            (addresses.join(" "), is_cluster)
        };
        let cases = [
            ("redis://a:1", ("a:1", false)),
            ("rediss://a:1", ("a:1", false)),
            ("redis://a?protocol=resp3", ("a:6379", false)),
            ("redis+unix:///run/a,b.sock", ("/run/a,b.sock", false)),
            ("redis://a:1?cluster=true", ("a:1", true)),
            ("redis://a,b,c/?cluster=true", ("a:6379 b:6379 c:6379", true)),
            ("rediss://a,b/?cluster=true", ("a:6379 b:6379", true)),
            (
                "redis://me:p@ss@a:1,b:2,[::1]:3/0?protocol=resp3&cluster=true",
                ("a:1 b:2 ::1:3", true),
            ),
        ];
        for (url, (expected, is_cluster)) in cases {
            assert_eq!(addresses(url), (expected.to_owned(), is_cluster), "{url}");
        }
    }

    #[test]
    fn another_url_is_refused_with_what_would_be_accepted_and_without_its_password() {
        for url in [
            "",
            "a:1",
            "http://a:1",
            "redis://a:1,b:2",
            "redis://a:1?cluster=false",
            "redis://a:1?cluster=true&cluster=true",
            "redis+unix:///run/a.sock?cluster=true",
            "redis://me:se/cret@a:1",
            "redis://me:se#cret@a:1",
            "redis://me:se?cret@a:1",
        ] {
            let Err(refused) = servers_of(url) else {
                panic!("{url} is taken");
            };
            assert!(refused.to_string().ends_with(ACCEPTED), "{url}: {refused}");
            assert!(!refused.to_string().contains("cret"), "{url}: {refused}");
        }
    }

    #[test]
    fn clear_text_stays_on_this_machine_unless_it_is_allowed() {
        for (url, is_taken) in [
            ("redis://127.0.0.1", true),
            ("redis://localhost:7", true),
            ("redis://[::1]:7", true),
            ("redis+unix:///run/a.sock", true),
            ("rediss://redis.example", true),
            ("redis://10.0.0.6", false),
            ("redis://localhost.example", false),
            ("redis://127.0.0.1,10.0.0.6?cluster=true", false),
            ("rediss://127.0.0.1,10.0.0.6?cluster=true", true),
        ] {
            let servers = Address::from(url.to_owned()).servers();
            assert_eq!(servers.is_ok(), is_taken, "{url}");
            assert!(servers_of(url).is_ok(), "{url}");
            if let Err(refused) = servers {
                assert!(refused.to_string().contains("LAUREL_ALLOW_CLEARTEXT"), "{refused}");
            }
        }
    }
}
