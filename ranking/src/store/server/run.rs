//! Which run of a server answers: who tells its id, and the name that an operator may give it.

use std::fmt;
use std::str::FromStr;

use redis::{ErrorKind, RedisError};

use crate::error::{Error, Result};
use crate::store::has_code;

/// The most characters of a name.
const NAME_LENGTH_MAX: usize = 64;

/// The codes of errors that Redis itself gives. A proxy's own errors have others: they may stand
/// for an answer that it lost.
const CODES_OF_REDIS: [&str; 17] = [
    "ASK",
    "BUSY",
    "BUSYGROUP",
    "CLUSTERDOWN",
    "EXECABORT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "WRONGTYPE",
];

/// The one who tells which run of a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// `INFO`, for as long as the connection lasts.
    Info,
    /// A script, with each request: a proxy keeps `INFO` back, and may keep a connection while the
    /// server behind it restarts.
    Script,
    /// The operator, by a name: the server keeps `INFO` back, from scripts as well.
    Operator,
}

/// A name for the present run of Redis, where Redis does not tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName(String);

impl FromStr for RunName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins_well && text.len() <= NAME_LENGTH_MAX && text.chars().all(is_plain) {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::invalid(format!(
            "invalid name of a run: expected 1 to {NAME_LENGTH_MAX} characters from A-Z, a-z, 0-9, _, -, . and :, the first one a letter or a digit"
        )))
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RunName {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The run id in an answer to `INFO`.
pub(super) fn run_id_of(info: &str) -> Option<&str> {
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::trim);
    run_id.filter(|run_id| !run_id.is_empty())
}

/// An error as it counts behind a proxy: one that is not Redis' own is no answer.
pub(super) fn unless_of_redis(error: RedisError) -> RedisError {
    let is_of_server = error.clone().into_server_errors().is_some();
    if !is_of_server || has_code(&error, &CODES_OF_REDIS) {
        return error;
    }
    let said = error.to_string();
    (ErrorKind::Io, "the way to Redis answers for it", said).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_run_is_one_plain_word() {
        for good in ["1", "2026-11-27.2", "r:9_b", &"x".repeat(64)] {
            assert_eq!(good.parse::<RunName>().unwrap().as_str(), good);
        }
        for bad in ["", "-", "?", "-1", "a b", "a\n", "ä", &"x".repeat(65)] {
            let refused = bad.parse::<RunName>().unwrap_err().to_string();
            assert!(refused.contains("expected 1 to 64 characters"), "{bad:?}: {refused}");
        }
    }

    #[test]
    fn an_info_without_a_run_id_tells_none() {
        assert_eq!(run_id_of("# Server\r\nrun_id:ab1\r\nredis_mode:x\r\n"), Some("ab1"));
        for silent in ["", "run_id:\r\n", "redis_version:7.0.0\r\n"] {
            assert_eq!(run_id_of(silent), None, "{silent:?}");
        }
    }

    #[test]
    fn only_an_error_of_redis_itself_is_an_answer_behind_a_proxy() {
        let of = |code: &str| {
            let error = redis::make_extension_error(code.to_owned(), Some("a reason".to_owned()));
            assert!(error.clone().into_server_errors().is_some(), "{code}");
            unless_of_redis(error)
        };
        for own in ["OOM", "NOSCRIPT", "WRONGTYPE", "READONLY"] {
            assert!(!of(own).is_io_error(), "{own}");
        }
        for other in ["ERR", "upstream", "-"] {
            assert!(of(other).is_io_error(), "{other}");
        }
    }
}
