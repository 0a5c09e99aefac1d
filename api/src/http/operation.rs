//! An operation of a socket: checked, paid for, and executed as often as it has an answer.

mod update;

use std::sync::Arc;

use async_graphql::parser::types::OperationType;
use async_graphql::{Request, Response, ServerError, Value, Variables};
use engine::settings::traces::SPANS;
use futures::stream::{BoxStream, once};
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;
use tracing::field::Empty;

use super::Service;
use super::admission::{Budget, LIGHT_POINTS_MAX};
use super::check::cost::Cost;
use super::check::{Document, memory_of};
use super::execution::{IN_PLACE_BYTES_MAX, REQUEST_POINTS, over_rate, request_points, within};
use super::feeds::ANSWER_BYTES;
use super::parameters::Parameters;
use super::rates::{Account, Client};
use super::response::{fields, server_error};
use super::turns::Turning;
use crate::access::{Principal, is_known};
use crate::cache::shared::GoodUntil;
use crate::error::{Error, Result};
use crate::graphql::change::Changes;
use crate::graphql::request::RequestState;
use crate::graphql::subscription::Following;
use crate::loader::Loaders;
use crate::traces::request::name_operation;
pub use update::Update;

/// Fields whose answers depend on the member that the client is.
const PERSONAL: [&str; 7] =
    ["friends", "friendRequests", "events", "eventId", "mergedInto", "viewer", "visibility"];

/// An operation that was checked.
pub struct Operation {
    query: String,
    operation_name: Option<String>,
    variables: Variables,
    document: Arc<Document>,
    /// The type of the operation.
    pub kind: OperationType,
    cost: Cost,
    /// The memory of its parsed document and its variables, in bytes, about.
    pub bytes: u64,
}

/// Everything that the answers to an operation depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    query: String,
    operation_name: Option<String>,
    variables: String,
    /// The rights of the client.
    pub rights: Option<Arc<Principal>>,
}

/// The outcome of an execution.
pub struct Executed {
    /// The answer, complete.
    pub response: Response,
    /// The points that were spent.
    pub spent: u64,
}

/// Takes what an execution has cost from the rate of a client, unless it is handed on.
struct Charge {
    account: Arc<Account>,
    budget: Arc<Budget>,
    /// The points that are paid.
    paid: u64,
}

impl Operation {
    /// Checks a request, whose hash is replaced by its query and whose text is paid for, and takes
    /// the points of one answer from the rate of its client.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn new(
        service: &Service,
        (client, has_token): (&Client, bool),
        parameters: Parameters,
    ) -> Result<Self, Vec<ServerError>> {
        let refused = |error: Error| vec![server_error(error)];
        let Parameters { mut request, hash } = parameters;
        let checked = service.checks.check(&mut request, has_token).map_err(|error| vec![error])?;
        if let Some(hash) = hash {
            service.persisted_queries.keep(hash, &request.query);
        }
        if checked.kind == OperationType::Mutation {
            let message = "a mutation goes by POST: expected a query or a subscription";
            return Err(refused(Error::bad_input(message)));
        }
        let (points, push_max) = (checked.cost.points, u64::from(service.live.push_cost_max));
        if checked.kind == OperationType::Subscription && points > push_max {
            let message = format!(
                "this subscription costs {points} points an answer: expected at most {push_max}"
            );
            return Err(refused(Error::limit_exceeded(message)));
        }
        let account = service.rates.account(client);
        let paid = account.read(points.saturating_sub(REQUEST_POINTS));
        paid.map_err(|wait| refused(over_rate(wait)))?;
        checked.compare(&account).map_err(|error| vec![error])?;
        Ok(Self {
            query: request.query,
            operation_name: request.operation_name,
            variables: request.variables,
            document: checked.document,
            kind: checked.kind,
            cost: checked.cost,
            bytes: checked.bytes,
        })
    }

    /// True if it costs so much that light ones must not wait for it.
    pub fn is_heavy(&self) -> bool {
        self.cost.points > LIGHT_POINTS_MAX
    }

    /// True if its answers may depend on the member that the client is.
    pub fn is_personal(&self) -> bool {
        PERSONAL.into_iter().any(|field| self.query.contains(field))
    }

    /// Everything that its answers depend on, for a client with some rights.
    pub fn question(&self, rights: Option<Arc<Principal>>) -> Question {
        let variables = serde_json::to_string(&self.variables);
        Question {
            query: self.query.clone(),
            operation_name: self.operation_name.clone(),
            variables: variables.expect("variables came as JSON"),
            rights,
        }
    }

    /// Executes it once, within the time of a query; in turns if it is anyone's and costly, by its
    /// text or by what it turns out to cost. If this is dropped before its end, the client pays for
    /// what was done.
    pub async fn execute(
        self: &Arc<Self>,
        service: &Service,
        (client, principal): (&Client, Option<Arc<Principal>>),
        following: &Following,
    ) -> Executed {
        let may_turn = !is_known(principal.as_deref());
        let account = service.rates.account(client);
        let (operation, owned, following) = (self.clone(), service.clone(), following.clone());
        let run = |turning| {
            let running = async move {
                operation.run(&owned, (account, principal), following, turning).await
            };
            Box::pin(running)
        };
        let span = tracing::info_span!(
            target: SPANS,
            parent: None,
            "operation",
            "graphql.operation.type" = Empty,
            "graphql.operation.name" = Empty,
            laurel.points = Empty,
        );
        name_operation(&span, self.kind, &self.document, self.operation_name.as_deref());
        let heaviness = (may_turn, self.is_heavy());
        let executing = service.turns.run_when_heavy(heaviness, span.clone(), run);
        let executing = executing.instrument(span.clone());
        let executed = within(service.query_timeout, executing).await.flatten();
        let executed = executed.unwrap_or_else(|error| {
            let response = Response::from_errors(vec![server_error(error)]);
            Executed { response, spent: self.cost.points }
        });
        span.record("laurel.points", executed.spent);
        executed
    }

    async fn run(
        &self,
        service: &Service,
        (account, principal): (Arc<Account>, Option<Arc<Principal>>),
        following: Following,
        turning: Option<Arc<Turning>>,
    ) -> Result<Executed> {
        let points = self.cost.points;
        let budget = service.admission.enter(points, self.bytes, self.is_heavy()).await?;
        let budget = budget.turning(turning);
        let budget = Arc::new(match self.kind {
            OperationType::Subscription => budget.at_most(service.live.push_cost_max.into()),
            _ => budget,
        });
        // Dropped where the work is, after it.
        let charge = Charge { account, budget: budget.clone(), paid: self.cost.points };
        let state = RequestState {
            now_ms: service.app.deployment.clock.now_ms(),
            principal,
            good_until: GoodUntil::new(Instant::now() + service.app.cache_age),
            loaders: Loaders::new(&service.app),
            budget,
            changes: Arc::new(Changes::default()),
        };
        let mut request = self.request();
        request.set_parsed_query((*self.document).clone());
        let schema = self.document.schema(&service.schemas);
        let mut answers = schema.execute_stream(request.data(state).data(following));
        let response = answers.next().await;
        let mut response = response.ok_or_else(|| Error::internal(&"it gave no answer"))?;
        if response.data != Value::Null {
            fields::complete(&mut response, &self.document, self.operation_name.as_deref());
        }
        Ok(Executed { response, spent: charge.hand_on() })
    }

    fn request(&self) -> Request {
        let request = Request::new(self.query.clone()).variables(self.variables.clone());
        match &self.operation_name {
            Some(name) => request.operation_name(name.clone()),
            None => request,
        }
    }
}

impl Charge {
    /// The points of the execution. The caller sees that they are paid.
    fn hand_on(mut self) -> u64 {
        self.paid = u64::MAX;
        self.budget.cost()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.read_more(self.budget.cost().saturating_sub(self.paid));
    }
}

/// Pays for the text of an operation, and checks it as [`Operation::new`] does; a long one of an
/// unknown client in its turn, until which it holds memory for subscriptions.
async fn check(
    service: &Service,
    client: &Client,
    principal: Option<&Principal>,
    parameters: Result<Parameters>,
    bytes: usize,
) -> Result<Operation, Vec<ServerError>> {
    let has_token = principal.is_some();
    let refused = |error: Error| vec![server_error(error)];
    let paid = service.rates.account(client).read(request_points(bytes));
    paid.map_err(|wait| refused(over_rate(wait)))?;
    // A hash may stand for a long text.
    let parameters = parameters.and_then(|mut parameters| {
        if let Some(hash) = parameters.hash {
            service.persisted_queries.complete(&mut parameters.request, hash)?;
        }
        Ok(parameters)
    });
    let parameters = parameters.map_err(refused)?;
    let query_bytes = parameters.request.query.len();
    if bytes.max(query_bytes) <= IN_PLACE_BYTES_MAX || is_known(principal) {
        return Operation::new(service, (client, has_token), parameters);
    }
    let held = memory_of(query_bytes, &parameters.request.variables);
    let held = service.sockets.hold(client, held).map_err(refused)?;
    let (of_turn, client) = (service.clone(), client.clone());
    let checking = async move {
        let _held = held;
        Operation::new(&of_turn, (&client, has_token), parameters)
    };
    let checked = within(service.query_timeout, service.turns.run(checking)).await;
    checked.unwrap_or_else(|error| Err(refused(error)))
}

/// The answers to an operation of a socket: one to a query, any number to a subscription.
pub fn answers(
    service: Service,
    client: Client,
    principal: Option<Arc<Principal>>,
    parameters: Result<Parameters>,
    bytes: usize,
) -> BoxStream<'static, Arc<Update>> {
    // In a task of its own: a client that takes nothing of another answer must not hold up what a
    // query has entered, and what others wait for.
    let beginning = tokio::spawn(async move {
        let checked = check(&service, &client, principal.as_deref(), parameters, bytes).await;
        let operation = match checked {
            Ok(operation) => Arc::new(operation),
            Err(errors) => return one(Update::refusal(errors)),
        };
        if operation.kind == OperationType::Subscription {
            let subscribed =
                service.feeds.subscribe(&service, client, principal.as_deref(), operation);
            return subscribed.await;
        }
        let of_client = (&client, principal);
        let executed = operation.execute(&service, of_client, &Following::nothing()).await;
        let mut update = Update::new(executed, service.live.push_bytes_max, 1);
        // The points of the text are in those that were spent, and are paid.
        let more = (update.sent + update.executed).saturating_sub(operation.cost.points);
        service.rates.account(&client).read_more(more);
        match service.sockets.hold(&client, ANSWER_BYTES * update.json.len() as u64) {
            Ok(held) => update.held = Some(held),
            Err(error) => update = Update::refusal(vec![server_error(error)]),
        }
        one(update)
    });
    let beginning = AbortOnDropHandle::new(beginning).map(|begun| {
        begun.unwrap_or_else(|error| {
            one(Update::refusal(vec![server_error(Error::internal(&error))]))
        })
    });
    once(beginning).flatten().boxed()
}

/// The only answer.
pub fn one(update: Update) -> BoxStream<'static, Arc<Update>> {
    once(std::future::ready(Arc::new(update))).boxed()
}
