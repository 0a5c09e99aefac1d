//! GraphQL over HTTP, and the other routes of the server.
//!
//! It follows the GraphQL-over-HTTP specification. Mutations need POST with a JSON body, which a
//! form or a link on another page cannot send.

pub(crate) mod preference;
pub(crate) mod tag;

pub(crate) mod admission;
mod answers;
pub(crate) mod check;
mod execution;
pub(crate) mod field_order;
pub(crate) mod graphiql;
mod parameters;
mod persisted;
pub(crate) mod rates;
mod response;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response as HttpResponse};
use axum::routing::get;
use engine::settings::{CacheSettings, RateSettings, RequestLimits, Switch};
use tower_http::limit::RequestBodyLimitLayer;

use crate::app::SharedApp;
use crate::error::Error;
use crate::graphql::LaurelSchema;
use crate::metrics::{self, METRICS};
use admission::Admission;
use answers::AnswerCache;
use check::Checks;
use execution::{Method, Received, execute};
use persisted::PersistedQueries;
use rates::Rates;
use response::{MediaType, refuse};

/// The state that the handlers share.
#[derive(Clone)]
struct Service(Arc<Shared>);

struct Shared {
    app: SharedApp,
    schema: LaurelSchema,
    answers: AnswerCache,
    persisted_queries: PersistedQueries,
    checks: Checks,
    admission: Arc<Admission>,
    rates: Rates,
    body_bytes_max: u32,
    answer_bytes_max: usize,
    query_timeout: Duration,
}

impl std::ops::Deref for Service {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The routes of the server.
pub fn router(
    app: SharedApp,
    schema: LaurelSchema,
    caches: &CacheSettings,
    limits: &RequestLimits,
    rates: &RateSettings,
) -> Router {
    let service = Service(Arc::new(Shared {
        answers: AnswerCache::new(&app.deployment.store, caches),
        persisted_queries: PersistedQueries::new(
            caches.persisted_queries_bytes,
            limits.query_bytes_max as usize,
        ),
        checks: Checks::new(limits),
        admission: Admission::new(limits),
        rates: Rates::new(rates, limits.cost_max),
        body_bytes_max: limits.body_bytes_max,
        answer_bytes_max: limits.answer_bytes_max as usize,
        query_timeout: Duration::from_millis(limits.query_timeout_ms.into()),
        app,
        schema,
    }));
    let body_bytes_max = limits.body_bytes_max as usize;
    let routes = Router::new()
        .route("/", get(async || Html(include_str!("http/index.html"))))
        .route("/graphql", get(query_by_get).post(query_by_post))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .route("/metrics", get(measured));
    let routes = match limits.graphiql {
        Switch::On => routes.merge(graphiql::router()),
        Switch::Off => routes,
    };
    routes
        .layer(DefaultBodyLimit::disable())
        .layer(RequestBodyLimitLayer::new(body_bytes_max))
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
    METRICS.points_under_way.set(i64::try_from(service.admission.under_way()).unwrap_or(i64::MAX));
    METRICS.requests_waiting.set(i64::try_from(service.admission.waiting()).unwrap_or(i64::MAX));
    let described =
        [(header::CONTENT_TYPE, metrics::MEDIA_TYPE), (header::CACHE_CONTROL, "no-store")];
    (described, metrics::text(&service.app.deployment).await)
}

/// The address of a client; loopback if the server does not know it.
type Address = Option<Extension<ConnectInfo<SocketAddr>>>;

fn ip(address: &Address) -> IpAddr {
    address.as_ref().map_or(Ipv4Addr::LOCALHOST.into(), |Extension(ConnectInfo(peer))| peer.ip())
}

async fn query_by_get(
    State(service): State<Service>,
    address: Address,
    headers: HeaderMap,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> HttpResponse {
    let Some(media_type) = MediaType::preferred(&headers) else {
        return not_acceptable();
    };
    let received = Received { address: ip(&address), headers, media_type, method: Method::Get };
    match pairs {
        Ok(Query(pairs)) => execute(service, received, || parameters::of_address(pairs)).await,
        Err(rejection) => {
            let error = Error::bad_input(rejection.body_text());
            refuse(media_type, StatusCode::BAD_REQUEST, &error)
        }
    }
}

async fn query_by_post(
    State(service): State<Service>,
    address: Address,
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
        let max = service.body_bytes_max;
        let error = Error::limit_exceeded(format!(
            "the body could not be read: expected at most {max} bytes"
        ));
        return refuse(media_type, StatusCode::PAYLOAD_TOO_LARGE, &error);
    };
    let received = Received { address: ip(&address), headers, media_type, method: Method::Post };
    execute(service, received, move || parameters::of_body(&body)).await
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
