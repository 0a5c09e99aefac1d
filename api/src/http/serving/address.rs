//! The address of a client, also behind proxies.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use engine::settings::connections::Networks;

use crate::http::rates::network;

/// The header in which proxies name the addresses that they were asked by.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address that limits of one client go by: an address of IPv4, or a network of 56 bits of
/// IPv6, as many households have one. Every request has it as an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// The client behind an address.
    pub fn of(address: IpAddr) -> Self {
        Self(network(address))
    }

    /// The client of a request that came from `peer`. If that is a trusted proxy, it is the last
    /// address of `X-Forwarded-For` that is none: those before it are the client's own words.
    pub fn of_request(peer: IpAddr, headers: &HeaderMap, proxies: &Networks) -> Self {
        let mut client = peer;
        if !proxies.contain(peer) {
            return Self::of(client);
        }
        // A line that cannot be read ends the walk, as a word that is no address does.
        let lines = headers.get_all(FORWARDED_FOR).iter();
        let lines: Vec<&str> = lines.map(|line| line.to_str().unwrap_or_default()).collect();
        for item in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
            let Some(address) = parse(item.trim()) else { break };
            client = address;
            if !proxies.contain(client) {
                break;
            }
        }
        Self::of(client)
    }
}

/// An address as proxies write it: some with a port, and then IPv6 in brackets.
fn parse(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip()).ok();
    text.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        let proxies = Networks::parse("10.0.0.0/8,2001:db8::1").unwrap();
        let address = ClientAddress::of_request(peer.parse().unwrap(), &headers, &proxies);
        address.0.to_string()
    }

    #[test]
    fn only_a_trusted_proxy_names_the_client() {
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client("10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("::ffff:10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("2001:db8::1", &["198.51.100.7:443"]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn a_client_cannot_name_itself() {
        assert_eq!(client("10.0.0.1", &["203.0.113.9, 198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &["203.0.113.9", "198.51.100.7, 10.0.0.2"]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &["203.0.113.9, nonsense"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
    }

    #[test]
    fn ipv6_counts_by_networks_of_56_bits() {
        assert_eq!(client("2001:db8:1:302:3:4:5:6", &[]), "2001:db8:1:300::");
        assert_eq!(client("10.0.0.1", &["[2001:db8:1:302:3::1]:9000"]), "2001:db8:1:300::");
    }
}
