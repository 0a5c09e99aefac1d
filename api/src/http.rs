//! GraphQL over HTTP, and the addresses beside it.
//!
//! Mutations by POST with a JSON body only: a form or a link on another page cannot send one. An answer is
//! `application/graphql-response+json` where the client accepts it, else `application/json`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::parser::types::OperationType;
use async_graphql::{Request, Response, ServerError, Value};
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response as HttpResponse};
use axum::routing::get;
use tower_http::limit::RequestBodyLimitLayer;

use crate::app::SharedApp;
use crate::cost;
use crate::error::{Error, ErrorCode};
use crate::field_order;
use crate::graphql::LaurelSchema;
use crate::graphql::request::RequestState;
use crate::loader::Loaders;

/// The largest body of a request, in bytes: 1,000 scores take about a tenth of it.
const BODY_BYTES_MAX: usize = 2 << 20;

/// The longest query, in bytes; its variables come on top.
const QUERY_BYTES_MAX: usize = 512 << 10;

/// The most errors in one answer.
const ERRORS_MAX: usize = 20;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const GRAPHQL_JSON: &str = "application/graphql-response+json";

/// What the handlers share.
#[derive(Clone)]
struct Service {
    app: SharedApp,
    schema: LaurelSchema,
}

/// Every address of the server.
pub fn router(app: SharedApp, schema: LaurelSchema) -> Router {
    Router::new()
        .route("/", get(async || Html(include_str!("index.html"))))
        .route("/graphql", get(query_by_get).post(query_by_post))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX))
        .with_state(Service { app, schema })
}

/// Whether requests can be answered: SQL and Redis answer, and every partition is level.
async fn readiness(State(service): State<Service>) -> (StatusCode, String) {
    let deployment = &service.app.deployment;
    if let Err(error) = deployment.db.ping().await {
        tracing::debug!(%error, "not ready");
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "the database does not answer\n".into(),
        );
    }
    match deployment.store.heads().await {
        Ok(heads) if heads.iter().all(Result::is_ok) => (StatusCode::OK, "ready\n".into()),
        Ok(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "a partition waits for recovery\n".into(),
        ),
        Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Redis does not answer\n".into(),
        ),
    }
}

async fn query_by_get(
    State(service): State<Service>,
    headers: HeaderMap,
    Query(parameters): Query<HashMap<String, String>>,
) -> HttpResponse {
    let Some(query) = parameters.get("query") else {
        return refuse(
            &headers,
            StatusCode::BAD_REQUEST,
            &Error::bad_input("the parameter query is missing"),
        );
    };
    let mut request = Request::new(query);
    if let Some(name) = parameters
        .get("operationName")
        .filter(|name| !name.is_empty())
    {
        request = request.operation_name(name);
    }
    if let Some(text) = parameters.get("variables").filter(|text| !text.is_empty()) {
        match serde_json::from_str::<serde_json::Value>(text) {
            Ok(variables) if variables.is_object() || variables.is_null() => {
                request = request.variables(async_graphql::Variables::from_json(variables))
            }
            _ => {
                return refuse(
                    &headers,
                    StatusCode::BAD_REQUEST,
                    &Error::bad_input("the parameter variables is no JSON object"),
                );
            }
        }
    }
    answer(service, headers, request, Method::Get).await
}

async fn query_by_post(
    State(service): State<Service>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> HttpResponse {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if !content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/json")
    {
        return refuse(
            &headers,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            &Error::bad_input("a body of Content-Type: application/json is accepted"),
        );
    }
    let Ok(body) = body else {
        let error = Error::new(
            ErrorCode::LimitExceeded,
            format!("the body could not be read; at most {BODY_BYTES_MAX} bytes are accepted"),
        );
        return refuse(&headers, StatusCode::PAYLOAD_TOO_LARGE, &error);
    };
    match serde_json::from_slice::<Request>(&body) {
        Ok(request) if !request.query.is_empty() => {
            answer(service, headers, request, Method::Post).await
        }
        _ => {
            let error = Error::bad_input(
                "the body is accepted as a JSON object with query, and where they are wanted operationName and variables",
            );
            refuse(&headers, StatusCode::BAD_REQUEST, &error)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Post,
}

async fn answer(
    service: Service,
    headers: HeaderMap,
    mut request: Request,
    method: Method,
) -> HttpResponse {
    if request.query.len() > QUERY_BYTES_MAX {
        let error = Error::new(
            ErrorCode::LimitExceeded,
            format!(
                "the query has {} bytes; at most {QUERY_BYTES_MAX} are accepted",
                request.query.len()
            ),
        );
        return refuse(&headers, StatusCode::BAD_REQUEST, &error);
    }
    let variables = request.variables.clone();
    let operation_name = request.operation_name.clone();
    let document = match request.parsed_query() {
        Ok(document) => {
            if let Err(error) = cost::check(document, &variables) {
                return refuse(&headers, StatusCode::BAD_REQUEST, &error);
            }
            let meant = |name: Option<&async_graphql_value::Name>| {
                operation_name.is_none()
                    || name.map(|name| name.as_str()) == operation_name.as_deref()
            };
            let writes = document.operations.iter().any(|(name, operation)| {
                meant(name) && operation.node.ty == OperationType::Mutation
            });
            if writes && method == Method::Get {
                let mut response = refuse(
                    &headers,
                    StatusCode::METHOD_NOT_ALLOWED,
                    &Error::bad_input("a mutation is accepted by POST only"),
                );
                response
                    .headers_mut()
                    .insert(header::ALLOW, HeaderValue::from_static("POST"));
                return response;
            }
            document.clone()
        }
        Err(error) if error.message.contains("recursion limit") => {
            let error = Error::new(
                ErrorCode::LimitExceeded,
                "the query is nested deeper than the parser follows; 50 levels are accepted",
            );
            return refuse(&headers, StatusCode::BAD_REQUEST, &error);
        }
        Err(error) => {
            return respond(
                &headers,
                StatusCode::BAD_REQUEST,
                Response::from_errors(vec![error]),
            );
        }
    };
    let state = match request_state(&service.app, &headers).await {
        Ok(state) => state,
        Err(error) => {
            let status = if error.code == ErrorCode::Unauthenticated {
                StatusCode::UNAUTHORIZED
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            return refuse(&headers, status, &error);
        }
    };
    // In a task of its own: a client that hangs up must not cancel a look-up that others wait for.
    let execution = tokio::spawn(async move { service.schema.execute(request.data(state)).await });
    match tokio::time::timeout(REQUEST_TIMEOUT, execution).await {
        Ok(Ok(mut response)) => {
            field_order::restore(&mut response.data, &document, operation_name.as_deref());
            let never_began = response.data == Value::Null
                && response.is_err()
                && response.errors.iter().all(|error| error.path.is_empty());
            respond(
                &headers,
                if never_began {
                    StatusCode::BAD_REQUEST
                } else {
                    StatusCode::OK
                },
                response,
            )
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "a request ended badly");
            refuse(
                &headers,
                StatusCode::INTERNAL_SERVER_ERROR,
                &Error::new(
                    ErrorCode::Internal,
                    "something is wrong on the server; its log has the cause",
                ),
            )
        }
        Err(_) => {
            let error = Error::new(
                ErrorCode::Timeout,
                format!(
                    "the request took longer than {} s",
                    REQUEST_TIMEOUT.as_secs()
                ),
            );
            refuse(&headers, StatusCode::GATEWAY_TIMEOUT, &error)
        }
    }
}

async fn request_state(app: &SharedApp, headers: &HeaderMap) -> crate::error::Result<RequestState> {
    let principal = match headers.get(header::AUTHORIZATION) {
        Some(value) => {
            let token = value
                .to_str()
                .ok()
                .and_then(|value| value.strip_prefix("Bearer "));
            let token = token.ok_or_else(|| {
                Error::new(
                    ErrorCode::Unauthenticated,
                    "the header is accepted as \"Authorization: Bearer <token>\"",
                )
            })?;
            Some(app.access.check(&app.deployment.db, token.trim()).await?)
        }
        None if app.public_reads => None,
        None => {
            return Err(Error::new(
                ErrorCode::Unauthenticated,
                "this server needs an access token for reads too",
            ));
        }
    };
    Ok(RequestState {
        now_ms: entity::now_ms(),
        principal,
        loaders: Loaders::new(&Arc::clone(app)),
    })
}

fn refuse(headers: &HeaderMap, status: StatusCode, error: &Error) -> HttpResponse {
    let mut answer = ServerError::new(error.message.clone(), None);
    answer
        .extensions
        .get_or_insert_default()
        .set("code", error.code.name());
    respond(headers, status, Response::from_errors(vec![answer]))
}

/// Writes an answer. What async-graphql itself refuses (syntax, types, variables) is the client's fault, and gets a code here.
fn respond(headers: &HeaderMap, status: StatusCode, mut response: Response) -> HttpResponse {
    response.errors.truncate(ERRORS_MAX);
    for error in &mut response.errors {
        let ours = error.source::<Error>().map(|error| error.code);
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", ours.unwrap_or(ErrorCode::BadUserInput).name());
        }
    }
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let legacy = !accepts.contains(GRAPHQL_JSON);
    // In application/json a well-formed request is answered with 200, whatever is in the answer.
    let status = if legacy
        && status == StatusCode::BAD_REQUEST
        && response
            .errors
            .iter()
            .all(|error| !error.locations.is_empty())
    {
        StatusCode::OK
    } else {
        status
    };
    let never_began = response.is_err()
        && response.data == Value::Null
        && response.errors.iter().all(|error| error.path.is_empty());
    // Through a serde_json value its fields would be sorted by name again.
    let body = match never_began {
        true => serde_json::to_string(&serde_json::json!({ "errors": response.errors })),
        false => serde_json::to_string(&response),
    };
    let content_type = if legacy {
        "application/json; charset=utf-8"
    } else {
        "application/graphql-response+json; charset=utf-8"
    };
    (
        status,
        [(header::CONTENT_TYPE, content_type)],
        body.expect("an answer has a JSON form"),
    )
        .into_response()
}
