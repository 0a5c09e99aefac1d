//! Persisted queries, in the protocol of Apollo's clients. A client sends a query once together
//! with the SHA-256 of its text. From then on the hash alone makes a URL that is short enough for
//! GET, which other caches can keep.
//!
//! Each process keeps its own queries, as many as fit; one that is asked often is not replaced by
//! those that are asked seldom. A client that gets `PersistedQueryNotFound` sends the text again.

use std::sync::Arc;

use async_graphql::{Request, Value};
use moka::sync::Cache;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorCode, Result};

/// The SHA-256 of a query's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueryHash([u8; 32]);

/// The cache of persisted queries.
pub struct PersistedQueries {
    queries: Cache<QueryHash, Arc<str>>,
    query_bytes_max: usize,
}

impl QueryHash {
    /// The hash in the extension `persistedQuery` of a request, if it has one.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` if it is malformed, or of another version of the protocol.
    pub fn of_extension(named: Option<&Value>) -> Result<Option<Self>> {
        let hash = match named {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(fields)) if fields.get("version") == Some(&Value::from(1)) => {
                match fields.get("sha256Hash") {
                    Some(Value::String(hash)) => Self::parse(hash),
                    _ => None,
                }
            }
            Some(_) => None,
        };
        hash.map(Some).ok_or_else(|| {
            Error::bad_input(
                "invalid persistedQuery: expected version 1 and a sha256Hash of 64 lower-case hexadecimal digits",
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(hash))
    }
}

impl PersistedQueries {
    /// Starts empty, and keeps up to `bytes_max` bytes of queries, each of at most
    /// `query_bytes_max`.
    pub fn new(bytes_max: u64, query_bytes_max: usize) -> Self {
        let bytes = |_: &QueryHash, query: &Arc<str>| query.len() as u32 + 128;
        let queries = Cache::builder().max_capacity(bytes_max).weigher(bytes).build();
        Self { queries, query_bytes_max }
    }

    /// Fills in the query of a request that has only a hash. If a request has both, checks that
    /// they belong together.
    ///
    /// # Errors
    /// `PERSISTED_QUERY_NOT_FOUND` if no query of the hash is known, `LIMIT_EXCEEDED` if the query
    /// is too long to keep, `BAD_USER_INPUT` if the hash is that of another query.
    pub fn complete(&self, request: &mut Request, hash: QueryHash) -> Result<()> {
        if request.query.is_empty() {
            let query = self.queries.get(&hash).ok_or_else(|| {
                // Clients look for this text.
                Error::new(ErrorCode::PersistedQueryNotFound, "PersistedQueryNotFound")
            })?;
            request.query = query.as_ref().to_owned();
            return Ok(());
        }
        if request.query.len() > self.query_bytes_max {
            return Err(Error::limit_exceeded(format!(
                "the query has {} bytes: expected at most {}",
                request.query.len(),
                self.query_bytes_max
            )));
        }
        if Sha256::digest(&request.query)[..] != hash.0 {
            return Err(Error::bad_input(
                "invalid persistedQuery: expected the sha256Hash of the query",
            ));
        }
        Ok(())
    }

    /// Keeps a query that belongs to the hash and has passed all checks.
    pub fn keep(&self, hash: QueryHash, query: &str) {
        if self.queries.get(&hash).is_none() {
            self.queries.insert(hash, query.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_in_use_is_not_pushed_out_by_others() {
        let persisted = PersistedQueries::new(64 << 10, 32 << 10);
        let hash = |number: u64| QueryHash(Sha256::digest(number.to_le_bytes()).into());
        let complete = |number| persisted.complete(&mut Request::new(""), hash(number)).is_ok();
        persisted.keep(hash(0), "{__typename}");
        for number in 1..5000 {
            assert!(complete(0), "after {number} others");
            // A stranger sends each of its own three times.
            persisted.keep(hash(number), &"x".repeat(1000));
            complete(number);
            complete(number);
            persisted.queries.run_pending_tasks();
        }
        assert!(persisted.queries.weighted_size() <= 64 << 10);
    }
}
