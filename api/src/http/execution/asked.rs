//! A request whose client is known: checked, admitted, executed and charged.

use std::sync::Arc;

use async_graphql::parser::types::OperationType;
use async_graphql::{Name, Request, Response, Value};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response as HttpResponse;
use engine::settings::traces::SPANS;
use indexmap::indexmap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::{BYTES_A_POINT, Method, REQUEST_POINTS, Received, limited, refuse_unfinished, within};
use crate::access::{Principal, is_known};
use crate::cache::shared::GoodUntil;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::change::Changes;
use crate::graphql::request::RequestState;
use crate::http::Service;
use crate::http::admission::{Budget, LIGHT_POINTS_MAX};
use crate::http::answers::AnswerKey;
use crate::http::check::Checked;
use crate::http::check::cost::Cost;
use crate::http::persisted::QueryHash;
use crate::http::rates::{Account, Client};
use crate::http::response::{Answer, MediaType, Room, fields, refuse, reject, server_error};
use crate::http::shares::Part;
use crate::http::slow::Timed;
use crate::http::turns::Turning;
use crate::loader::Loaders;
use crate::metrics::METRICS;
use crate::traces::request::name_operation;

/// The message for a subscription that asks for one answer.
const NO_STREAM: &str = "a subscription needs a WebSocket (graphql-transport-ws) or an event stream: expected Accept: text/event-stream";

/// The message for a mutation that no token may send.
const NO_TOKEN: &str = "mutations need an access token: send it as \"Authorization: Bearer …\"";

/// The message for a mutation that finds no memory.
const MUTATIONS_BUSY: &str = "unfinished mutations use too much memory, and nothing of this one was done; send it again in a second";

/// A request whose client is known.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) hash: Option<QueryHash>,
    /// Under which other requests may share the answer.
    pub(super) question: Option<AnswerKey>,
    pub(super) principal: Option<Arc<Principal>>,
    pub(super) account: Arc<Account>,
    pub(super) wants_cost: bool,
    /// True if the request computes in turns already.
    pub(super) in_turns: bool,
}

/// Takes what a request has cost beyond its text from the rate of its client, however it ends.
struct Charge<'a> {
    account: &'a Account,
    budget: &'a Budget,
    /// The part that the client has paid.
    cost: Cost,
    /// The points that the answer's bytes take.
    answer_points: u64,
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        let points = self.budget.cost() - self.cost.points + self.answer_points;
        self.account.read_more(points);
        let changes = u64::from(self.cost.changes);
        self.account.write_more(self.budget.standings().saturating_sub(changes));
    }
}

impl Asked {
    /// Checks the request and finds its answer.
    pub(super) async fn answer(mut self, service: Service, received: Received) -> HttpResponse {
        let media_type = received.media_type;
        let is_anonymous = self.principal.is_none();
        let checked = match service.checks.check(&mut self.request, !is_anonymous) {
            Ok(checked) => checked,
            Err(error) => return reject(media_type, vec![error]),
        };
        if let Some(hash) = self.hash {
            service.persisted_queries.keep(hash, &self.request.query);
        }
        let span = received.span.clone();
        let name = self.request.operation_name.as_deref();
        name_operation(&span, checked.kind, &checked.document, name);
        if received.method == Method::Get && checked.kind == OperationType::Mutation {
            return not_allowed(media_type);
        }
        if checked.kind == OperationType::Subscription {
            return reject(media_type, vec![server_error(Error::bad_input(NO_STREAM))]);
        }
        let is_mutation = checked.kind == OperationType::Mutation;
        let memory = &service.mutations_memory;
        if is_mutation && checked.bytes > memory.part_max() {
            let error = too_long(checked.bytes, memory.part_max());
            return reject(media_type, vec![server_error(error)]);
        }
        let held = is_mutation.then(|| memory.take(&self.account.client, checked.bytes));
        if let Some(None) = held {
            METRICS.requests_refused.busy.inc();
            let busy = Error::new(ErrorCode::Unavailable, MUTATIONS_BUSY);
            return received.send(Answer::busy(&busy), is_anonymous);
        }
        // The request has paid for its text.
        let points = checked.cost.points.saturating_sub(REQUEST_POINTS);
        let taken = self.account.read(points);
        let taken = taken.and_then(|_| self.account.write(checked.cost.changes));
        if let Err(wait) = taken {
            return limited(media_type, wait);
        }
        if let Err(error) = checked.compare(&self.account) {
            return reject(media_type, vec![error]);
        }
        let began = Instant::now();
        let is_costly = checked.cost.points > LIGHT_POINTS_MAX;
        let may_turn = !is_known(self.principal.as_deref()) && !self.in_turns;
        // The executor would read its arguments before it is refused.
        if is_mutation && is_anonymous && is_costly {
            return reject(media_type, vec![server_error(Error::unauthenticated(NO_TOKEN))]);
        }
        let (seconds, answer) = match checked.kind {
            OperationType::Mutation => {
                let changed = self.change(service, checked, held.flatten(), span).await;
                (&METRICS.mutation_seconds, changed)
            }
            _ => {
                let timeout = service.query_timeout;
                let of_turns = service.clone();
                let of_run = span.clone();
                let run = |turning| Box::pin(self.run(service, checked, (None, turning), of_run));
                let answer = of_turns.turns.run_when_heavy((may_turn, is_costly), span, run);
                (&METRICS.query_seconds, within(timeout, answer).await)
            }
        };
        seconds.observe(began.elapsed().as_secs_f64());
        match answer {
            Ok(answer) => received.send(answer, is_anonymous),
            Err(error) => refuse_unfinished(media_type, &error),
        }
    }

    /// Executes a mutation, which holds its part of a memory until it has ended. It goes on when
    /// its client leaves: what it commits counts, and the client may ask for it again.
    async fn change(
        self,
        service: Service,
        checked: Checked,
        held: Option<Part<Client>>,
        span: Span,
    ) -> Result<Answer> {
        let timeout = service.mutation_timeout;
        let gone = CancellationToken::new();
        let _here = gone.clone().drop_guard();
        let running = self.run(service, checked, (Some(gone), None), span.clone());
        let running = async move {
            let _held = held;
            running.await
        };
        let task = tokio::spawn(running.in_current_span().instrument(span));
        let answer = async { task.await.map_err(|error| Error::internal(&error)) };
        within(timeout, answer).await
    }

    /// Finds the answer: that of the same request which is being executed, or of this one. A
    /// mutation goes on when its client has gone, and learns it.
    async fn run(
        self,
        service: Service,
        checked: Checked,
        (gone, turning): (Option<CancellationToken>, Option<Arc<Turning>>),
        span: Span,
    ) -> Answer {
        let good_until = GoodUntil::new(Instant::now() + service.app.cache_age);
        let Self { request, question, principal, account, wants_cost, in_turns, .. } = self;
        let is_heavy = in_turns || checked.cost.points > LIGHT_POINTS_MAX;
        let execution = async {
            let (points, began) = (checked.cost.points, Instant::now());
            let admission = &service.admission;
            let entered = match checked.kind {
                // Reads must not slow writes, of which each client has its own rate.
                OperationType::Mutation => {
                    admission.enter_to_change(points, checked.cost.objects).await
                }
                _ => admission.enter(points, checked.bytes, is_heavy).await,
            };
            let budget = match entered {
                Ok(budget) => budget,
                Err(error) => return Answer::busy(&error),
            };
            let budget = Arc::new(budget.turning(turning));
            let changes = Arc::new(Changes::default());
            let state = RequestState {
                now_ms: service.app.deployment.clock.now_ms(),
                principal,
                good_until: good_until.clone(),
                loaders: Loaders::new(&service.app),
                budget: budget.clone(),
                changes: changes.clone(),
            };
            let cost = checked.cost;
            let mut charge = Charge { account: &account, budget: &budget, cost, answer_points: 0 };
            let name = request.operation_name.clone();
            let slow = service.slow;
            let of_request = (&checked, name.as_deref(), &span);
            let _timed = Timed { began, slow, of_request, budget: &budget };
            let may_write = state.principal.as_ref().is_some_and(|principal| principal.may_write());
            let over = gone.as_ref().map(|gone| changes.are_over(gone, service.query_timeout));
            let request = request.data(state);
            let mut response =
                respond(&service, (request, name.as_deref()), &checked, may_write, over).await;
            if wants_cost {
                let cost = indexmap! {
                    Name::new("points") => Value::from(budget.spent()),
                    Name::new("limit") => Value::from(budget.max()),
                };
                response.extensions.insert("cost".to_owned(), Value::Object(cost));
            }
            let room = Room {
                bytes_max: service.answer_bytes_max,
                memory: &service.answers_memory,
                client: &account.client,
                is_of_mutation: checked.kind == OperationType::Mutation,
            };
            let answer = Answer::new(response, &room);
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

/// The error of a mutation that no client may hold in memory.
fn too_long(bytes: u64, bytes_max: u64) -> Error {
    Error::limit_exceeded(format!(
        "the query and the variables of this mutation take {bytes} bytes of memory: expected at most {bytes_max}; send fewer items in one request"
    ))
}

/// The error of a mutation whose client has gone.
fn abandoned() -> Error {
    Error::new(ErrorCode::Timeout, "the client has gone")
}

/// Answers a mutation by GET.
fn not_allowed(media_type: MediaType) -> HttpResponse {
    let error = Error::bad_input("invalid method: expected POST for a mutation");
    let mut answer = refuse(media_type, StatusCode::METHOD_NOT_ALLOWED, &error);
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    answer
}

/// Executes a request of an operation, unless it is `over` before, and puts the fields of its
/// answer into their order.
async fn respond(
    service: &Service,
    (request, operation_name): (Request, Option<&str>),
    checked: &Checked,
    may_write: bool,
    over: Option<impl Future<Output = ()>>,
) -> Response {
    let schema = checked.document.schema(&service.schemas);
    let span = tracing::info_span!(target: SPANS, "execute");
    // In a box: futures are copied while they are made, and this one is large.
    let executing = Box::pin(schema.execute(request).instrument(span));
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
    checked.document.note(&response);
    fields::complete(&mut response, &checked.document, operation_name);
    response
}
