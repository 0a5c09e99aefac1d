//! One request, from its headers to its answer.
//!
//! The order is the wall: the client's token and rate come first, then the checks of the text, then
//! admission, then execution, within a time. All but the first ends when the client leaves. But a
//! change goes on to its end, and the reads after it for the time of a query. A long request has a
//! task of its own.
//!
//! Heavy requests without a token compute in [turns](super::turns): long ones, and those of a
//! client that has spent much lately, from their parsing on; others of many points from their
//! execution on.

mod asked;

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response as HttpResponse;
use futures::FutureExt;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, Span};

use self::asked::Asked;
use super::Service;
use super::login;
use super::parameters::Parameters;
use super::rates::{Account, Client, RetryAfter};
use super::request_id::{id_of, under_id};
use super::response::{Answer, MediaType, refuse, refuse_for, reject, server_error};
use crate::access::{Principal, is_known};
use crate::error::{Error, ErrorCode, Result};
use crate::metrics::METRICS;

/// The points of a request besides those of its text: it is parsed, and may be answered from a
/// cache.
pub(super) const REQUEST_POINTS: u64 = 20;

/// The bytes of a body or an answer that take a point to parse, write and compress.
const BYTES_A_POINT: u64 = 64;

/// The points of a request, a message or an answer of so many bytes.
pub(super) fn request_points(bytes: usize) -> u64 {
    REQUEST_POINTS + bytes as u64 / BYTES_A_POINT
}

/// The longest parameters, in bytes, of a request that is checked and executed in the task of its
/// connection, as a task of its own takes some microseconds. Longer ones may take milliseconds to
/// check.
pub(super) const IN_PLACE_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
}

/// A request as it came.
pub struct Received {
    /// The client's address.
    pub address: IpAddr,
    /// The body, or the query string of the URL.
    pub parameters: Bytes,
    /// The length of the parameters once they are decoded, in bytes.
    pub bytes: usize,
    /// The headers.
    pub headers: HeaderMap,
    /// The media type of the answer.
    pub media_type: MediaType,
    /// The method.
    pub method: Method,
    /// The span of the request, if spans are sent. Another task enters it beside the one that the
    /// log shows: the exporter sees no other.
    pub span: Span,
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

/// Executes a request, under its id if it has one.
pub async fn execute(
    service: Service,
    received: Received,
    parse: impl FnOnce() -> Result<Parameters> + Send + 'static,
) -> HttpResponse {
    under_id(id_of(&received.headers), answered(service, received, parse)).await
}

/// Answers a request: finds the client, and its answer among those that are there, or else
/// executes it; a long one in a task of its own.
async fn answered(
    service: Service,
    received: Received,
    parse: impl FnOnce() -> Result<Parameters> + Send + 'static,
) -> HttpResponse {
    let (media_type, points) = (received.media_type, request_points(received.bytes));
    let principal = match principal(&service, &received).await {
        Ok(principal) => principal,
        Err(refusal) => {
            // Its body has been read.
            service.rates.account(&Client::at(received.address)).read_more(points);
            return refusal;
        }
    };
    let client = login::client(principal.as_deref(), received.address);
    let account = service.rates.account(&client);
    let is_heavy = match account.read(points) {
        Ok(is_heavy) => is_heavy,
        Err(wait) => return limited(media_type, wait),
    };
    let is_long = received.bytes > IN_PLACE_BYTES_MAX;
    let in_turns = !is_known(principal.as_deref()) && (is_long || is_heavy);
    let found = Found { principal, account, in_turns };
    let span = received.span.clone();
    let answering = Box::pin(found.answer(service.clone(), received, parse));
    let answer = if in_turns {
        within(service.query_timeout, service.turns.run(answering.instrument(span))).await
    } else if is_long {
        own_task(answering.instrument(span)).await
    } else {
        let answer = AssertUnwindSafe(answering).catch_unwind().await;
        answer.map_err(|_| Error::internal(&"it panicked"))
    };
    answer.unwrap_or_else(|error| refuse_unfinished(media_type, &error))
}

/// Answers a request in a task of its own, which ends when the caller does.
async fn own_task(
    answering: impl Future<Output = HttpResponse> + Send + 'static,
) -> Result<HttpResponse> {
    let answer = AbortOnDropHandle::new(tokio::spawn(answering.in_current_span())).await;
    answer.map_err(|error| Error::internal(&error))
}

/// The client of a request.
struct Found {
    principal: Option<Arc<Principal>>,
    account: Arc<Account>,
    /// True if the request computes in turns from now on.
    in_turns: bool,
}

impl Found {
    /// Answers a request from the answers that are there, or executes it.
    async fn answer(
        self,
        service: Service,
        received: Received,
        parse: impl FnOnce() -> Result<Parameters>,
    ) -> HttpResponse {
        let Self { principal, account, in_turns } = self;
        let media_type = received.media_type;
        let wants_cost = received.wants_cost();
        let question = match wants_cost {
            true => None,
            false => service.answers.question(&received, principal.as_ref()),
        };
        if let Some(question) = &question
            && let Some(answer) = service.answers.get(question).await
        {
            METRICS.answers.hits.inc();
            received.span.record("laurel.cached", true);
            account.read_more(answer.bytes() as u64 / BYTES_A_POINT);
            return received.send(answer, principal.is_none());
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
        // A hash may stand for a long text.
        let is_long = request.query.len() > IN_PLACE_BYTES_MAX;
        let begins_turns = is_long && !is_known(principal.as_deref()) && !in_turns;
        if hash.is_some() {
            account.read_more(request.query.len() as u64 / BYTES_A_POINT);
        }
        let in_turns = in_turns || begins_turns;
        let span = received.span.clone();
        let asked = Asked { request, hash, question, principal, account, wants_cost, in_turns };
        // In a box, as most answers to those without a token are there.
        let asking = Box::pin(asked.answer(service.clone(), received));
        if !begins_turns {
            return asking.await;
        }
        let answer =
            within(service.query_timeout, service.turns.run(asking.instrument(span))).await;
        answer.unwrap_or_else(|error| refuse_unfinished(media_type, &error))
    }
}

pub(super) async fn within<T>(
    time: Duration,
    execution: impl Future<Output = Result<T>>,
) -> Result<T> {
    timeout(time, execution).await.unwrap_or_else(|_| {
        let message = format!("the request took longer than {} ms", time.as_millis());
        Err(Error::new(ErrorCode::Timeout, message))
    })
}

/// Answers a request that was not executed to its end.
fn refuse_unfinished(media_type: MediaType, error: &Error) -> HttpResponse {
    match error.code {
        ErrorCode::Unavailable => Answer::busy(error).send(media_type),
        ErrorCode::Timeout => refuse(media_type, StatusCode::GATEWAY_TIMEOUT, error),
        _ => refuse(media_type, StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

/// Answers a request whose persisted query is unknown or another one.
fn refuse_hash(media_type: MediaType, error: Error) -> HttpResponse {
    match error.code {
        ErrorCode::BadUserInput => refuse(media_type, StatusCode::BAD_REQUEST, &error),
        _ => reject(media_type, vec![server_error(error)]),
    }
}

/// The principal of a request's token; `None` without one, where reads are public.
async fn principal(
    service: &Service,
    received: &Received,
) -> Result<Option<Arc<Principal>>, HttpResponse> {
    let found = match login::token_of(&received.headers) {
        Ok(token) => login::principal(service, received.address, token).await,
        Err(error) => Err(error),
    };
    found.map_err(|error| refuse_login(received.media_type, &error))
}

/// Answers a client whose token is not good, or cannot be checked now.
pub fn refuse_login(media_type: MediaType, error: &Error) -> HttpResponse {
    let status = match error.code.is_of_token() {
        true => StatusCode::UNAUTHORIZED,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    refuse(media_type, status, error)
}

/// Answers a client that asks for more than its rate.
pub fn limited(media_type: MediaType, wait: RetryAfter) -> HttpResponse {
    let seconds = wait.seconds();
    let error = over_rate(wait);
    refuse_for(media_type, StatusCode::TOO_MANY_REQUESTS, &error, seconds)
}

/// The error of a client that asks for more than its rate.
pub fn over_rate(wait: RetryAfter) -> Error {
    let message = format!("too much at once; try again in {} s", wait.seconds());
    Error::new(ErrorCode::RateLimited, message)
}
