//! The id that a client or a proxy gives a request: it is in each line of the log about the
//! request, and in the answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use tracing::Instrument;

/// The header that has the id.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The id of a request. One that is too long, or has other characters than letters, digits and
/// `._:+/=-`, is passed over.
pub fn id_of(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(&REQUEST_ID).filter(|id| is_id(id)).cloned()
}

/// Answers a request under its id.
pub(super) async fn under_id(
    id: Option<HeaderValue>,
    answering: impl Future<Output = Response>,
) -> Response {
    let Some(id) = id else { return answering.await };
    let span = tracing::error_span!("request", id = id.to_str().unwrap_or_default());
    let mut answer = answering.instrument(span).await;
    answer.headers_mut().insert(REQUEST_ID, id);
    answer
}

fn is_id(id: &HeaderValue) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:+/=-".contains(byte);
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.as_bytes().iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_plain() {
        let is_id = |text: &str| HeaderValue::from_str(text).is_ok_and(|id| super::is_id(&id));
        assert!(is_id("4f1c-A_".trim_end_matches('_')) && is_id("a/b:c+d=e.f"));
        assert!(
            is_id(&"x".repeat(REQUEST_ID_BYTES_MAX))
                && !is_id(&"x".repeat(REQUEST_ID_BYTES_MAX + 1))
        );
        for text in ["", "a b", "a\"b", "{}", "a,b", "é"] {
            assert!(!is_id(text), "{text}");
        }
    }
}
