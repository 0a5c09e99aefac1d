//! Entity tags, by which a client names the answers that it has.

use axum::http::{HeaderMap, HeaderValue, header};

/// True if the client has the answer of a tag. A tag that it calls weak is as good, as only whole
/// answers are compared.
pub fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .any(|known| known == "*" || tag == known.trim_start_matches("W/"))
}
