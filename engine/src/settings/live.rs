//! Settings of subscriptions: sockets and event streams, what one may hold, and how long it lives.

use std::time::Duration;

use super::ConnectionSettings;
use super::connections::{FILES_RESERVED, within_files};

/// The most sockets where the process may open many files.
const SOCKETS_DEFAULT: u64 = 10_000;

/// The fewest sockets, however few files the process may open.
const SOCKETS_LEAST: u64 = 16;

/// The limits of subscriptions. A socket is a WebSocket or an event stream (SSE).
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Subscriptions")]
pub struct LiveSettings {
    /// The sockets that clients may hold besides connections, 1 to 1000000. By default the files
    /// that the process may open (ulimit -n) less 128 and LAUREL_CONNECTIONS_MAX, 16 at least and
    /// at most 10000.
    #[arg(long, env = "LAUREL_SOCKETS_MAX", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub sockets_max: Option<u64>,
    /// The sockets that one address may hold; of IPv6 a network of 56 bits counts as one address.
    #[arg(long, env = "LAUREL_ADDRESS_SOCKETS_MAX", default_value_t = 1000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub address_sockets_max: u32,
    /// The operations that a WebSocket may have under way at a time.
    #[arg(long, env = "LAUREL_SOCKET_SUBSCRIPTIONS_MAX", default_value_t = 20, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub socket_subscriptions_max: u32,
    /// The longest message that a WebSocket may send, in bytes.
    #[arg(long, env = "LAUREL_SOCKET_MESSAGE_BYTES_MAX", default_value_t = 64 << 10, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..=16 << 20))]
    pub socket_message_bytes_max: u32,
    /// The memory for the documents and the answers of subscriptions, in bytes. A client may hold
    /// as much of it as it leaves free.
    #[arg(long, env = "LAUREL_SUBSCRIPTIONS_BYTES", default_value_t = 256 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1 << 20..=64 << 30))]
    pub subscriptions_bytes: u64,
    /// The longest answer of a subscription, in bytes.
    #[arg(long, env = "LAUREL_PUSH_BYTES_MAX", default_value_t = 256 << 10, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..=16 << 20))]
    pub push_bytes_max: u32,
    /// The most that one answer of a subscription may cost, in points. The server makes one after
    /// each change.
    #[arg(long, env = "LAUREL_PUSH_COST_MAX", default_value_t = 50_000, value_name = "POINTS", value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub push_cost_max: u32,
    /// The time in which a WebSocket must send connection_init, in milliseconds.
    #[arg(long, env = "LAUREL_SOCKET_INIT_TIMEOUT_MS", default_value_t = 3000, value_name = "MS", value_parser = clap::value_parser!(u32).range(10..=600_000))]
    pub socket_init_timeout_ms: u32,
    /// The time after which a silent WebSocket is pinged, and within which it must answer; an event
    /// stream gets a comment as often. In milliseconds.
    #[arg(long, env = "LAUREL_SOCKET_PING_MS", default_value_t = 20_000, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=600_000))]
    pub socket_ping_ms: u32,
    /// The time that a socket may live, in seconds. Its client may connect again at once.
    #[arg(long, env = "LAUREL_SOCKET_LIFETIME_SECONDS", default_value_t = 86_400, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    pub socket_lifetime_seconds: u32,
}

impl LiveSettings {
    /// The sockets that clients may hold.
    ///
    /// # Errors
    /// `Invalid` if connections, or sockets beside them, may be more than the process may open
    /// files.
    pub fn sockets_max(&self, connections: &ConnectionSettings) -> ranking::Result<usize> {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let sockets = sockets_max(self.sockets_max, files, connections.connections_max()?);
        sockets.map_err(ranking::Error::Invalid)
    }

    /// The time in which a WebSocket must begin.
    pub fn init_timeout(&self) -> Duration {
        Duration::from_millis(self.socket_init_timeout_ms.into())
    }

    /// The time between pings.
    pub fn ping_interval(&self) -> Duration {
        Duration::from_millis(self.socket_ping_ms.into())
    }

    /// The time that a socket may live.
    pub fn lifetime(&self) -> Duration {
        Duration::from_secs(self.socket_lifetime_seconds.into())
    }
}

/// The number of sockets of a process that may open so many files, `None` for any number, of which
/// connections take a part.
fn sockets_max(set: Option<u64>, files: Option<u64>, connections: usize) -> Result<usize, String> {
    let taken = FILES_RESERVED + connections as u64;
    let most = files.map(|files| files.saturating_sub(taken).max(SOCKETS_LEAST));
    let less = format!("{FILES_RESERVED} and LAUREL_CONNECTIONS_MAX");
    within_files(("LAUREL_SOCKETS_MAX", set), (most, SOCKETS_DEFAULT), &less)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_get_the_files_that_connections_leave() {
        assert_eq!(sockets_max(None, Some(1024), 896), Ok(16));
        assert_eq!(sockets_max(None, Some(4096), 1024), Ok(4096 - 1024 - 128));
        assert_eq!(sockets_max(None, Some(1 << 20), 1024), Ok(10_000));
        assert_eq!(sockets_max(None, None, 1024), Ok(10_000));
        assert_eq!(sockets_max(Some(2944), Some(4096), 1024), Ok(2944));
        assert_eq!(sockets_max(Some(16), Some(1024), 896), Ok(16));
        assert_eq!(sockets_max(Some(50_000), None, 1024), Ok(50_000));
        let refused = sockets_max(Some(2945), Some(4096), 1024).unwrap_err();
        assert!(refused.contains("2945: expected at most 2944"), "{refused}");
    }
}
