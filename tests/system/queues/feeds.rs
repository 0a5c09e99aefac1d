//! Events that go to brokers: which ones, in which form and order, and refusals of settings.

use std::collections::BTreeMap;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, remove};
use tests::api::moderation::ban;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Kind, Queue, Reader};
use tests::wait::until;

use super::game::kinds;
use super::operations::Operations;

const CREATE: &str = "
    mutation($input: CreateWebhookInput!) { createWebhook(input: $input) { webhook { id url } } }";

const STATE: &str = "
    query($id: ID!) { node(id: $id) { ... on Webhook {
        state lastError failingSince commitsBehind eventsWaiting deliveredAt
    } } }";

/// The members of a board with a feed.
pub(super) const MEMBERS: [&str; 4] = ["ann", "bob", "cid", "dan"];

/// Makes a webhook of the feed `f`; returns its id.
pub(super) async fn subscribe(api: &Api, events: &[&str]) -> String {
    let input = json!({ "name": "feed", "url": "feed:f", "events": events });
    let mut data = api.data(CREATE, json!({ "input": input })).await;
    assert_eq!(data["createWebhook"]["webhook"]["url"], "feed:f");
    data["createWebhook"]["webhook"]["id"].take().as_str().unwrap().to_owned()
}

/// The state of a webhook, and what waits for it.
pub(super) async fn state(api: &Api, id: &str) -> Value {
    api.data(STATE, json!({ "id": id })).await["node"].take()
}

/// Submits so many scores of each member, each a point higher than the one before.
pub(super) async fn submit_rising(api: &Api, scores: std::ops::Range<i64>) {
    let of = |score: i64| MEMBERS.map(|member| json!({ "member": member, "score": score }));
    let scores: Vec<Value> = scores.flat_map(of).collect();
    for scores in scores.chunks(400) {
        let told = submit_durably(api, "b", json!(scores)).await;
        assert_eq!(told["accepted"], scores.len());
    }
}

/// Checks that each member's events came in the order of the history, with the ids that the API
/// shows, and none is missing.
pub(super) async fn check_whole(api: &Api, told: &[Value]) {
    let mut ids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in told.iter().filter(|event| event["type"] == "laurel.score.v1") {
        let member = event["data"]["member"].as_str().unwrap();
        ids.entry(member).or_default().push(event["id"].as_str().unwrap());
    }
    for member in MEMBERS {
        let mut history = events(api, "b", member).await;
        history.reverse();
        let expected: Vec<&str> =
            history.iter().map(|event| event["id"].as_str().unwrap()).collect();
        assert_eq!(ids[member], expected, "{member}");
    }
}

/// Waits until nothing is left for a webhook.
pub(super) async fn wait_until_level(api: &Api, id: &str) {
    until("nothing waits for the feed", async || {
        let state = state(api, id).await;
        (state["commitsBehind"] == 0 && state["eventsWaiting"] == 0).then_some(())
    })
    .await;
}

async fn check_events(kind: Kind, sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let queue = Queue::start(kind, &deployment).await;
    let id = subscribe(&api, &["SCORE", "BOARD", "MEMBER"]).await;
    api.create_board(json!({ "slug": "b", "shards": 2 })).await;
    let mut command = queue.feed(&deployment, "f");
    let operations = Operations::of_feed(&mut command);
    let feed = Ingest::start(&deployment, command);
    submit_rising(&api, 0..50).await;
    remove(&api, "b", "bob").await;
    ban(&api, "cid", Some("b")).await;
    // 200 scores, two removals, the board, and the ban.
    let mut reader = Reader::default();
    let told = reader.wait_for(&queue, 204).await;
    check_whole(&api, &told).await;
    let types = |name: &str| told.iter().filter(|event| event["type"] == name).count();
    assert_eq!((types("laurel.board.v1"), types("laurel.member.v1")), (1, 1));
    assert!(told.iter().all(|event| event["specversion"] == "1.0"));
    wait_until_level(&api, &id).await;
    let state = state(&api, &id).await;
    assert!(state["deliveredAt"].is_string() && state["lastError"].is_null(), "{state}");
    assert_eq!(reader.all(&queue).await.len(), 204, "without failures nothing comes twice");
    operations.until_metric("laurel_feed_events_total{outcome=\"confirmed\"}", 204).await;
    assert_eq!(operations.get("/readyz").await.unwrap().0, 200);
    tests::servers::program::signal("TERM", feed.pid());
    let (status, log) = feed.wait().await;
    assert!(status.success() && log.contains("confirmed 204 events"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_gets_every_event_in_the_order_of_each_member() {
    for kind in kinds() {
        check_events(kind, Sql::any()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_gets_every_event_from_postgres() {
    check_events(Kind::Nats, Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_gets_every_event_from_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_events(Kind::Kafka, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_is_full_is_waited_for_and_misses_nothing() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let id = subscribe(&api, &["SCORE"]).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let jetstream = queue.jetstream().await;
    let bounded = |most: i64| Config {
        name: "SCORES".to_owned(),
        subjects: vec!["scores.>".to_owned()],
        max_messages: most,
        discard: DiscardPolicy::New,
        ..Default::default()
    };
    jetstream.update_stream(bounded(10)).await.unwrap();
    let mut command = queue.feed(&deployment, "f");
    let operations = Operations::of_feed(&mut command);
    let _feed = Ingest::start(&deployment, command);
    submit_rising(&api, 0..10).await;
    let why = operations.until_paused("maximum messages exceeded").await;
    assert!(why.contains("SCORES"), "{why}");
    until("the webhook says why", async || {
        let state = state(&api, &id).await;
        (state["state"] == "ACTIVE" && state["failingSince"].is_string()).then_some(())
    })
    .await;
    jetstream.update_stream(bounded(-1)).await.unwrap();
    let told = Reader::default().wait_for(&queue, 40).await;
    check_whole(&api, &told).await;
    wait_until_level(&api, &id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_waits_for_its_webhook_and_says_so() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let mut command = queue.feed(&deployment, "f");
    let operations = Operations::of_feed(&mut command);
    let _feed = Ingest::start(&deployment, command);
    operations.until_paused("no webhook has the address feed:f").await;
    let id = subscribe(&api, &["BOARD"]).await;
    api.create_board(json!({ "slug": "b" })).await;
    let mut reader = Reader::default();
    reader.wait_for(&queue, 1).await;
    let set = "mutation($id: ID!) { pauseWebhook(input: { id: $id }) { webhook { state } } }";
    api.data(set, json!({ "id": id })).await;
    operations.until_paused("is not active").await;
    api.create_board(json!({ "slug": "c" })).await;
    assert_eq!(reader.events(&queue).await.len(), 1, "a webhook that is paused gets nothing");
    api.data(&set.replace("pause", "resume"), json!({ "id": id })).await;
    reader.wait_for(&queue, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_feed_that_do_not_fit_are_refused_in_words() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let url = queue.sink_url();
    let other = url.replace("scores.events", "other");
    let missing = url.replace("SCORES", "NONE");
    let check = |arguments: &[&str], said: &str| {
        let mut command = deployment.api(&["feed"]);
        let output = command.args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains(said), "{arguments:?}: {error}");
    };
    check(&["--broker", &url], "the feed has no name: expected --name");
    check(&["--broker", &url, "--name", "No"], "invalid LAUREL_FEED_NAME \"No\"");
    check(&["--name", "f"], "no broker is named: expected --broker");
    check(
        &["--name", "f", "--broker", "amqp://u:cret@h/"],
        "invalid LAUREL_FEED_BROKER amqp://***",
    );
    check(&["--name", "f", "--broker", &other], "does not keep the subject other: expected one of");
    check(&["--name", "f", "--broker", &missing], "the stream NONE cannot be had");
    for url in ["feed:", "feed:A", "feed:a b", "feed://f"] {
        let input = json!({ "name": "x", "url": url, "events": ["SCORE"] });
        let body = api.query(CREATE, json!({ "input": input })).await;
        assert_eq!(body["errors"][0]["extensions"]["argument"], "input.url", "{url}");
    }
}
