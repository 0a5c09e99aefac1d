//! HTTP responses: answers in the media type that the client prefers, with the status that belongs
//! to it.

pub(crate) mod fields;
pub(crate) mod preference;
pub(crate) mod tag;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use async_graphql::{ErrorExtensionValues, Response, ServerError, Value};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use sha2::{Digest, Sha256};

use super::held::holding;
use super::rates::Client;
use super::shares::SharedMemory;
use crate::error::{Error, ErrorCode};
use crate::metrics::METRICS;
use crate::traces::request::ErrorCodes;
use preference::Preference;

/// The most errors in one answer.
const ERRORS_MAX: usize = 20;

/// The longest message of an error, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The longest message of an error of async-graphql, in bytes. Such a message may repeat a value of
/// any length.
const FOREIGN_MESSAGE_BYTES_MAX: usize = 256;

/// The longest answer that does not count against the memory for answers, in bytes.
const FREE_BYTES: usize = 64 << 10;

/// When a client may try again that found no room, in seconds.
const BUSY_S: u64 = 1;

/// The message for an answer that finds no memory.
const ANSWERS_BUSY: &str = "too many long answers are being sent; try again in a few seconds";

/// The headers that an answer depends on, besides its URL.
const VARY: &str = "accept, authorization";

/// The media type of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// `application/graphql-response+json`: the status says whether the request could be executed.
    GraphQl,
    /// `application/json`, as older clients expect it: 200 for every well-formed request, even if
    /// it cannot be executed.
    Json,
}

impl MediaType {
    /// The names of both in `Accept`.
    pub const NAMES: [&str; 2] = ["application/graphql-response+json", "application/json"];

    /// The media type that a client prefers; `None` if it accepts neither. A client without a
    /// preference gets plain JSON.
    pub fn preferred(headers: &HeaderMap) -> Option<Self> {
        let Some(preference) = Preference::of(headers, header::ACCEPT) else {
            return Some(Self::Json);
        };
        let [graphql, json] = Self::NAMES.map(|name| preference.welcomes(name));
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

/// Answers a request that is malformed, not permitted, or cannot be answered now. The status says
/// so in either media type.
pub fn refuse(media_type: MediaType, status: StatusCode, error: &Error) -> HttpResponse {
    let errors = vec![server_error(error.clone())];
    let mut answer = send_errors(media_type, status, errors);
    if status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

/// As [`refuse`], for a client that may try again after so many seconds.
pub fn refuse_for(
    media_type: MediaType,
    status: StatusCode,
    error: &Error,
    seconds: u64,
) -> HttpResponse {
    let mut answer = refuse(media_type, status, error);
    answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    answer
}

/// Answers a request that cannot be executed because of its document, its variables or its cost.
pub fn reject(media_type: MediaType, errors: Vec<ServerError>) -> HttpResponse {
    let status = media_type.status_of_rejected();
    send_errors(media_type, status, errors)
}

/// A serialized answer, or the errors of a request. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Answer {
    body: Bytes,
    /// True if execution began.
    began: bool,
    /// True if the server has no room for the request now.
    is_busy: bool,
    /// Set if every client that sends the same request may get the answer.
    for_all: Option<Arc<ForAll>>,
    codes: Option<ErrorCodes>,
}

/// The room for an answer.
pub struct Room<'a> {
    /// The most bytes.
    pub bytes_max: usize,
    /// The memory for all long answers.
    pub memory: &'a Arc<SharedMemory<Client>>,
    /// The client that asked.
    pub client: &'a Client,
    /// True for the answer to a mutation.
    pub is_of_mutation: bool,
}

/// The headers for caches of an answer. They are made once, and sent many times.
#[derive(Debug)]
struct ForAll {
    cache_control: HeaderValue,
    /// Of plain JSON, and of GraphQL's media type: each is a representation of its own.
    tags: [HeaderValue; 2],
}

impl ForAll {
    /// Of a body that caches may keep for so many seconds.
    fn new(body: &[u8], max_age_s: i32) -> Self {
        let hash = Sha256::digest(body);
        let half = u128::from_be_bytes(*hash.first_chunk().expect("a hash has 32 bytes"));
        let value = |text: String| HeaderValue::try_from(text).expect("it is visible ASCII");
        Self {
            cache_control: value(format!("public, max-age={max_age_s}")),
            tags: ["json", "graphql"].map(|kind| value(format!("\"{half:032x}-{kind}\""))),
        }
    }
}

impl Answer {
    /// Serializes a response. A long one holds a part of the memory until it is sent and forgotten.
    ///
    /// One that is too long, or finds no memory, becomes an error. That of a mutation says that the
    /// outcome is unknown, as the changes are made.
    pub fn new(mut response: Response, room: &Room<'_>) -> Self {
        let began = response.data != Value::Null
            || response.is_ok()
            || response.errors.iter().any(|error| !error.path.is_empty());
        if !began {
            return Self::without_data(response.errors);
        }
        finish(&mut response.errors);
        let codes = codes_of(&response.errors);
        // A serde_json value in between would sort the fields by name again.
        let mut body = Bounded { bytes: vec![], bytes_max: room.bytes_max };
        if serde_json::to_writer(&mut body, &response).is_err() {
            let problem = format!("the answer is longer than {} bytes", room.bytes_max);
            if room.is_of_mutation {
                return Self::unknown(&problem);
            }
            let message = format!("{problem}: ask for less at once");
            let error = server_error(Error::new(ErrorCode::LimitExceeded, message));
            return Self::without_data(vec![error]);
        }
        let Some(body) = room.remember(body.bytes) else {
            if room.is_of_mutation {
                return Self::unknown("too many long answers are being sent");
            }
            return Self::busy(&Error::new(ErrorCode::Unavailable, ANSWERS_BUSY));
        };
        let hints = response.cache_control;
        let is_for_all = response.is_ok() && hints.public && hints.max_age > 0;
        let for_all = is_for_all.then(|| Arc::new(ForAll::new(&body, hints.max_age)));
        Self { body, began, is_busy: false, for_all, codes }
    }

    /// The answer to a request that the server has no room for.
    pub fn busy(error: &Error) -> Self {
        Self { is_busy: true, ..Self::without_data(vec![server_error(error.clone())]) }
    }

    /// The answer to a mutation that was executed and whose own answer cannot be sent.
    fn unknown(problem: &str) -> Self {
        let message = format!(
            "{problem}, so it is not said whether the changes were made: ask for fewer fields, with the same event ids"
        );
        let mut errors = vec![server_error(Error::new(ErrorCode::Timeout, message))];
        finish(&mut errors);
        let codes = codes_of(&errors);
        let body = serde_json::json!({ "data": null, "errors": errors }).to_string().into();
        Self { body, began: true, is_busy: false, for_all: None, codes }
    }

    /// The answer to a request that was not executed.
    fn without_data(mut errors: Vec<ServerError>) -> Self {
        let body = without_data(&mut errors).into();
        let codes = codes_of(&errors);
        Self { body, began: false, is_busy: false, for_all: None, codes }
    }

    /// True if every client with the same rights that sends the same request may get it: it has no
    /// errors, and the hints of all its fields allow it.
    pub fn is_for_all(&self) -> bool {
        self.for_all.is_some()
    }

    /// The length of the body, in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Sends the answer for this client alone.
    pub fn send(self, media_type: MediaType) -> HttpResponse {
        let status = match (self.is_busy, self.began) {
            (true, _) => StatusCode::SERVICE_UNAVAILABLE,
            (false, true) => StatusCode::OK,
            (false, false) => media_type.status_of_rejected(),
        };
        let mut answer = send(media_type, status, self.body, self.codes);
        if self.is_busy {
            answer.headers_mut().insert(header::RETRY_AFTER, BUSY_S.into());
        }
        answer
    }

    /// Sends the answer so that caches on the way may keep it, if it is for all. If the client has
    /// it already, sends 304 without a body.
    pub fn send_to_all(self, media_type: MediaType, headers: &HeaderMap) -> HttpResponse {
        let Some(for_all) = self.for_all else {
            return self.send(media_type);
        };
        let tag = &for_all.tags[usize::from(media_type == MediaType::GraphQl)];
        let described = [
            (header::CACHE_CONTROL, for_all.cache_control.clone()),
            (header::VARY, HeaderValue::from_static(VARY)),
            (header::ETAG, tag.clone()),
        ];
        if tag::is_known(headers, tag) {
            return (StatusCode::NOT_MODIFIED, described).into_response();
        }
        let content_type = HeaderValue::from_static(media_type.name());
        ([(header::CONTENT_TYPE, content_type)], described, Body::from(self.body)).into_response()
    }
}

/// Converts an error of this crate to async-graphql's.
pub fn server_error(error: Error) -> ServerError {
    let mut answer = ServerError::new(error.message, None);
    let extensions = answer.extensions.get_or_insert_default();
    extensions.set("code", error.code.name());
    set_details(extensions, error.argument, error.merged_into);
    answer
}

/// Says in the extensions of an error what is wrong, as far as it is known.
fn set_details(
    extensions: &mut ErrorExtensionValues,
    argument: Option<String>,
    merged_into: Option<String>,
) {
    for (name, value) in [("argument", argument), ("mergedInto", merged_into)] {
        if let Some(value) = value {
            extensions.set(name, value);
        }
    }
}

/// A body without `data`, not even null, as nothing was executed.
fn without_data(errors: &mut Vec<ServerError>) -> String {
    finish(errors);
    serde_json::json!({ "errors": errors }).to_string()
}

impl Room<'_> {
    /// An answer with its part of the memory; `None` if the client would hold more than it leaves
    /// free.
    fn remember(&self, bytes: Vec<u8>) -> Option<Bytes> {
        if bytes.len() <= FREE_BYTES {
            return Some(bytes.into());
        }
        let part = self.memory.take(self.client, bytes.len() as u64)?;
        Some(holding(bytes, part))
    }
}

/// Bytes up to a number; writing more fails.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Truncates errors and their messages, completes their codes, and counts them. Errors of
/// async-graphql itself (syntax, types, variables) are the fault of the client.
pub fn finish(errors: &mut Vec<ServerError>) {
    errors.truncate(ERRORS_MAX);
    for error in errors {
        let own = error.source::<Error>();
        let own_code = own.map(|error| error.code);
        let argument = own.and_then(|error| error.argument.clone());
        let merged_into = own.and_then(|error| error.merged_into.clone());
        let is_own = own_code.is_some() || error.extensions.is_some();
        let bytes_max = if is_own { MESSAGE_BYTES_MAX } else { FOREIGN_MESSAGE_BYTES_MAX };
        if error.message.len() > bytes_max {
            let end = error.message.floor_char_boundary(bytes_max);
            error.message.replace_range(end.., " …");
        }
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", own_code.unwrap_or(ErrorCode::BadUserInput).name());
        }
        set_details(extensions, argument, merged_into);
        if let Some(Value::String(code)) = extensions.get("code") {
            METRICS.count_error(code);
        }
    }
}

/// Sends errors alone.
fn send_errors(
    media_type: MediaType,
    status: StatusCode,
    mut errors: Vec<ServerError>,
) -> HttpResponse {
    let body = without_data(&mut errors);
    send(media_type, status, body, codes_of(&errors))
}

/// The codes of errors, each once; `None` without errors.
fn codes_of(errors: &[ServerError]) -> Option<ErrorCodes> {
    let codes = errors.iter().filter_map(|error| match error.extensions.as_ref()?.get("code")? {
        Value::String(code) => Some(code.as_str()),
        _ => None,
    });
    let codes: BTreeSet<&str> = codes.collect();
    (!codes.is_empty()).then(|| ErrorCodes(codes.into_iter().collect::<Vec<_>>().join(" ").into()))
}

fn send(
    media_type: MediaType,
    status: StatusCode,
    body: impl Into<Bytes>,
    codes: Option<ErrorCodes>,
) -> HttpResponse {
    let headers = [
        (header::CONTENT_TYPE, media_type.name()),
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, VARY),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    let mut answer = (status, headers, Body::from(body.into())).into_response();
    if let Some(codes) = codes {
        answer.extensions_mut().insert(codes);
    }
    answer
}
