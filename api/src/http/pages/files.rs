//! Embedded files, sent as the build compressed them.
//!
//! For the rare client that does not accept gzip, the server inflates a file once and keeps it: all
//! answers share its bytes.

use std::io::Read;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use moka::sync::Cache;
use rust_embed::EmbeddedFile;

use crate::http::response::preference::Preference;
use crate::http::response::tag;

/// The memory for inflated files, in bytes: more than all of them take.
const INFLATED_BYTES_MAX: u64 = 64 << 20;

/// The inflated files, by the hash of the embedded ones.
static INFLATED: LazyLock<Cache<u128, Bytes>> = LazyLock::new(|| {
    let bytes = |_: &u128, file: &Bytes| u32::try_from(file.len()).unwrap_or(u32::MAX);
    Cache::builder().max_capacity(INFLATED_BYTES_MAX).weigher(bytes).build()
});

/// Assets have a hash of their content in their names; a page that names them has none.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";

/// Answers with a page.
pub fn page(headers: &HeaderMap, file: &EmbeddedFile, policy: &'static str) -> Response {
    answer(headers, file, policy, ("text/html; charset=utf-8", ASK_AGAIN))
}

/// Answers with the asset of a name; with 404 if there is none.
pub fn asset(
    headers: &HeaderMap,
    name: &str,
    file: Option<EmbeddedFile>,
    policy: &'static str,
) -> Response {
    let media_type = match name.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "ttf")) => "font/ttf",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    };
    match file {
        Some(file) => answer(headers, &file, policy, (media_type, FOR_EVER)),
        None => (StatusCode::NOT_FOUND, guards(policy)).into_response(),
    }
}

fn answer(
    headers: &HeaderMap,
    file: &EmbeddedFile,
    policy: &'static str,
    (media_type, caching): (&'static str, &'static str),
) -> Response {
    let gzip = Preference::of(headers, header::ACCEPT_ENCODING)
        .is_some_and(|preference| preference.welcomes("gzip").is_some());
    let hash = u128::from_be_bytes(
        *file.metadata.sha256_hash().first_chunk().expect("a hash has 32 bytes"),
    );
    // Each content coding is a representation of its own, with a tag of its own.
    let tag = format!("\"{hash:032x}-{}\"", if gzip { "gzip" } else { "plain" });
    let tag = HeaderValue::try_from(tag).expect("a tag is ASCII");
    let described = [
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::ETAG, tag.clone()),
    ];
    if tag::is_known(headers, &tag) {
        return (StatusCode::NOT_MODIFIED, guards(policy), described).into_response();
    }
    let media_type = [(header::CONTENT_TYPE, media_type)];
    if gzip {
        let coding = [(header::CONTENT_ENCODING, "gzip")];
        return (guards(policy), described, media_type, coding, file.data.clone()).into_response();
    }
    (guards(policy), described, media_type, inflated(hash, &file.data)).into_response()
}

/// An embedded file as it was before the build compressed it.
fn inflated(hash: u128, file: &[u8]) -> Bytes {
    INFLATED.get_with(hash, || inflate(file).into())
}

/// The bytes that the build compressed.
pub fn inflate(file: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(file).read_to_end(&mut plain).expect("the build wrote gzip");
    plain
}

/// The security headers of every response.
pub fn guards(policy: &'static str) -> [(HeaderName, &'static str); 3] {
    [
        (header::CONTENT_SECURITY_POLICY, policy),
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
