//! Settings of the server and its background work.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::limits::Switch;

/// The server's address, and access without a token.
#[derive(Debug, Clone, clap::Args)]
pub struct HttpSettings {
    /// The address to listen on.
    #[arg(long, env = "LAUREL_LISTEN", default_value = "127.0.0.1:8000", value_name = "HOST:PORT", value_parser = parse_address)]
    pub listen: SocketAddr,
    /// Lets anyone read public boards without an access token.
    #[arg(long, env = "LAUREL_PUBLIC_READS", default_value_t = true, action = clap::ArgAction::Set)]
    pub public_reads: bool,
    /// The clients that search for members, and see their friends and histories: public (all),
    /// tokens (searches with any access token, the rest for the member itself and for services), or
    /// self (searches for moderators only).
    #[arg(long, env = "LAUREL_MEMBERS", default_value = "tokens", value_name = "WHO")]
    pub members: MembersFor,
    /// The consent that a friendship needs: server (that of either member, or of the game's server)
    /// or mutual-consent (that of both members; a service makes friends at once).
    #[arg(long, env = "LAUREL_FRIENDSHIPS", default_value = "server", value_name = "CONSENT")]
    pub friendships: Friendships,
    /// Leaves the background work to `laurel worker`.
    #[arg(long)]
    pub no_workers: bool,
}

/// Parses an address to listen on.
///
/// # Errors
/// A message with the accepted form.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an IP address and a port, such as 127.0.0.1:9000 or [::1]:9000".to_owned()
    })
}

/// The clients that search for members, and see their friends and histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MembersFor {
    /// All clients.
    Public,
    /// Searches for clients with an access token; the rest for the member itself, and for tokens
    /// that need it.
    Tokens,
    /// As above, and searches for moderators.
    #[value(name = "self")]
    Itself,
}

/// The consent that a friendship needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Friendships {
    /// That of one: each token of scope friends makes friends at once.
    Server,
    /// That of both members. A service makes friends at once.
    MutualConsent,
}

/// The sizes of the server's caches, and the age of their contents.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Caches")]
pub struct CacheSettings {
    /// The age that a cached page or answer may reach, in milliseconds, 0 to 250. At 0 a read never
    /// serves an earlier read; identical requests that arrive while one is under way share the next
    /// read.
    #[arg(long, env = "LAUREL_CACHE_AGE_MS", default_value_t = 250, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=250))]
    pub cache_age_ms: u64,
    /// The memory for the first pages of standings, in bytes; 0 switches this cache off.
    #[arg(long, env = "LAUREL_PAGE_CACHE_BYTES", default_value_t = 64 << 20, value_name = "BYTES")]
    pub page_cache_bytes: u64,
    /// The memory for whole answers to public queries, in bytes; 0 switches this cache off. By
    /// default it leaves room for the longest answer in the memory for long answers.
    #[arg(long, env = "LAUREL_ANSWER_CACHE_BYTES", default_value_t = 16 << 20, value_name = "BYTES")]
    pub answer_cache_bytes: u64,
    /// The server keeps answers to access tokens, too, each for its own token: on or off. At off,
    /// each read with a token asks the stores, but for the first pages of standings.
    #[arg(long, env = "LAUREL_TOKEN_ANSWERS", default_value = "on", value_name = "SWITCH")]
    pub token_answers: Switch,
    /// The memory for persisted queries, in bytes; 0 keeps none.
    #[arg(long, env = "LAUREL_PERSISTED_QUERIES_BYTES", default_value_t = 16 << 20, value_name = "BYTES")]
    pub persisted_queries_bytes: u64,
}

/// The time and the program of the daily diff.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Daily diff")]
pub struct DailyDiffSettings {
    /// The time of day, in UTC, at which the background work compares history, SQL and Redis of all
    /// boards; off for never.
    #[arg(long, env = "LAUREL_DIFF_AT", default_value = "03:30", value_name = "HH:MM", value_parser = DiffAt::parse)]
    pub diff_at: DiffAt,
    /// The program of batch jobs. By default laurel-analytics beside this program.
    #[arg(long, env = "LAUREL_ANALYTICS", value_name = "FILE")]
    pub analytics: Option<PathBuf>,
}

/// When the daily diff is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffAt {
    /// Never.
    Off,
    /// At a minute of each day, in UTC.
    Minute(u16),
}

impl DiffAt {
    /// Reads `HH:MM`, or `off`.
    fn parse(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let minute = || {
            let (hour, minute) = text.split_once(':')?;
            let has_two =
                |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            if !has_two(hour) || !has_two(minute) {
                return None;
            }
            let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some(Self::Minute(hour * 60 + minute))
        };
        minute().ok_or_else(|| {
            format!("invalid time of day {text:?}: expected 00:00 to 23:59, in UTC, or off")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_has_two_digits_twice() {
        assert_eq!(DiffAt::parse("00:00"), Ok(DiffAt::Minute(0)));
        assert_eq!(DiffAt::parse("03:30"), Ok(DiffAt::Minute(210)));
        assert_eq!(DiffAt::parse("23:59"), Ok(DiffAt::Minute(1439)));
        assert_eq!(DiffAt::parse("off"), Ok(DiffAt::Off));
        for wrong in ["", "3:30", "24:00", "12:60", "+1:00", "0330", "03:30:00", "OFF", "noon"] {
            assert!(DiffAt::parse(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }
}
