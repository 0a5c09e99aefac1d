//! Identifiers: members, events, boards, partitions. Text is checked once, here.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::text::check_key;

/// The longest member or event id, in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// The longest name of a source, in bytes.
pub const SOURCE_BYTES_MAX: usize = 64;

/// An entrant of a leaderboard: 1 to 128 bytes of UTF-8 without control characters. Cheap to clone;
/// ordered by bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(Arc<str>);

/// The client's name for an event, so that an event sent twice counts once: 1 to 128 bytes without
/// control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(Arc<str>);

/// The client's name for a source of scores, such as a topic: 1 to 64 bytes without control
/// characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceName(Arc<str>);

/// A board's number, never reused: a board that is deleted and created again under the same slug
/// gets another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BoardNo(pub i64);

/// A unit of data and atomicity, with a Redis hash tag, a log and a head; 0-based.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionNo(pub u16);

macro_rules! checked_text {
    ($name:ident, $what:literal) => {
        impl $name {
            /// Checks and stores the text.
            ///
            /// # Errors
            /// `Invalid` unless it has 1 to 128 bytes and no control characters.
            pub fn new(text: &str) -> Result<Self> {
                check_id($what, text)?;
                Ok(Self(text.into()))
            }

            /// Checks and stores the text of a new one, which has to be fit for people, too. Older
            /// ones stay readable by [`Self::new`].
            ///
            /// # Errors
            /// As [`Self::new`], and [`check_key`].
            pub fn for_new(text: &str) -> Result<Self> {
                check_id($what, text)?;
                check_key($what, text)?;
                Ok(Self(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked_text!(MemberId, "member");
checked_text!(EventId, "event id");

impl SourceName {
    /// Checks and stores the text.
    ///
    /// # Errors
    /// `Invalid` unless it has 1 to 64 bytes and no control characters.
    pub fn new(text: &str) -> Result<Self> {
        if text.len() > SOURCE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "invalid source of {} bytes: expected 1 to {SOURCE_BYTES_MAX}",
                text.len()
            )));
        }
        check_id("source", text)?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BoardNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<PartitionNo> for i32 {
    fn from(no: PartitionNo) -> Self {
        no.0.into()
    }
}

impl fmt::Display for PartitionNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Checks a board's slug: `[a-z0-9][a-z0-9_-]{0,63}`.
///
/// # Errors
/// `Invalid` for any other text.
pub fn check_slug(slug: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = slug.as_bytes();
    let fits = (1..=64).contains(&bytes.len())
        && plain(bytes[0])
        && bytes[1..].iter().all(|&byte| plain(byte) || byte == b'_' || byte == b'-');
    if fits {
        return Ok(());
    }
    Err(Error::invalid(
        "invalid slug: expected 1 to 64 characters from a-z, 0-9, _ and -, the first a letter or digit",
    ))
}

fn check_id(what: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > ID_BYTES_MAX {
        return Err(Error::invalid(format!(
            "invalid {what} of {} bytes: expected 1 to {ID_BYTES_MAX}",
            text.len()
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "invalid {what}: expected text without control characters"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_1_to_128_bytes_and_no_control_characters() {
        for good in ["a", "ü:%{}\u{1F3C6}", &"x".repeat(128)] {
            assert!(MemberId::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a\nb", "\u{0}", "\u{85}", &"x".repeat(129), &"ü".repeat(65)] {
            assert!(MemberId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_new_id_is_fit_for_people_and_an_older_one_stays_readable() {
        for hidden in [" ", "ann\u{200B}", "\u{202E}nna", "a\u{2028}b"] {
            assert!(MemberId::new(hidden).is_ok(), "{hidden:?}");
            assert!(MemberId::for_new(hidden).is_err(), "{hidden:?}");
            assert!(EventId::for_new(hidden).is_err(), "{hidden:?}");
        }
        assert!(MemberId::for_new("a\nb").unwrap_err().to_string().contains("control"));
        assert!(MemberId::for_new(&"x".repeat(129)).is_err());
        assert!(MemberId::for_new("ann").is_ok());
    }

    #[test]
    fn a_slug_is_lower_case_and_starts_plainly() {
        for good in ["a", "0", "rust-analyzer", "a_b", &"a".repeat(64)] {
            assert!(check_slug(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a b", "a.b", "é", &"a".repeat(65)] {
            assert!(check_slug(bad).is_err(), "{bad}");
        }
    }
}
