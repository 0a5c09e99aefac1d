//! The headers that every answer has, the hosts and origins that may ask, and compression.

use std::time::Duration;

use axum::Router;
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    ETAG, HOST, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use axum::response::{Html, IntoResponse};
use engine::settings::connections::{Hosts, Origins};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// The shortest answer that is compressed, in bytes.
const COMPRESSED_BYTES_MIN: u64 = 1024;

/// How long a browser may remember that an origin may ask, in seconds.
const CORS_AGE_S: u64 = 86_400;

/// The policy of answers that are no pages: nothing in them is loaded, and no page frames them.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// The policy of the front page, which has a style and no script.
const FRONT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The front page.
pub async fn front() -> impl IntoResponse {
    ([(CONTENT_SECURITY_POLICY, FRONT_POLICY)], Html(include_str!("pages/index.html")))
}

/// Compresses the answers of routes for the clients that accept it.
pub fn compressed<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    let compression = CompressionLayer::new().quality(CompressionLevel::Fastest);
    router.layer(compression.compress_when(SizeAbove::new(COMPRESSED_BYTES_MIN)))
}

/// Lets pages of some origins send requests.
pub fn shared(router: Router, origins: Option<&Origins>) -> Router {
    let allowed = match origins {
        None => return router,
        Some(Origins::Any) => AllowOrigin::any(),
        Some(Origins::Named(origins)) => AllowOrigin::list(
            origins.iter().map(|origin| origin.parse().expect("an origin is visible ASCII")),
        ),
    };
    let of_cost = HeaderName::from_static("x-laurel-cost");
    let cors = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([ACCEPT, AUTHORIZATION, CONTENT_TYPE, of_cost])
        .expose_headers([ETAG, RETRY_AFTER])
        .max_age(Duration::from_secs(CORS_AGE_S));
    router.layer(cors)
}

/// True if a request names a host that it may. A request without a name comes from no browser.
pub fn names_allowed_host<B>(request: &Request<B>, hosts: &Hosts) -> bool {
    if *hosts == Hosts::Any {
        return true;
    }
    let in_line = request.uri().authority().map(|authority| authority.host());
    let headers = request.headers().get_all(HOST).iter();
    let mut named = headers.map(|host| host.to_str().unwrap_or_default()).chain(in_line);
    named.all(|host| hosts.allows(host))
}

/// Adds the headers that guard every answer, unless it has its own.
pub fn guard(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    weaken_tag(headers);
}

/// Makes the tag of an answer that was compressed on its way a weak one, as its bytes are others. A
/// file that is stored compressed has a length, and a tag of its own.
fn weaken_tag(headers: &mut HeaderMap) {
    let on_its_way =
        headers.contains_key(CONTENT_ENCODING) && !headers.contains_key(CONTENT_LENGTH);
    if on_its_way
        && let Some(tag) = headers.get(ETAG)
        && !tag.as_bytes().starts_with(b"W/")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        headers.insert(ETAG, weak);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().cloned();
        pairs.map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn every_answer_is_guarded_and_a_page_keeps_its_policy() {
        let mut plain = HeaderMap::new();
        guard(&mut plain);
        assert_eq!(plain[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(plain[CONTENT_SECURITY_POLICY], POLICY);
        let mut page = headers(&[(CONTENT_SECURITY_POLICY, "default-src 'self'")]);
        guard(&mut page);
        assert_eq!(page[CONTENT_SECURITY_POLICY], "default-src 'self'");
    }

    #[test]
    fn only_an_answer_that_was_compressed_on_its_way_has_a_weak_tag() {
        for (answer, tag) in [
            (&[(ETAG, "\"a\"")][..], "\"a\""),
            (&[(ETAG, "\"a\""), (CONTENT_ENCODING, "gzip")][..], "W/\"a\""),
            (&[(ETAG, "W/\"a\""), (CONTENT_ENCODING, "gzip")][..], "W/\"a\""),
            (&[(ETAG, "\"a\""), (CONTENT_ENCODING, "gzip"), (CONTENT_LENGTH, "9")][..], "\"a\""),
        ] {
            let mut answer = headers(answer);
            guard(&mut answer);
            assert_eq!(answer[ETAG], tag);
        }
    }

    #[test]
    fn each_host_that_a_request_names_must_be_allowed() {
        let names = |uri: &str, hosts: &[&'static str]| {
            let mut request = Request::builder().uri(uri);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            names_allowed_host(&request.body(()).unwrap(), &Hosts::Loopback)
        };
        assert!(names("/", &["localhost:8000"]));
        assert!(names("/", &[]));
        assert!(names("http://127.0.0.1:8000/", &["127.0.0.1:8000"]));
        assert!(!names("/", &["evil.example"]));
        assert!(!names("/", &["localhost", "evil.example"]));
        assert!(!names("http://evil.example/", &["localhost"]));
    }
}
