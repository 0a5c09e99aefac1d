//! GraphQL over HTTP, and the other routes of the server.
//!
//! It follows the GraphQL-over-HTTP specification. Mutations need POST with a JSON body, which a
//! form or a link on another page cannot send.

pub(crate) mod preference;
pub(crate) mod tag;

mod answers;
pub(crate) mod cost;
pub(crate) mod field_order;
pub(crate) mod graphiql;
mod parameters;
mod persisted;
mod response;

use std::sync::Arc;
use std::time::Duration;

use async_graphql::parser::types::{ExecutableDocument, OperationType};
use async_graphql::{Request, ServerError};
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response as HttpResponse};
use axum::routing::get;
use moka::sync::Cache;
use tokio::time::Instant;
use tower_http::limit::RequestBodyLimitLayer;

use crate::app::SharedApp;
use crate::cache::shared::GoodUntil;
use crate::error::{Error, ErrorCode};
use crate::graphql::LaurelSchema;
use crate::graphql::request::RequestState;
use crate::loader::Loaders;
use crate::metrics;
use crate::metrics::METRICS;
use answers::{AnswerCache, AnswerKey};
use engine::settings::CacheSettings;
use parameters::{Parameters, require_variables};
use persisted::PersistedQueries;
use response::{Answer, MediaType, refuse, reject, server_error};

/// The largest body of a request, in bytes. 1,000 scores take about a tenth of it.
const BODY_BYTES_MAX: usize = 2 << 20;

/// The longest query, in bytes, without its variables.
const QUERY_BYTES_MAX: usize = 512 << 10;

/// The longest query whose parsed document is kept, in bytes.
const DOCUMENT_KEPT_BYTES_MAX: usize = 4 << 10;

/// The most parsed documents that are kept.
const DOCUMENTS_MAX: u64 = 500;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The state that the handlers share.
#[derive(Clone)]
struct Service {
    app: SharedApp,
    schema: LaurelSchema,
    answers: Arc<AnswerCache>,
    persisted_queries: Arc<PersistedQueries>,
    /// Parsed documents, by the text of their query.
    documents: Cache<String, Arc<ExecutableDocument>>,
}

/// The routes of the server.
pub fn router(app: SharedApp, schema: LaurelSchema, caches: &CacheSettings) -> Router {
    let service = Service {
        answers: Arc::new(AnswerCache::new(&app.deployment.store, caches)),
        persisted_queries: Arc::new(PersistedQueries::new(caches.persisted_queries_bytes)),
        documents: Cache::new(DOCUMENTS_MAX),
        app,
        schema,
    };
    Router::new()
        .route("/", get(async || Html(include_str!("http/index.html"))))
        .route("/graphql", get(query_by_get).post(query_by_post))
        .merge(graphiql::router())
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .route("/metrics", get(measured))
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX))
        .with_state(service)
}

/// Answers 200 if SQL and Redis answer and every partition is level, else 503.
async fn readiness(State(service): State<Service>) -> (StatusCode, String) {
    let deployment = &service.app.deployment;
    if let Err(error) = deployment.db.ping().await {
        tracing::debug!(%error, "not ready");
        return (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n".into());
    }
    match deployment.store.heads().await {
        Ok(heads) if heads.iter().all(Result::is_ok) => (StatusCode::OK, "ready\n".into()),
        Ok(_) => (StatusCode::SERVICE_UNAVAILABLE, "a partition waits for recovery\n".into()),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "Redis does not answer\n".into()),
    }
}

/// The metrics, for Prometheus.
async fn measured(State(service): State<Service>) -> impl IntoResponse {
    let described =
        [(header::CONTENT_TYPE, metrics::MEDIA_TYPE), (header::CACHE_CONTROL, "no-store")];
    (described, metrics::text(&service.app.deployment).await)
}

async fn query_by_get(
    State(service): State<Service>,
    headers: HeaderMap,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> HttpResponse {
    let Some(media_type) = MediaType::preferred(&headers) else {
        return not_acceptable();
    };
    let parameters = match pairs {
        Ok(Query(pairs)) => parameters::of_address(pairs),
        Err(rejection) => Err(Error::bad_input(rejection.body_text())),
    };
    match parameters {
        Ok(parameters) => execute(service, &headers, media_type, parameters, Method::Get).await,
        Err(error) => refuse(media_type, StatusCode::BAD_REQUEST, &error),
    }
}

async fn query_by_post(
    State(service): State<Service>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> HttpResponse {
    let Some(media_type) = MediaType::preferred(&headers) else {
        return not_acceptable();
    };
    if !is_json(&headers) {
        let error = Error::bad_input("invalid Content-Type: expected application/json, in UTF-8");
        return refuse(media_type, StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
    }
    let Ok(body) = body else {
        let error = Error::new(
            ErrorCode::LimitExceeded,
            format!("the body could not be read: expected at most {BODY_BYTES_MAX} bytes"),
        );
        return refuse(media_type, StatusCode::PAYLOAD_TOO_LARGE, &error);
    };
    match parameters::of_body(&body) {
        Ok(parameters) => execute(service, &headers, media_type, parameters, Method::Post).await,
        Err(error) => refuse(media_type, StatusCode::BAD_REQUEST, &error),
    }
}

fn not_acceptable() -> HttpResponse {
    let error = Error::bad_input(
        "invalid Accept: expected application/graphql-response+json or application/json",
    );
    refuse(MediaType::Json, StatusCode::NOT_ACCEPTABLE, &error)
}

/// True if the headers declare a JSON body in UTF-8. A form or a script of another site cannot send
/// them without a preflight request.
fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    let mut parts = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .split(';')
        .map(str::trim);
    let json = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/json"));
    let mut charsets = parts
        .filter_map(|part| part.split_once('='))
        .filter(|(name, _)| name.eq_ignore_ascii_case("charset"));
    json && charsets.all(|(_, charset)| charset.trim_matches('"').eq_ignore_ascii_case("utf-8"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Post,
}

async fn execute(
    service: Service,
    headers: &HeaderMap,
    media_type: MediaType,
    Parameters { mut request, hash }: Parameters,
    method: Method,
) -> HttpResponse {
    if let Some(hash) = hash
        && let Err(error) = service.persisted_queries.complete(&mut request, hash)
    {
        return refuse_hash(media_type, error);
    }
    let is_anonymous = service.app.public_reads && !headers.contains_key(header::AUTHORIZATION);
    let send = |answer: Answer| match method {
        Method::Get if is_anonymous => answer.send_to_all(media_type, headers),
        _ => answer.send(media_type),
    };
    let question = is_anonymous.then(|| AnswerKey::of(&request));
    if let Some(question) = &question
        && let Some(answer) = service.answers.get(question).await
    {
        METRICS.answers.hits.inc();
        if let Some(hash) = hash {
            service.persisted_queries.keep(hash, &request.query);
        }
        return send(answer);
    }
    let document = match document(&service.documents, &mut request) {
        Ok(document) => document,
        Err(error) => return reject(media_type, vec![error]),
    };
    if let Some(hash) = hash {
        service.persisted_queries.keep(hash, &request.query);
    }
    let operation_name = request.operation_name.as_deref();
    if let Err(error) = require_variables(&document, operation_name, &request.variables) {
        return reject(media_type, vec![error]);
    }
    let kind = kind(&document, operation_name);
    if method == Method::Get && kind == OperationType::Mutation {
        return not_allowed(media_type);
    }
    let state = match request_state(&service.app, headers).await {
        Ok(state) => state,
        Err(error) => return refuse_access(media_type, &error),
    };
    let question = question.filter(|_| kind == OperationType::Query);
    let began = Instant::now();
    let answer = within_time(async move {
        let good_until = state.good_until.clone();
        let execution = run(&service, request.data(state), document, kind);
        match question {
            Some(question) => {
                METRICS.answers.misses.inc();
                service.answers.find(&question, &good_until, execution).await
            }
            None => execution.await,
        }
    });
    let answer = answer.await;
    let executions = match kind {
        OperationType::Mutation => &METRICS.mutation_seconds,
        _ => &METRICS.query_seconds,
    };
    executions.observe(began.elapsed().as_secs_f64());
    match answer {
        Ok(answer) => send(answer),
        Err((status, error)) => refuse(media_type, status, &error),
    }
}

/// Answers a request whose persisted query is unknown or another one.
fn refuse_hash(media_type: MediaType, error: Error) -> HttpResponse {
    match error.code {
        ErrorCode::BadUserInput => refuse(media_type, StatusCode::BAD_REQUEST, &error),
        _ => reject(media_type, vec![server_error(error)]),
    }
}

/// Answers a mutation by GET.
fn not_allowed(media_type: MediaType) -> HttpResponse {
    let error = Error::bad_input("invalid method: expected POST for a mutation");
    let mut answer = refuse(media_type, StatusCode::METHOD_NOT_ALLOWED, &error);
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    answer
}

/// Answers a request without access, or whose access cannot be checked.
fn refuse_access(media_type: MediaType, error: &Error) -> HttpResponse {
    let status = match error.code {
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    refuse(media_type, status, error)
}

/// Executes in a task of its own, as a client that hangs up must not cancel a look-up or an
/// execution that other requests wait for.
async fn within_time(
    execution: impl Future<Output = Answer> + Send + 'static,
) -> Result<Answer, (StatusCode, Error)> {
    match tokio::time::timeout(REQUEST_TIMEOUT, tokio::spawn(execution)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            tracing::error!(%error, "the task of a request failed");
            let error =
                Error::new(ErrorCode::Internal, "internal error; the server's log has the cause");
            Err((StatusCode::INTERNAL_SERVER_ERROR, error))
        }
        Err(_) => {
            let seconds = REQUEST_TIMEOUT.as_secs();
            let message = format!("the request took longer than {seconds} s");
            let error = Error::new(ErrorCode::Timeout, message);
            Err((StatusCode::GATEWAY_TIMEOUT, error))
        }
    }
}

async fn run(
    service: &Service,
    request: Request,
    document: Arc<ExecutableDocument>,
    kind: OperationType,
) -> Answer {
    let operation_name = request.operation_name.clone();
    let mut response = service.schema.execute(request).await;
    if kind == OperationType::Mutation {
        // From here on no cache serves values fetched before the write; only then may the client
        // learn of it.
        service.app.deployment.store.note_own_write();
    }
    field_order::restore(&mut response.data, &document, operation_name.as_deref());
    Answer::new(response)
}

/// The parsed document of a request, if it is neither too long, nor too deep, nor too costly.
fn document(
    documents: &Cache<String, Arc<ExecutableDocument>>,
    request: &mut Request,
) -> Result<Arc<ExecutableDocument>, ServerError> {
    if request.query.len() > QUERY_BYTES_MAX {
        return Err(limit_exceeded(format!(
            "the query has {} bytes: expected at most {QUERY_BYTES_MAX}",
            request.query.len()
        )));
    }
    if let Some(document) = documents.get(&request.query) {
        cost::check(&document, &request.variables).map_err(server_error)?;
        request.set_parsed_query((*document).clone());
        return Ok(document);
    }
    let variables = request.variables.clone();
    match request.parsed_query() {
        Ok(document) => {
            cost::check(document, &variables).map_err(server_error)?;
            let document = Arc::new(document.clone());
            if request.query.len() <= DOCUMENT_KEPT_BYTES_MAX {
                documents.insert(request.query.clone(), document.clone());
            }
            Ok(document)
        }
        Err(error) if error.message.contains("recursion limit") => Err(limit_exceeded(
            "the query is nested deeper than the parser follows: expected at most 50 levels",
        )),
        Err(error) => Err(error),
    }
}

fn limit_exceeded(message: impl Into<String>) -> ServerError {
    server_error(Error::new(ErrorCode::LimitExceeded, message))
}

/// The type of the selected operation; if several match, a mutation if one of them is.
fn kind(document: &ExecutableDocument, operation_name: Option<&str>) -> OperationType {
    let mut meant = document.operations.iter().filter(|(name, _)| {
        operation_name.is_none() || name.map(|name| name.as_str()) == operation_name
    });
    if meant.any(|(_, operation)| operation.node.ty == OperationType::Mutation) {
        OperationType::Mutation
    } else {
        OperationType::Query
    }
}

async fn request_state(app: &SharedApp, headers: &HeaderMap) -> Result<RequestState, Error> {
    let now_ms = app.deployment.clock.now_ms();
    let principal = match headers.get(header::AUTHORIZATION) {
        Some(value) => {
            let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
            let token = token.ok_or_else(|| {
                Error::new(
                    ErrorCode::Unauthenticated,
                    "invalid Authorization: expected \"Bearer <token>\"",
                )
            })?;
            Some(app.access.check(&app.deployment.lookups, token.trim(), now_ms).await?)
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
        now_ms,
        principal,
        good_until: GoodUntil::new(Instant::now() + app.cache_age),
        loaders: Loaders::new(&Arc::clone(app)),
    })
}
