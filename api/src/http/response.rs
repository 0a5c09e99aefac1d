//! Answers on their way out: in the media type that the client prefers, with the status that belongs to it.

use async_graphql::{Response, ServerError, Value};
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use sha2::{Digest, Sha256};

use super::preference::Preference;
use super::tag;
use crate::error::{Error, ErrorCode};
use crate::metrics::METRICS;

/// The most errors in one answer.
const ERRORS_MAX: usize = 20;

/// What an answer depends on besides its address.
const VARY: &str = "accept, authorization";

/// What an answer is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// `application/graphql-response+json`: the status says whether the request could be executed.
    GraphQl,
    /// `application/json`, as clients know it from before: 200 for whatever is a request at all, also when it cannot be executed.
    Json,
}

impl MediaType {
    /// The one that a client prefers; nothing where it accepts neither. Who asks for nothing in particular gets plain JSON.
    pub fn preferred(headers: &HeaderMap) -> Option<Self> {
        let Some(preference) = Preference::of(headers, header::ACCEPT) else {
            return Some(Self::Json);
        };
        let graphql = preference.welcomes("application/graphql-response+json");
        let json = preference.welcomes("application/json");
        match (graphql, json) {
            (None, None) => None,
            (None, Some(_)) => Some(Self::Json),
            (Some(_), None) => Some(Self::GraphQl),
            (Some(graphql), Some(json)) => {
                let rather =
                    graphql.weight > json.weight || graphql.weight == json.weight && graphql.named;
                Some(if rather { Self::GraphQl } else { Self::Json })
            }
        }
    }

    fn status_of_rejected(self) -> StatusCode {
        match self {
            Self::GraphQl => StatusCode::BAD_REQUEST,
            Self::Json => StatusCode::OK,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::GraphQl => "application/graphql-response+json; charset=utf-8",
            Self::Json => "application/json; charset=utf-8",
        }
    }
}

/// What is no request, or not permitted, or cannot be answered now: the status says so in either media type.
pub fn refuse(media_type: MediaType, status: StatusCode, error: &Error) -> HttpResponse {
    let errors = vec![server_error(error.clone())];
    let mut answer = send(media_type, status, without_data(errors));
    if status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

/// A request that cannot be executed: its document, its variables, or what it would cost.
pub fn reject(media_type: MediaType, errors: Vec<ServerError>) -> HttpResponse {
    let status = media_type.status_of_rejected();
    send(media_type, status, without_data(errors))
}

/// What became of a request's execution, written. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Answer {
    body: Bytes,
    /// Whether anything was executed.
    began: bool,
    /// Where anybody who asks the same may get it.
    for_all: Option<ForAll>,
}

/// What a cache is told of an answer.
#[derive(Debug, Clone)]
struct ForAll {
    /// How long it may be kept, in seconds.
    max_age_s: i32,
    /// The first half of its body's SHA-256.
    hash: u128,
}

impl Answer {
    /// Writes an answer.
    pub fn new(mut response: Response) -> Self {
        let began = response.data != Value::Null
            || response.is_ok()
            || response.errors.iter().any(|error| !error.path.is_empty());
        if !began {
            return Self { body: without_data(response.errors).into(), began, for_all: None };
        }
        finish(&mut response.errors);
        // Through a serde_json value its fields would be sorted by name again.
        let body = serde_json::to_string(&response).expect("an answer has a JSON form");
        let hints = response.cache_control;
        let is_for_all = response.is_ok() && hints.public && hints.max_age > 0;
        let for_all =
            is_for_all.then(|| ForAll { max_age_s: hints.max_age, hash: half_of_hash(&body) });
        Self { body: body.into(), began, for_all }
    }

    /// Whether anybody without a token who asks the same may get it: it has no errors, and all its fields say so.
    pub fn is_for_all(&self) -> bool {
        self.for_all.is_some()
    }

    /// How long its body is.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Sends it to the one who asked alone.
    pub fn send(self, media_type: MediaType) -> HttpResponse {
        let status = if self.began { StatusCode::OK } else { media_type.status_of_rejected() };
        send(media_type, status, self.body)
    }

    /// Sends it so that caches on the way may keep it, where it is for all; or says that the client has it already.
    pub fn send_to_all(self, media_type: MediaType, headers: &HeaderMap) -> HttpResponse {
        let Some(ForAll { max_age_s, hash }) = self.for_all else {
            return self.send(media_type);
        };
        // Each media type is a representation of its own, and so is its tag.
        let kind = match media_type {
            MediaType::GraphQl => "graphql",
            MediaType::Json => "json",
        };
        let tag = format!("\"{hash:032x}-{kind}\"");
        let described = [
            (header::CACHE_CONTROL, format!("public, max-age={max_age_s}")),
            (header::VARY, VARY.to_owned()),
            (header::ETAG, tag.clone()),
        ];
        if tag::is_known(headers, &tag) {
            return (StatusCode::NOT_MODIFIED, described).into_response();
        }
        let content_type = [(header::CONTENT_TYPE, media_type.name())];
        (content_type, described, self.body).into_response()
    }
}

/// An error of this crate as async-graphql has them.
pub fn server_error(error: Error) -> ServerError {
    let mut answer = ServerError::new(error.message, None);
    let extensions = answer.extensions.get_or_insert_default();
    extensions.set("code", error.code.name());
    answer
}

/// Where nothing was executed there is no `data`, not even null.
fn without_data(mut errors: Vec<ServerError>) -> String {
    finish(&mut errors);
    serde_json::json!({ "errors": errors }).to_string()
}

/// What async-graphql itself refuses (syntax, types, variables) is the client's fault, and gets a code here.
fn finish(errors: &mut Vec<ServerError>) {
    errors.truncate(ERRORS_MAX);
    for error in errors {
        let ours = error.source::<Error>().map(|error| error.code);
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", ours.unwrap_or(ErrorCode::BadUserInput).name());
        }
        if let Some(Value::String(code)) = extensions.get("code") {
            METRICS.count_error(code);
        }
    }
}

fn half_of_hash(body: &str) -> u128 {
    let hash = Sha256::digest(body);
    u128::from_be_bytes(*hash.first_chunk().expect("a hash has 32 bytes"))
}

fn send(media_type: MediaType, status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    let headers = [
        (header::CONTENT_TYPE, media_type.name()),
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, VARY),
    ];
    (status, headers, body.into()).into_response()
}
