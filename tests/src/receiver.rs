//! A receiver of events, and the webhook that sends them to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use rand::RngExt;
use serde_json::{Value, json};
use standardwebhooks::Webhook as Convention;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::model::game::seeded;
use crate::wait::until;

/// Settings of a server whose receivers are on this machine, and that tries again at once.
pub const SETTINGS: [(&str, &str); 2] =
    [("LAUREL_WEBHOOK_ALLOW", "127.0.0.0/8"), ("LAUREL_WEBHOOK_RETRY_MS", "20")];

/// The most requests in a row that fail by chance. The pause after each is twice the one before.
const FAILURES_MAX: u32 = 6;

const CREATE: &str = "
    mutation($input: CreateWebhookInput!) { createWebhook(input: $input) {
        secret webhook { id }
    } }";

const WEBHOOK: &str = "
    query($id: ID!) { node(id: $id) { ... on Webhook {
        id name url events board { slug } state reason stateSince createdAt formerSecretUntil
        deliveredAt lastError failingSince commitsBehind eventsWaiting eventsDropped
    } } }";

/// The way in which a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Takes,
    FailsHalf,
    Answers(StatusCode),
    Redirects,
    Hangs,
}

/// A request with a good signature.
#[derive(Debug, Clone)]
pub struct Request {
    pub id: String,
    pub body: Value,
    /// The number of its signatures.
    pub signatures: usize,
    pub is_taken: bool,
}

#[derive(Default)]
struct State {
    /// True if the clock of the server is another one.
    has_other_clock: bool,
    secrets: Vec<String>,
    requests: Vec<Request>,
    forged: usize,
}

/// A receiver on this machine.
pub struct Receiver {
    pub url: String,
    state: Arc<Mutex<State>>,
    manner: Arc<Mutex<Manner>>,
    serving: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Receiver {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let (state, manner) =
            (Arc::new(Mutex::new(State::default())), Arc::new(Mutex::new(manner)));
        let (mut rng, mut in_a_row) = (seeded(), 0);
        let failing = Arc::new(Mutex::new(move || {
            let fails = in_a_row < FAILURES_MAX && rng.random_bool(0.5);
            in_a_row = if fails { in_a_row + 1 } else { 0 };
            fails
        }));
        let (of_state, of_manner) = (state.clone(), manner.clone());
        let answer = move |headers: HeaderMap, body: Bytes| {
            let manner = *of_manner.lock().unwrap();
            let fails = failing.lock().unwrap()();
            let state = of_state.clone();
            async move { answer(&state, manner, fails, &headers, &body).await }
        };
        let routes =
            Router::new().route("/hooks", post(answer.clone())).route("/other", post(answer));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, state, manner, serving }
    }

    /// Lets the times of requests be those of another clock.
    pub fn pass_over_times(&self) {
        self.state.lock().unwrap().has_other_clock = true;
    }

    pub fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    /// Knows a secret from now on, and the others that it knew.
    pub fn learn(&self, secret: &str) {
        self.state.lock().unwrap().secrets.push(secret.to_owned());
    }

    /// Knows one secret alone from now on.
    pub fn know(&self, secret: &str) {
        self.state.lock().unwrap().secrets = vec![secret.to_owned()];
    }

    /// All requests so far. None had a signature that is not good.
    pub fn requests(&self) -> Vec<Request> {
        let state = self.state.lock().unwrap();
        assert_eq!(state.forged, 0, "every request has a good signature");
        state.requests.clone()
    }

    /// The events that it took, by their ids, in the order in which it took them first. One that
    /// came again is the same.
    pub fn taken(&self) -> Vec<(String, Value)> {
        let (mut taken, mut bodies): (Vec<(String, Value)>, BTreeMap<String, Value>) =
            Default::default();
        for request in self.requests() {
            let known = bodies.entry(request.id.clone()).or_insert(request.body.clone());
            assert_eq!(*known, request.body, "an id is of one event");
            assert_eq!(request.body["id"], request.id);
            if request.is_taken && taken.iter().all(|(id, _)| *id != request.id) {
                taken.push((request.id, request.body));
            }
        }
        taken
    }

    /// The data of the events of a type that it took.
    pub fn data(&self, kind: &str) -> Vec<Value> {
        let mut taken = self.taken();
        taken.retain(|(_, body)| body["type"] == kind);
        taken.into_iter().map(|(_, mut body)| body["data"].take()).collect()
    }

    /// Waits until it took so many events.
    pub async fn wait_for(&self, count: usize) -> Vec<(String, Value)> {
        until("the receiver has the events", async || {
            let taken = self.taken();
            (taken.len() >= count).then_some(taken)
        })
        .await
    }

    /// Makes a webhook that sends it some kinds of events; returns its id.
    pub async fn subscribe(&self, api: &Api, events: &[&str], board: Option<&str>) -> String {
        self.subscribe_by(api, json!({ "events": events, "board": board })).await
    }

    /// Makes a webhook that hears of those who are overtaken in a circle of the board `b`.
    pub async fn subscribe_circle(&self, api: &Api, circle: Value) -> String {
        let input = json!({ "events": ["OVERTAKEN"], "board": "b", "overtaken": circle });
        self.subscribe_by(api, input).await
    }

    async fn subscribe_by(&self, api: &Api, mut input: Value) -> String {
        (input["name"], input["url"]) = (json!("test"), json!(self.url));
        let data = api.data(CREATE, json!({ "input": input })).await;
        let created = &data["createWebhook"];
        self.learn(created["secret"].as_str().unwrap());
        created["webhook"]["id"].as_str().unwrap().to_owned()
    }
}

async fn answer(
    state: &Mutex<State>,
    manner: Manner,
    fails: bool,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    let header = |name: &str| headers[name].to_str().unwrap();
    let is_taken = manner == Manner::Takes || manner == Manner::FailsHalf && !fails;
    {
        let mut state = state.lock().unwrap();
        let has_other_clock = state.has_other_clock;
        let is_good = |secret: &String| {
            let convention = Convention::new(secret).unwrap();
            match has_other_clock {
                true => {
                    let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
                    let signed = convention.sign(id, time.parse().unwrap(), body).unwrap();
                    header("webhook-signature").split(' ').any(|one| one == signed)
                }
                false => convention.verify(body, headers).is_ok(),
            }
        };
        if !state.secrets.iter().any(is_good) {
            state.forged += 1;
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let signatures = header("webhook-signature").split(' ').count();
        let id = header("webhook-id").to_owned();
        let body = serde_json::from_slice(body).unwrap();
        state.requests.push(Request { id, body, signatures, is_taken });
    }
    match manner {
        Manner::Takes => StatusCode::NO_CONTENT.into_response(),
        Manner::FailsHalf if is_taken => StatusCode::OK.into_response(),
        Manner::FailsHalf => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Manner::Answers(status) => status.into_response(),
        Manner::Redirects => {
            (StatusCode::TEMPORARY_REDIRECT, [("location", "/other")]).into_response()
        }
        Manner::Hangs => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            StatusCode::OK.into_response()
        }
    }
}

/// The fields of a webhook.
pub async fn webhook(api: &Api, id: &str) -> Value {
    api.data(WEBHOOK, json!({ "id": id })).await["node"].take()
}

/// Calls a mutation that takes the id of a webhook alone.
pub async fn change(api: &Api, mutation: &str, id: &str) -> Value {
    let selection = match mutation {
        "deleteWebhook" => "deletedWebhookId",
        _ => "webhook { id state }",
    };
    let text =
        format!("mutation($id: ID!) {{ {mutation}(input: {{ id: $id }}) {{ {selection} }} }}");
    api.data(&text, json!({ "id": id })).await[mutation].take()
}
