//! GraphiQL: a page and its assets, built from `api/web` and embedded in this program.
//!
//! npm provides GraphiQL, so the repository holds none of it. A program compiled without it serves
//! a page that says how to build it. The build compresses the files, and they are embedded so. For
//! the rare client that does not accept gzip, the server inflates a file once and keeps it: all
//! answers share its bytes.

use std::io::Read;
use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use flate2::read::GzDecoder;
use moka::sync::Cache;
use rust_embed::{Embed, EmbeddedFile};

use crate::http::response::preference::Preference;
use crate::http::response::tag;

/// The output of `npm run build` in `api/web`; empty if that has not run.
#[derive(Embed)]
#[folder = "web/dist"]
#[allow_missing = true]
struct Built;

/// The memory for inflated files, in bytes: more than all of them take.
const INFLATED_BYTES_MAX: u64 = 64 << 20;

/// The inflated files, by the hash of the embedded ones.
static INFLATED: LazyLock<Cache<u128, Bytes>> = LazyLock::new(|| {
    let bytes = |_: &u128, file: &Bytes| u32::try_from(file.len()).unwrap_or(u32::MAX);
    Cache::builder().max_capacity(INFLATED_BYTES_MAX).weigher(bytes).build()
});

/// Allows scripts, workers and requests of this server only. Monaco and React style elements by
/// attributes, hence the one `unsafe-inline`.
const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self' 'unsafe-inline'; \
    font-src 'self' data:; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Assets have a hash of their content in their names; the page that names them has none.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";

/// `/graphiql` and its assets.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/graphiql", get(page)).route("/graphiql/assets/{name}", get(asset))
}

async fn page(headers: HeaderMap) -> Response {
    match Built::get("index.html.gz") {
        Some(file) => answer(&headers, &file, "text/html; charset=utf-8", ASK_AGAIN),
        None => (guards(), Html(include_str!("graphiql.html"))).into_response(),
    }
}

async fn asset(headers: HeaderMap, Path(name): Path<String>) -> Response {
    let media_type = match name.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "ttf")) => "font/ttf",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    };
    match Built::get(&format!("assets/{name}.gz")) {
        Some(file) => answer(&headers, &file, media_type, FOR_EVER),
        None => (StatusCode::NOT_FOUND, guards()).into_response(),
    }
}

fn answer(
    headers: &HeaderMap,
    file: &EmbeddedFile,
    media_type: &'static str,
    caching: &'static str,
) -> Response {
    let gzip = Preference::of(headers, header::ACCEPT_ENCODING)
        .is_some_and(|preference| preference.welcomes("gzip").is_some());
    let hash = u128::from_be_bytes(
        *file.metadata.sha256_hash().first_chunk().expect("a hash has 32 bytes"),
    );
    // Each content coding is a representation of its own, with a tag of its own.
    let tag = format!("\"{hash:032x}-{}\"", if gzip { "gzip" } else { "plain" });
    let described = [
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::ETAG, HeaderValue::from_str(&tag).expect("a tag is ASCII")),
    ];
    if tag::is_known(headers, &tag) {
        return (StatusCode::NOT_MODIFIED, guards(), described).into_response();
    }
    let media_type = [(header::CONTENT_TYPE, media_type)];
    if gzip {
        let coding = [(header::CONTENT_ENCODING, "gzip")];
        return (guards(), described, media_type, coding, file.data.clone()).into_response();
    }
    (guards(), described, media_type, inflated(hash, &file.data)).into_response()
}

/// An embedded file as it was before the build compressed it.
fn inflated(hash: u128, file: &[u8]) -> Bytes {
    INFLATED.get_with(hash, || {
        let mut plain = Vec::new();
        GzDecoder::new(file).read_to_end(&mut plain).expect("the build wrote gzip");
        plain.into()
    })
}

/// The security headers of every response.
fn guards() -> [(HeaderName, &'static str); 3] {
    [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ]
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_file_is_inflated_once_for_all_clients() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"text").unwrap();
        let gzip = gzip.finish().unwrap();
        let first = inflated(1, &gzip);
        assert_eq!(first, "text");
        assert_eq!(inflated(1, &gzip).as_ptr(), first.as_ptr());
    }
}
