//! Answers on their way out: in the media type that the client prefers, with the status that belongs to it.

use async_graphql::{Response, ServerError, Value};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};

use super::preference::Preference;
use crate::error::{Error, ErrorCode};

/// The most errors in one answer.
const ERRORS_MAX: usize = 20;

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
        answer
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

/// A request that cannot be executed: its document, its variables, or what it would cost.
pub fn reject(media_type: MediaType, errors: Vec<ServerError>) -> HttpResponse {
    let status = match media_type {
        MediaType::GraphQl => StatusCode::BAD_REQUEST,
        MediaType::Json => StatusCode::OK,
    };
    send(media_type, status, without_data(errors))
}

/// What became of a request's execution.
pub fn answer(media_type: MediaType, mut response: Response) -> HttpResponse {
    let began = response.data != Value::Null
        || response.is_ok()
        || response.errors.iter().any(|error| !error.path.is_empty());
    if !began {
        return reject(media_type, response.errors);
    }
    finish(&mut response.errors);
    // Through a serde_json value its fields would be sorted by name again.
    let body = serde_json::to_string(&response).expect("an answer has a JSON form");
    send(media_type, StatusCode::OK, body)
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
    }
}

fn send(media_type: MediaType, status: StatusCode, body: String) -> HttpResponse {
    let content_type = [(header::CONTENT_TYPE, media_type.name())];
    (status, content_type, body).into_response()
}
