//! Relay pages: the requested part of a list, and the page cursors of standings.

use async_graphql::connection::{CursorType, DefaultConnectionName, DefaultEdgeName};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ranking::id::{BoardNo, MemberId};
use ranking::score::rank_key::RankKey;
use ranking::shown;
use ranking::standings_id::StandingsId;
use ranking::store::read::RankedEntry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The default length of a page.
pub const PAGE_DEFAULT: usize = 10;

/// The greatest length of a page.
pub const PAGE_MAX: usize = 1000;

/// The most states in one filter: each of them once.
const STATES_MAX: usize = 4;

/// A connection with the usual names and a total count.
pub type Connection<Node, Fields> = async_graphql::connection::Connection<
    PageCursor,
    Node,
    Fields,
    async_graphql::connection::EmptyFields,
    DefaultConnectionName,
    DefaultEdgeName,
>;

/// A page cursor: opaque text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCursor(pub String);

impl PageCursor {
    /// The cursor of a place in a list.
    pub fn of(place: &impl Serialize) -> Self {
        let json = serde_json::to_vec(place).expect("numbers and texts have a JSON form");
        Self(URL_SAFE_NO_PAD.encode(json))
    }

    /// The place that a cursor stands for.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` if the text is not a cursor of such a list.
    pub fn place<T: DeserializeOwned>(text: &str) -> Result<T> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| no_cursor(text))?;
        serde_json::from_slice(&bytes).map_err(|_| no_cursor(text))
    }
}

impl CursorType for PageCursor {
    type Error = std::convert::Infallible;

    fn decode_cursor(text: &str) -> std::result::Result<Self, Self::Error> {
        Ok(Self(text.to_owned()))
    }

    fn encode_cursor(&self) -> String {
        self.0.clone()
    }
}

/// The requested part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// The first `limit` items after a cursor, or of all.
    Forward {
        /// The most items.
        limit: usize,
        /// The cursor that the page comes after.
        after: Option<String>,
    },
    /// The last `limit` items before a cursor, or of all.
    Backward {
        /// The most items.
        limit: usize,
        /// The cursor that the page comes before.
        before: Option<String>,
    },
}

impl Page {
    /// Parses the four arguments of Relay. `first` is never absent, as the schema has a default
    /// for it; beside `last` or `before` the default means nothing.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` if they contradict each other, `LIMIT_EXCEEDED` for more than 1,000 items.
    pub fn new(
        first: Option<i32>,
        after: Option<String>,
        last: Option<i32>,
        before: Option<String>,
    ) -> Result<Self> {
        let is_chosen = |first| usize::try_from(first) != Ok(PAGE_DEFAULT);
        let forward = first.is_some_and(is_chosen) || after.is_some();
        let backward = last.is_some() || before.is_some();
        if forward && backward {
            return Err(Error::bad_input(
                "invalid page: expected first/after or last/before, not both",
            ));
        }
        if backward {
            return Ok(Self::Backward { limit: limit("last", last)?, before });
        }
        Ok(Self::Forward { limit: limit("first", first)?, after })
    }
}

/// Checks a requested number of items; [`PAGE_DEFAULT`] for none.
///
/// # Errors
/// `BAD_USER_INPUT` below 0, `LIMIT_EXCEEDED` above 1,000.
pub fn limit(name: &str, count: Option<i32>) -> Result<usize> {
    limit_or(name, count, PAGE_DEFAULT)
}

/// As [`limit`], with another default.
pub fn limit_or(name: &str, count: Option<i32>, default: usize) -> Result<usize> {
    let Some(count) = count else {
        return Ok(default);
    };
    let count = usize::try_from(count).map_err(|_| {
        Error::bad_input(format!("invalid {name} {count}: expected 0 to {PAGE_MAX}")).at(name)
    })?;
    if count > PAGE_MAX {
        return Err(Error::limit_exceeded(format!(
            "invalid {name} {count}: expected at most {PAGE_MAX}"
        ))
        .at(name));
    }
    Ok(count)
}

/// The states by which a list is filtered, or the default ones.
///
/// # Errors
/// `BAD_USER_INPUT` for more than [`STATES_MAX`].
pub(crate) fn states_or<S: Into<T>, T: Clone>(
    states: Option<Vec<S>>,
    default: &[T],
) -> Result<Vec<T>> {
    match states {
        Some(states) if states.len() > STATES_MAX => {
            let message = format!("too many states: expected at most {STATES_MAX}");
            Err(Error::bad_input(message).at("states"))
        }
        Some(states) => Ok(states.into_iter().map(Into::into).collect()),
        None => Ok(default.to_vec()),
    }
}

/// Stands for the rank key in the cursor of a member without an entry.
const NO_KEY: i64 = -1;

/// The beginning of a sealed key in a cursor.
const SEALED: char = '\u{1}';

/// A page cursor of standings: the place of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryCursor(i64, u32, String, String, String, i64, String);

impl EntryCursor {
    /// The cursor of an entry, or of a member without one.
    pub fn new(id: &StandingsId, key: Option<RankKey>, member: &MemberId) -> Self {
        Self::of(id, key, member.to_string())
    }

    /// The cursor of an entry whose member the client does not see, by its sealed key.
    pub fn sealed(id: &StandingsId, key: Option<RankKey>, sealed: &str) -> Self {
        // It is no member's: keys have no control characters.
        Self::of(id, key, format!("{SEALED}{sealed}"))
    }

    fn of(id: &StandingsId, key: Option<RankKey>, member: String) -> Self {
        Self(
            id.board.0,
            id.generation,
            id.segment.clone(),
            id.window.to_string(),
            id.period.clone(),
            key.map_or(NO_KEY, RankKey::to_i64),
            member,
        )
    }

    /// The sealed key, if the cursor has one.
    pub fn seal(&self) -> Option<&str> {
        self.6.strip_prefix(SEALED)
    }

    /// The cursor with the member whose key was sealed.
    pub fn opened(self, member: &MemberId) -> Self {
        Self(self.0, self.1, self.2, self.3, self.4, self.5, member.to_string())
    }

    /// The number and generation of the board.
    pub fn board(&self) -> (BoardNo, u32) {
        (BoardNo(self.0), self.1)
    }

    /// The segment and the window's name.
    pub fn list(&self) -> (&str, &str) {
        (&self.2, &self.3)
    }

    /// The period's label.
    pub fn period(&self) -> &str {
        &self.4
    }

    /// The member, if it is the cursor of one without an entry.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` if the client has altered the cursor.
    pub fn without_score(&self) -> Result<Option<MemberId>> {
        if self.5 != NO_KEY {
            return Ok(None);
        }
        let member = MemberId::new(&self.6).map_err(|_| no_cursor(&self.6))?;
        Ok(Some(member))
    }

    /// The place of the entry.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` if the client has altered the cursor.
    pub fn place(&self) -> Result<RankedEntry> {
        let tampered = |_| no_cursor(&self.6);
        Ok(RankedEntry {
            key: RankKey::from_i64(self.5).map_err(tampered)?,
            member: MemberId::new(&self.6).map_err(tampered)?,
        })
    }

    /// Encodes the cursor as text.
    pub fn encode(&self) -> PageCursor {
        PageCursor::of(self)
    }

    /// Decodes a cursor.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` if the text is not a cursor.
    pub fn decode(text: &str) -> Result<Self> {
        PageCursor::place(text)
    }
}

/// The error for a text that is not a page cursor of the list.
pub fn no_cursor(text: &str) -> Error {
    let shown = shown(text);
    Error::bad_input(format!(
        "invalid page cursor {shown}: expected one from pageInfo or an edge of this list"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn a_filter_has_each_state_once() {
        assert_eq!(states_or::<u8, u8>(None, &[7]).unwrap(), [7]);
        assert_eq!(states_or::<u8, u8>(Some(vec![1, 2, 3, 4]), &[7]).unwrap(), [1, 2, 3, 4]);
        let refused = states_or::<u8, u8>(Some(vec![1; 5]), &[7]).unwrap_err();
        assert_eq!(refused.code, ErrorCode::BadUserInput);
    }

    #[test]
    fn a_page_goes_one_way() {
        let page = |first, after: Option<&str>, last, before: Option<&str>| {
            Page::new(first, after.map(Into::into), last, before.map(Into::into))
        };
        assert_eq!(
            page(None, None, None, None).unwrap(),
            Page::Forward { limit: PAGE_DEFAULT, after: None }
        );
        assert_eq!(
            page(Some(0), Some("c"), None, None).unwrap(),
            Page::Forward { limit: 0, after: Some("c".into()) }
        );
        assert_eq!(
            page(Some(PAGE_DEFAULT as i32), None, Some(3), None).unwrap(),
            Page::Backward { limit: 3, before: None }
        );
        assert_eq!(
            page(Some(PAGE_DEFAULT as i32), None, None, Some("c")).unwrap(),
            Page::Backward { limit: PAGE_DEFAULT, before: Some("c".into()) }
        );
        for (first, after, last, before) in [
            (Some(1), None, Some(1), None),
            (Some(1), None, None, Some("c")),
            (None, Some("c"), Some(1), None),
            (Some(-1), None, None, None),
            (Some(1001), None, None, None),
            (None, None, Some(-5), None),
        ] {
            assert!(page(first, after, last, before).is_err());
        }
    }

    #[test]
    fn an_invalid_cursor_is_refused() {
        for text in ["", "x", "%", "W10", "bnVsbA"] {
            assert_eq!(
                EntryCursor::decode(text).unwrap_err().code,
                ErrorCode::BadUserInput,
                "{text}"
            );
        }
    }
}
