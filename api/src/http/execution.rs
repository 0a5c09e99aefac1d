//! One request, from its headers to its answer.
//!
//! The order is the wall: the client's token and rate come first, then the checks of the text, then
//! admission, then execution, within a time. All but the first ends when the client leaves. But a
//! change goes on to its end, and the reads after it for the time of a query. A long request has a
//! task of its own.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::parser::types::OperationType;
use async_graphql::{Name, Request, Response, Value};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response as HttpResponse;
use futures::FutureExt;
use indexmap::indexmap;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Service;
use super::admission::Budget;
use super::answers::AnswerKey;
use super::check::Checked;
use super::check::cost::Cost;
use super::parameters::Parameters;
use super::persisted::QueryHash;
use super::rates::{Client, Rates, RetryAfter};
use super::response::field_order;
use super::response::{Answer, MediaType, refuse, refuse_for, reject, server_error};
use crate::access::{Principal, Scope};
use crate::cache::shared::GoodUntil;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::change::Changes;
use crate::graphql::request::RequestState;
use crate::loader::Loaders;
use crate::metrics::METRICS;

/// How long a mutation may take. One that takes longer makes its changes all the same.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The points of a request besides those of its text: it is parsed, and may be answered from a
/// cache.
const REQUEST_POINTS: u64 = 20;

/// The bytes of a body or an answer that take a point to parse, write and compress.
const BYTES_A_POINT: u64 = 64;

/// The longest parameters, in bytes, of a request that is checked and executed in the task of its
/// connection, as a task of its own takes some microseconds. Longer ones may take milliseconds to
/// check.
const IN_PLACE_BYTES_MAX: usize = 4 << 10;

/// How long a token that is not known waits for its check at an address of many failed ones.
const FAILED_TOKENS_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

/// All of a request but its parameters.
pub struct Received {
    /// The client's address.
    pub address: IpAddr,
    /// The bytes of its parameters.
    pub bytes: usize,
    /// The headers.
    pub headers: HeaderMap,
    /// The media type of the answer.
    pub media_type: MediaType,
    /// The method.
    pub method: Method,
}

impl Received {
    /// True if the client wants to know what the request cost.
    fn wants_cost(&self) -> bool {
        self.headers.get("x-laurel-cost").is_some_and(|value| value == "1")
    }

    fn send(&self, answer: Answer, is_anonymous: bool) -> HttpResponse {
        match self.method {
            Method::Get if is_anonymous && !self.wants_cost() => {
                answer.send_to_all(self.media_type, &self.headers)
            }
            _ => answer.send(self.media_type),
        }
    }
}

/// Executes a request: finds the client, and its answer among those that are there, or else
/// executes it; a long one in a task of its own.
pub async fn execute(
    service: Service,
    received: Received,
    parse: impl FnOnce() -> Result<Parameters>,
) -> HttpResponse {
    let media_type = received.media_type;
    let principal = match principal(&service, &received).await {
        Ok(principal) => principal,
        Err(refusal) => return refusal,
    };
    let client = match &principal {
        Some(principal) => Client::Token(principal.id.clone()),
        None => Client::at(received.address),
    };
    let points = REQUEST_POINTS + received.bytes as u64 / BYTES_A_POINT;
    if let Err(wait) = service.rates.read(&client, points) {
        return limited(media_type, wait);
    }
    let Parameters { mut request, hash } = match parse() {
        Ok(parameters) => parameters,
        Err(error) => return refuse(media_type, StatusCode::BAD_REQUEST, &error),
    };
    if let Some(hash) = hash
        && let Err(error) = service.persisted_queries.complete(&mut request, hash)
    {
        return refuse_hash(media_type, error);
    }
    let wants_cost = received.wants_cost();
    let question = (principal.is_none() && !wants_cost).then(|| AnswerKey::of(&request));
    if let Some(question) = &question
        && let Some(answer) = service.answers.get(question).await
    {
        METRICS.answers.hits.inc();
        service.rates.read_more(&client, answer.bytes() as u64 / BYTES_A_POINT);
        if let Some(hash) = hash {
            service.persisted_queries.keep(hash, &request.query);
        }
        return received.send(answer, true);
    }
    let is_short = received.bytes <= IN_PLACE_BYTES_MAX;
    let asked = Asked { request, hash, question, principal, client, wants_cost };
    let answering = Box::pin(asked.answer(service, received));
    let answer = match is_short {
        true => AssertUnwindSafe(answering).catch_unwind().await.map_err(|_| "it panicked".into()),
        false => AbortOnDropHandle::new(tokio::spawn(answering)).await.map_err(|e| e.to_string()),
    };
    answer.unwrap_or_else(|reason| {
        refuse(media_type, StatusCode::INTERNAL_SERVER_ERROR, &failed(&reason))
    })
}

fn failed(reason: &str) -> Error {
    tracing::error!(reason, "the execution of a request failed");
    Error::new(ErrorCode::Internal, "internal error; the server's log has the cause")
}

async fn within(time: Duration, execution: impl Future<Output = Result<Answer>>) -> Result<Answer> {
    timeout(time, execution).await.unwrap_or_else(|_| {
        let message = format!("the request took longer than {} ms", time.as_millis());
        Err(Error::new(ErrorCode::Timeout, message))
    })
}

/// The error of a mutation whose client has gone.
fn abandoned() -> Error {
    Error::new(ErrorCode::Timeout, "the client has gone")
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

/// Executes a request, unless it is `over` before, and puts the fields of its answer into their
/// order.
async fn respond(
    service: &Service,
    request: Request,
    checked: &Checked,
    may_write: bool,
    over: Option<impl Future<Output = ()>>,
) -> Response {
    let operation_name = request.operation_name.clone();
    // In a box: futures are copied while they are made, and this one is large.
    let executing = Box::pin(service.schema.execute(request));
    let mut response = match over {
        None => executing.await,
        Some(over) => tokio::select! {
            response = executing => response,
            () = over => Response::from_errors(vec![server_error(abandoned())]),
        },
    };
    if checked.kind == OperationType::Mutation && may_write {
        // From here on no cache serves values fetched before the write; only then may the client
        // learn of it.
        service.app.deployment.store.note_own_write();
    }
    field_order::restore(&mut response.data, &checked.document, operation_name.as_deref());
    response
}

/// The principal of a request's token; `None` without one, where reads are public.
async fn principal(
    service: &Service,
    received: &Received,
) -> Result<Option<Arc<Principal>>, HttpResponse> {
    let app = &service.app;
    let unauthenticated = |message: &str| {
        let error = Error::unauthenticated(message);
        refuse(received.media_type, StatusCode::UNAUTHORIZED, &error)
    };
    let Some(value) = received.headers.get(header::AUTHORIZATION) else {
        return match app.public_reads {
            true => Ok(None),
            false => Err(unauthenticated("this server needs an access token for reads too")),
        };
    };
    let token = value.to_str().ok().and_then(|value| value.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = token else {
        return Err(unauthenticated("invalid Authorization: expected \"Bearer <token>\""));
    };
    let token = token.trim();
    let now_ms = app.deployment.clock.now_ms();
    if let Some(principal) = app.access.cached(token, now_ms).await {
        return Ok(Some(principal));
    }
    if service.rates.has_failed_tokens(received.address) {
        // Others may share the address, so that a good token is only late.
        sleep(FAILED_TOKENS_DELAY).await;
    }
    match Box::pin(app.access.check(&app.deployment.lookups, token, now_ms)).await {
        Ok(principal) => Ok(Some(principal)),
        Err(error) if error.code == ErrorCode::Unauthenticated => {
            service.rates.token_failed(received.address);
            Err(unauthenticated(&error.message))
        }
        Err(error) => Err(refuse(received.media_type, StatusCode::SERVICE_UNAVAILABLE, &error)),
    }
}

/// Answers a client that asks for more than its rate.
fn limited(media_type: MediaType, RetryAfter(wait): RetryAfter) -> HttpResponse {
    let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
    let message = format!("too much at once; try again in {seconds} s");
    let error = Error::new(ErrorCode::RateLimited, message);
    refuse_for(media_type, StatusCode::TOO_MANY_REQUESTS, &error, seconds)
}

/// A request whose client is known.
struct Asked {
    request: Request,
    hash: Option<QueryHash>,
    /// Under which other requests may share the answer.
    question: Option<AnswerKey>,
    principal: Option<Arc<Principal>>,
    client: Client,
    wants_cost: bool,
}

/// Takes what a request has cost beyond its text from the rate of its client, however it ends.
struct Charge<'a> {
    rates: &'a Rates,
    client: &'a Client,
    budget: &'a Budget,
    /// The part that the client has paid.
    cost: Cost,
    /// The points that the answer's bytes take.
    answer_points: u64,
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        let points = self.budget.spent() - self.cost.points + self.answer_points;
        self.rates.read_more(self.client, points);
        let changes = u64::from(self.cost.changes);
        self.rates.write_more(self.client, self.budget.standings().saturating_sub(changes));
    }
}

impl Asked {
    async fn answer(mut self, service: Service, received: Received) -> HttpResponse {
        let media_type = received.media_type;
        let is_anonymous = self.principal.is_none();
        let checked = match service.checks.check(&mut self.request, !is_anonymous) {
            Ok(checked) => checked,
            Err(error) => return reject(media_type, vec![error]),
        };
        if let Some(hash) = self.hash {
            service.persisted_queries.keep(hash, &self.request.query);
        }
        if received.method == Method::Get && checked.kind == OperationType::Mutation {
            return not_allowed(media_type);
        }
        // The request has paid for its text.
        let points = checked.cost.points.saturating_sub(REQUEST_POINTS);
        let taken = service.rates.read(&self.client, points);
        let taken = taken.and_then(|()| service.rates.write(&self.client, checked.cost.changes));
        if let Err(wait) = taken {
            return limited(media_type, wait);
        }
        let began = Instant::now();
        let (seconds, answer) = match checked.kind {
            // A mutation goes on when its client leaves: what it commits counts, and the client may
            // ask for it again.
            OperationType::Mutation => {
                let gone = CancellationToken::new();
                let _here = gone.clone().drop_guard();
                let task = tokio::spawn(self.run(service, checked, Some(gone)));
                let answer = async { task.await.map_err(|error| failed(&error.to_string())) };
                (&METRICS.mutation_seconds, within(REQUEST_TIMEOUT, answer).await)
            }
            _ => {
                let timeout = service.query_timeout;
                let answer = async { Ok(Box::pin(self.run(service, checked, None)).await) };
                (&METRICS.query_seconds, within(timeout, answer).await)
            }
        };
        seconds.observe(began.elapsed().as_secs_f64());
        match answer {
            Ok(answer) => received.send(answer, is_anonymous),
            Err(error) => match error.code {
                ErrorCode::Timeout => refuse(media_type, StatusCode::GATEWAY_TIMEOUT, &error),
                _ => refuse(media_type, StatusCode::INTERNAL_SERVER_ERROR, &error),
            },
        }
    }

    /// Finds the answer: that of the same request which is being executed, or of this one. A
    /// mutation goes on when its client has gone, and learns it.
    async fn run(
        self,
        service: Service,
        checked: Checked,
        gone: Option<CancellationToken>,
    ) -> Answer {
        let good_until = GoodUntil::new(Instant::now() + service.app.cache_age);
        let Self { request, question, principal, client, wants_cost, .. } = self;
        let execution = async {
            let points = checked.cost.points;
            let budget = match checked.kind {
                // Reads must not slow writes, of which each client has its own rate.
                OperationType::Mutation => service.admission.enter_at_once(points),
                _ => match service.admission.enter(points, checked.bytes).await {
                    Ok(budget) => budget,
                    Err(error) => return Answer::busy(&error),
                },
            };
            let budget = Arc::new(budget);
            let changes = Arc::new(Changes::default());
            let state = RequestState {
                now_ms: service.app.deployment.clock.now_ms(),
                principal,
                good_until: good_until.clone(),
                loaders: Loaders::new(&service.app),
                budget: budget.clone(),
                changes: changes.clone(),
            };
            let rates = &service.rates;
            let cost = checked.cost;
            let mut charge =
                Charge { rates, client: &client, budget: &budget, cost, answer_points: 0 };
            let may_write = state.require(Scope::Submit).is_ok();
            let over = gone.as_ref().map(|gone| changes.are_over(gone, service.query_timeout));
            let request = request.data(state);
            let mut response = respond(&service, request, &checked, may_write, over).await;
            if wants_cost {
                let cost = indexmap! {
                    Name::new("points") => Value::from(budget.spent()),
                    Name::new("limit") => Value::from(budget.max()),
                };
                response.extensions.insert("cost".to_owned(), Value::Object(cost));
            }
            let answer = Answer::new(response, service.answer_bytes_max, &service.answers_memory);
            charge.answer_points = answer.bytes() as u64 / BYTES_A_POINT;
            answer
        };
        match question.filter(|_| checked.kind == OperationType::Query) {
            Some(question) => {
                METRICS.answers.misses.inc();
                service.answers.find(&question, &good_until, execution).await
            }
            None => execution.await,
        }
    }
}
