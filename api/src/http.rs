//! GraphQL over HTTP, and the other routes of the server.
//!
//! It follows the GraphQL-over-HTTP specification. Mutations need POST with a JSON body, which a
//! form or a link on another page cannot send.

pub(crate) mod admission;
mod answers;
pub(crate) mod check;
mod events;
mod execution;
mod feeds;
mod headers;
mod held;
mod login;
mod operation;
pub(crate) mod pages;
mod parameters;
mod persisted;
pub(crate) mod rates;
pub(crate) mod request_id;
pub(crate) mod response;
pub(crate) mod serving;
pub mod shares;
pub(crate) mod shortcut;
mod slow;
pub(crate) mod socket;
pub mod sockets;
pub(crate) mod turns;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response as HttpResponse;
use axum::routing::get;
use engine::settings::connections::Origins;
use engine::settings::{
    CacheSettings, ConnectionSettings, LiveSettings, RateSettings, RequestLimits, Switch,
};

use crate::app::SharedApp;
use crate::error::Error;
use crate::graphql::Schemas;
use admission::Admission;
use answers::AnswerCache;
use check::Checks;
use execution::{Method, Received, execute, limited};
use feeds::Feeds;
use pages::front::Front;
use persisted::PersistedQueries;
use rates::{Client, Rates};
use response::{MediaType, refuse};
use serving::body::{BodyLimits, read_body};
use serving::door::Caller;
use serving::{Routes, operations};
use shares::SharedMemory;
use shortcut::Shortcut;
use sockets::{Most, Sockets};
use turns::Turns;

use crate::traces::request::{has_spans, span_of, traced};

/// The points of a page or one of its files: it is made or compressed for each request.
const PAGE_POINTS: u64 = 200;

/// The points of a request to `/graphql` that is refused before its client is known, or whose
/// client leaves before that.
const REFUSED_POINTS: u64 = 200;

/// The answer at an address without a route.
const NOTHING: (StatusCode, &str) =
    (StatusCode::NOT_FOUND, "there is nothing here: the boards are at /, GraphQL is at /graphql\n");

/// The state that the handlers share.
#[derive(Clone)]
pub(crate) struct Service(Arc<Shared>);

pub(crate) struct Shared {
    app: SharedApp,
    schemas: Schemas,
    answers: AnswerCache,
    persisted_queries: PersistedQueries,
    checks: Checks,
    admission: Arc<Admission>,
    turns: Turns,
    rates: Rates,
    bodies: BodyLimits,
    answer_bytes_max: usize,
    /// The memory for long answers.
    answers_memory: Arc<SharedMemory<Client>>,
    /// The memory for mutations until they have ended, which is after their clients may have gone.
    mutations_memory: Arc<SharedMemory<Client>>,
    query_timeout: Duration,
    /// The time until the client of a mutation gets `TIMEOUT`.
    mutation_timeout: Duration,
    /// How long a request takes that is logged.
    slow: Option<Duration>,
    /// The subscriptions that sockets share.
    feeds: Feeds,
    /// The places of sockets.
    sockets: Arc<Sockets>,
    live: LiveSettings,
    /// The time that a client may take nothing.
    write_timeout: Duration,
    /// The origins besides its own whose pages may open WebSockets.
    origins: Option<Origins>,
    /// The page for people.
    front: Front,
}

impl std::ops::Deref for Service {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The routes of the server. With an address of their own, those of operations are there alone.
pub fn routes(
    app: SharedApp,
    schemas: Schemas,
    caches: &CacheSettings,
    connections: &ConnectionSettings,
    limits: &RequestLimits,
    rates: &RateSettings,
    (live, most): (LiveSettings, Most),
) -> Routes {
    let admission = Admission::new(limits);
    let operations = operations::router(&app, admission.clone());
    let service = Service(Arc::new(Shared {
        answers: AnswerCache::new(&app.deployment.store, caches),
        persisted_queries: PersistedQueries::new(
            caches.persisted_queries_bytes,
            limits.query_bytes_max as usize,
        ),
        checks: Checks::new(limits),
        turns: Turns::start(limits.requests_waiting_max.div_ceil(2) as usize, {
            let admission = admission.clone();
            move || admission.heavy_points_beside_light()
        }),
        admission,
        rates: Rates::new(rates, limits.cost_max),
        bodies: BodyLimits::new(limits.body_bytes_max as usize, connections),
        answer_bytes_max: limits.answer_bytes_max as usize,
        answers_memory: SharedMemory::new(limits.answers_bytes),
        mutations_memory: SharedMemory::new(limits.mutations_bytes),
        query_timeout: Duration::from_millis(limits.query_timeout_ms.into()),
        mutation_timeout: Duration::from_millis(limits.mutation_timeout_ms.into()),
        slow: (limits.slow_request_ms > 0)
            .then(|| Duration::from_millis(limits.slow_request_ms.into())),
        feeds: Feeds::default(),
        sockets: Sockets::new(most, live.subscriptions_bytes),
        live,
        write_timeout: Duration::from_millis(connections.write_timeout_ms),
        origins: connections.cors_origins.clone(),
        front: Front::new(connections, limits.graphiql),
        app,
        schemas,
    }));
    let of_pages =
        |pages: Router<Service>| pages.layer(from_fn_with_state(service.clone(), paid_page));
    let graphql = Router::new()
        .merge(of_pages(pages::front::router()))
        .route("/graphql", get(query_by_get).post(query_by_post));
    let mut main = graphql
        .layer(headers::compression())
        .merge(of_pages(pages::front::assets()))
        .fallback(async || NOTHING);
    if limits.graphiql == Switch::On {
        main = main.merge(of_pages(pages::graphiql::router()));
    }
    if limits.admin_page == Switch::On {
        main = main.merge(of_pages(pages::office::router()));
    }
    main = traced(main);
    if connections.operations_listen.is_none() {
        main = main.merge(operations::router(&service.app, service.admission.clone()));
    }
    // Where layers look at each request, each passes the router.
    let is_short = connections.cors_origins.is_none() && !has_spans();
    let shortcut = is_short.then(|| Shortcut::new(service.clone()));
    let of_handshakes = service.clone();
    let main = headers::shared(main.with_state(service), connections.cors_origins.as_ref());
    Routes { main, shortcut, operations, service: of_handshakes }
}

impl Service {
    /// True if an address may begin a TLS handshake, which its rate pays for.
    fn may_shake_hands(&self, peer: IpAddr) -> bool {
        self.rates.account(&Client::at(peer)).handshake().is_ok()
    }
}

/// Takes the points of a page or a file from the rate of its address.
async fn paid_page(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    request: HttpRequest,
    next: Next,
) -> HttpResponse {
    match service.rates.account(&Client::Address(caller.address.0)).read(PAGE_POINTS) {
        Ok(_) => next.run(request).await,
        Err(wait) => limited(MediaType::Json, wait),
    }
}

async fn query_by_get(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
    mut request: HttpRequest,
) -> HttpResponse {
    if socket::is_asked_for(request.headers()) {
        return Box::pin(socket::upgrade(service, request)).await;
    }
    let headers = std::mem::take(request.headers_mut());
    let span = span_of(request.extensions());
    // No pair is longer than its text.
    let bytes = request.uri().query().map_or(0, str::len);
    let parse = move || match pairs {
        Ok(Query(pairs)) => parameters::of_address(pairs),
        Err(rejection) => Err(Error::bad_input(rejection.body_text())),
    };
    if events::are_asked_for(&headers) {
        let asked = events::Asked { caller: &caller, bytes, headers };
        return Box::pin(events::answer(service, asked, parse)).await;
    }
    let Some(media_type) = MediaType::preferred(&headers) else {
        return not_acceptable();
    };
    let parameters = Bytes::copy_from_slice(request.uri().query().unwrap_or_default().as_bytes());
    let (address, method) = (caller.address.0, Method::Get);
    let received = Received { address, parameters, bytes, headers, media_type, method, span };
    execute(service, received, parse).await
}

async fn query_by_post(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    mut request: HttpRequest,
) -> HttpResponse {
    let headers = std::mem::take(request.headers_mut());
    let span = span_of(request.extensions());
    let unread = Unread { service: &service, caller: &caller, is_read: false };
    let is_for_events = events::are_asked_for(&headers);
    let media_type = match is_for_events {
        true => Some(MediaType::Json),
        false => MediaType::preferred(&headers),
    };
    let Some(media_type) = media_type else {
        return not_acceptable();
    };
    if !is_json(&headers) {
        let error = Error::bad_input("invalid Content-Type: expected application/json, in UTF-8");
        return refuse(media_type, StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
    }
    let body = match read_body(request, &caller, &service.bodies).await {
        Ok(body) => body,
        Err(unread) => return unread.answer(media_type),
    };
    unread.end();
    let (bytes, values_max) = (body.len(), service.checks.variable_values_max());
    if is_for_events {
        let asked = events::Asked { caller: &caller, bytes, headers };
        let parse = || parameters::of_body(&body, values_max);
        return Box::pin(events::answer(service, asked, parse)).await;
    }
    let (address, parameters, method) = (caller.address.0, body.clone(), Method::Post);
    let received = Received { address, parameters, bytes, headers, media_type, method, span };
    execute(service, received, move || parameters::of_body(&body, values_max)).await
}

/// A request whose client is not known yet: unless that [ends](Self::end), its address pays
/// [`REFUSED_POINTS`].
struct Unread<'r> {
    service: &'r Service,
    caller: &'r Caller,
    is_read: bool,
}

impl Unread<'_> {
    fn end(mut self) {
        self.is_read = true;
    }
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        if !self.is_read {
            let client = Client::Address(self.caller.address.0);
            self.service.rates.account(&client).read_more(REFUSED_POINTS);
        }
    }
}

fn not_acceptable() -> HttpResponse {
    let error = Error::bad_input(
        "invalid Accept: expected application/graphql-response+json, application/json or text/event-stream",
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
