//! The headers that every answer has, the hosts and origins that may ask, and compression.

use std::time::Duration;

use super::request_id::REQUEST_ID;
use super::response::preference::Preference;
use axum::Router;
use axum::body::HttpBody;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HOST, ORIGIN, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use engine::settings::connections::{Hosts, Origins};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// The shortest answer that is compressed, in bytes.
const COMPRESSED_BYTES_MIN: u64 = 1024;

/// The longest answer that is compressed, in bytes: one is compressed at a stretch.
const COMPRESSED_BYTES_MAX: u64 = 1 << 20;

/// The longest `Accept-Encoding` that is read, in bytes.
const CODINGS_BYTES_MAX: usize = 1024;

/// How long a browser may remember that an origin may ask, in seconds.
const CORS_AGE_S: u64 = 86_400;

/// The policy of answers that are no pages: nothing in them is loaded, and no page frames them.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// Compresses answers for the clients that accept it.
pub fn compression() -> CompressionLayer<impl Predicate> {
    let compression = CompressionLayer::new().quality(CompressionLevel::Fastest);
    // Events must not wait in a compressor for those that follow.
    let compressible = SizeAbove::new(COMPRESSED_BYTES_MIN).and(NotForContentType::SSE);
    compression.compress_when(compressible.and(SizeUpTo(COMPRESSED_BYTES_MAX)))
}

/// True for answers of up to so many bytes, and for those whose length is not known.
#[derive(Clone)]
struct SizeUpTo(u64);

impl Predicate for SizeUpTo {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        response.body().size_hint().exact().is_none_or(|bytes| bytes <= self.0)
    }
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
        .allow_headers([ACCEPT, AUTHORIZATION, CONTENT_TYPE, of_cost, REQUEST_ID])
        .expose_headers([ETAG, RETRY_AFTER, REQUEST_ID])
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

/// True if a request comes from no page, from a page of this server, or from one of an origin that
/// may ask. A browser sends the origin with each WebSocket, and asks for no permission before.
pub fn is_own_or_allowed_origin(headers: &HeaderMap, origins: Option<&Origins>) -> bool {
    let named: Vec<&str> =
        headers.get_all(ORIGIN).iter().map(|origin| origin.to_str().unwrap_or_default()).collect();
    let hosts = headers.get(HOST).and_then(|host| host.to_str().ok());
    named.iter().all(|origin| match origins {
        Some(Origins::Any) => true,
        Some(Origins::Named(allowed)) if allowed.iter().any(|one| one == origin) => true,
        _ => hosts.is_some_and(|host| is_origin_of(origin, host)),
    })
}

/// True if an origin is that of a host. Browsers leave a scheme's own port out of both.
fn is_origin_of(origin: &str, host: &str) -> bool {
    let without = |scheme: &str, port: &str| {
        let authority = origin.strip_prefix(scheme)?;
        let host = host.strip_suffix(port).unwrap_or(host);
        Some(authority.strip_suffix(port).unwrap_or(authority).eq_ignore_ascii_case(host))
    };
    without("https://", ":443").or_else(|| without("http://", ":80")).unwrap_or(false)
}

/// Takes from a client the wish not to get an answer as it is: the compressor would refuse that
/// with 406, once the request was carried out. Such a client gets gzip if it accepts it.
pub fn accept_identity(headers: &mut HeaderMap) {
    let lengths = headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::len);
    if lengths.sum::<usize>() > CODINGS_BYTES_MAX {
        headers.remove(ACCEPT_ENCODING);
    }
    let Some(codings) = Preference::of(headers, ACCEPT_ENCODING) else { return };
    if !codings.refuses(&["identity", "*"]) {
        return;
    }
    match codings.welcomes("gzip") {
        Some(_) => headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip")),
        None => headers.remove(ACCEPT_ENCODING),
    };
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
    fn no_coding_makes_an_answer_unacceptable() {
        let long = Box::leak("gzip,".repeat(CODINGS_BYTES_MAX / 5 + 1).into_boxed_str());
        for (wish, left) in [
            ("identity;q=0", None),
            ("*;q=0", None),
            ("*;q=0, br", None),
            ("identity;q=0, gzip;q=0, gzip;q=0.0", None),
            ("identity;q=0, gzip", Some("gzip")),
            ("*;q=0, gzip;q=0.1", Some("gzip")),
            ("gzip, identity;q=0.1", Some("gzip, identity;q=0.1")),
            ("gzip;q=0", Some("gzip;q=0")),
            (long, None),
        ] {
            let mut asked = headers(&[(ACCEPT_ENCODING, wish)]);
            accept_identity(&mut asked);
            let left_over = asked.get(ACCEPT_ENCODING).map(|value| value.to_str().unwrap());
            assert_eq!(left_over, left, "{wish}");
        }
    }

    #[test]
    fn a_page_of_another_origin_opens_no_websocket() {
        let is_allowed = |origin: &'static str, origins: Option<&Origins>| {
            let named = headers(&[(HOST, "scores.example:8000"), (ORIGIN, origin)]);
            is_own_or_allowed_origin(&named, origins)
        };
        let game = Origins::Named(vec!["https://game.example".to_owned()]);
        assert!(is_allowed("https://scores.example:8000", None));
        assert!(is_allowed("http://scores.example:8000", Some(&game)));
        assert!(is_allowed("https://game.example", Some(&game)));
        assert!(is_allowed("https://evil.example", Some(&Origins::Any)));
        assert!(is_own_or_allowed_origin(&HeaderMap::new(), None));
        for other in ["https://game.example", "https://scores.example", "null", ""] {
            assert!(!is_allowed(other, None), "{other}");
        }
        for other in ["https://evil.example", "http://game.example", "https://game.example:8000"] {
            assert!(!is_allowed(other, Some(&game)), "{other}");
        }
        let named = headers(&[(HOST, "scores.example"), (ORIGIN, "https://scores.example")]);
        assert!(is_own_or_allowed_origin(&named, None));
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
