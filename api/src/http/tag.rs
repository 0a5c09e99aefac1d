//! Entity tags: what a client has already.

use axum::http::{HeaderMap, header};

/// Whether the client has what that tag names. A tag that it calls weak is as good, as nothing but whole answers is compared.
pub fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}
