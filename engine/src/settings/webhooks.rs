//! Settings of webhooks: the receivers that are allowed, and how long deliveries are tried.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use super::connections::{Networks, items};

/// The delivery of events to webhooks.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Webhooks")]
pub struct WebhookSettings {
    /// The hosts, addresses and networks besides public ones that receivers of webhooks may have,
    /// such as rewards.internal or 10.1.0.0/16, with commas between them. None by default.
    #[arg(long, env = "LAUREL_WEBHOOK_ALLOW", default_value = "", value_name = "HOSTS", value_parser = Allowed::parse)]
    pub webhook_allow: Allowed,
    /// The pause after the first failed delivery to a webhook, in milliseconds, 10 to 3600000. It
    /// doubles with each further one, up to an hour.
    #[arg(long, env = "LAUREL_WEBHOOK_RETRY_MS", default_value_t = 5000, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    pub webhook_retry_ms: u64,
    /// The time for which deliveries may fail before a webhook counts as FAILED and is left alone,
    /// in seconds, 1 to 2592000.
    #[arg(long, env = "LAUREL_WEBHOOK_FAIL_SECONDS", default_value_t = 259_200, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=2_592_000))]
    pub webhook_fail_seconds: u64,
}

/// The receivers besides public ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    networks: Networks,
    hosts: Vec<String>,
}

/// The networks of IPv4 that are not public: RFC 6890 and its successors, and multicast.
static NOT_PUBLIC: LazyLock<Networks> = LazyLock::new(|| {
    let networks = "0.0.0.0/8,10.0.0.0/8,100.64.0.0/10,127.0.0.0/8,169.254.0.0/16,172.16.0.0/12,\
        192.0.0.0/24,192.0.2.0/24,192.88.99.0/24,192.168.0.0/16,198.18.0.0/15,198.51.100.0/24,\
        203.0.113.0/24,224.0.0.0/4,240.0.0.0/4";
    Networks::parse(networks).expect("these are networks")
});

/// The networks within the global unicast addresses of IPv6 that are not public, or that lead to
/// addresses of IPv4.
static NOT_PUBLIC_V6: LazyLock<Networks> = LazyLock::new(|| {
    let networks = "2001::/23,2001:db8::/32,2002::/16,3fff::/20";
    Networks::parse(networks).expect("these are networks")
});

impl Allowed {
    /// Reads a list.
    ///
    /// # Errors
    /// A message, if an item is no host, address or network.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut allowed = Self::default();
        let mut networks = vec![];
        for item in items(text) {
            let is_name =
                item.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
                    && item.bytes().any(|byte| byte.is_ascii_alphabetic());
            match is_name {
                true => allowed.hosts.push(bare(item)),
                false => networks.push(item),
            }
        }
        allowed.networks = Networks::parse(&networks.join(",")).map_err(|_| {
            "expected hosts, addresses or networks such as rewards.internal or 10.1.0.0/16, with commas between them"
                .to_owned()
        })?;
        Ok(allowed)
    }

    /// True if a receiver of this name may have this address.
    pub fn permits(&self, host: &str, address: IpAddr) -> bool {
        is_public(address)
            || self.networks.contain(address)
            || self.hosts.iter().any(|allowed| *allowed == bare(host))
    }
}

/// A name in lower case, without the dot of the root.
fn bare(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// True for an address that anyone may reach, and that is no part of another network: not private,
/// loopback, link-local, multicast, shared or reserved, nor an address of IPv6 that leads to one.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC.contain(address.into())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let is_global_unicast = address.octets()[0] & 0b1110_0000 == 0b0010_0000;
    is_global_unicast && !NOT_PUBLIC_V6.contain(address.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_has_a_public_address_unless_another_one_is_allowed() {
        for public in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:9.9.9.9"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        let other = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "::127.0.0.1",
        ];
        let allowed = Allowed::parse("10.0.0.0/8, Rewards.Internal, ::1").unwrap();
        for address in other {
            let address: IpAddr = address.parse().unwrap();
            assert!(!is_public(address), "{address}");
            assert!(!Allowed::default().permits("rewards.internal", address), "{address}");
            assert!(allowed.permits("rewards.internal.", address), "{address}");
        }
        assert!(allowed.permits("game.example", "10.9.9.9".parse().unwrap()));
        assert!(allowed.permits("game.example", "::1".parse().unwrap()));
        assert!(!allowed.permits("game.example", "192.168.0.1".parse().unwrap()));
        assert!(!allowed.permits("not.rewards.internal", "192.168.0.1".parse().unwrap()));
    }

    #[test]
    fn an_allowed_receiver_is_a_host_or_a_network() {
        for wrong in ["10.0.0.0/33", "https://x.example", "a b", "10.0.0"] {
            assert!(Allowed::parse(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
        assert_eq!(Allowed::parse(""), Ok(Allowed::default()));
    }
}
