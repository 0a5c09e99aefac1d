//! Deliveries of the history: at least once, with ids that stay, and in order for each member.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, remove, void};
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::receiver::{Manner, Receiver, SETTINGS, webhook};
use tests::wait::until;

const MEMBERS: [&str; 4] = ["ann", "bob", "cid", "dan"];

/// Submits so many scores of each member, each a point higher than the one before.
async fn submit_rising(api: &Api, board: &str, scores: std::ops::Range<i64>) {
    for score in scores {
        let of = |member: &&str| json!({ "member": member, "score": score });
        let scores: Vec<Value> = MEMBERS.iter().map(of).collect();
        assert_eq!(submit_durably(api, board, json!(scores)).await["accepted"], 4);
    }
}

/// Checks that a receiver took the events of each member in the order of the history, with the ids
/// that the API shows, from the first score that it was told of on.
async fn check_whole(api: &Api, receiver: &Receiver, board: &str, before: usize) {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (id, body) in receiver.taken() {
        assert_eq!(body["type"], "laurel.score.v1");
        let member = body["data"]["member"].as_str().unwrap().to_owned();
        told.entry(member).or_default().push(id);
    }
    for member in MEMBERS {
        let mut history = events(api, board, member).await;
        history.reverse();
        let ids: Vec<&str> =
            history[before..].iter().map(|event| event["id"].as_str().unwrap()).collect();
        assert_eq!(told[member], ids, "{member}");
    }
}

async fn check_half(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start_with_settings(&deployment, &SETTINGS).await;
    api.create_board(json!({ "slug": "b", "shards": 2 })).await;
    api.create_board(json!({ "slug": "other" })).await;
    submit_rising(&api, "b", 0..2).await;
    let receiver = Receiver::start(Manner::FailsHalf).await;
    let id = receiver.subscribe(&api, &["SCORE"], Some("b")).await;
    submit_rising(&api, "b", 2..12).await;
    submit_rising(&api, "other", 0..2).await;
    remove(&api, "b", "bob").await;
    let last = events(&api, "b", "ann").await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(void(&api, &last).await.body.get("errors"), None);
    receiver.wait_for(42).await;
    check_whole(&api, &receiver, "b", 2).await;
    let requests = receiver.requests();
    assert!(requests.iter().any(|request| !request.is_taken), "it failed, too");
    let data = receiver.data("laurel.score.v1");
    let kinds = |kind: &str| data.iter().filter(|data| data["kind"] == kind).count();
    assert_eq!((kinds("SCORE"), kinds("REMOVAL"), kinds("VOID")), (40, 1, 1));
    let void = data.iter().find(|data| data["kind"] == "VOID").unwrap();
    assert_eq!((&void["voids"], &void["member"]), (&json!(last), &json!("ann")));
    assert!(data.iter().all(|data| data["board"] == "b" && data["copied"] == false));
    until("nothing is behind", async || {
        let told = webhook(&api, &id).await;
        assert_eq!(told["state"], "ACTIVE");
        (told["commitsBehind"] == 0 && told["lastError"].is_null()).then_some(())
    })
    .await;
    assert!(webhook(&api, &id).await["deliveredAt"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_fails_half_the_time_gets_every_event_in_order_on_sqlite() {
    check_half(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_fails_half_the_time_gets_every_event_in_order_on_postgres() {
    check_half(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_fails_half_the_time_gets_every_event_in_order_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_half(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_was_taken_before_a_crash_comes_again_as_it_was() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let mut command = deployment.api(&["serve"]);
    command.envs(SETTINGS).env("CRASH_AT", "webhook-taken:3");
    let api = Api::start_command(&deployment, command).await;
    api.create_board(json!({ "slug": "b" })).await;
    let receiver = Receiver::start(Manner::Takes).await;
    receiver.subscribe(&api, &["SCORE"], None).await;
    let scores: Vec<Value> =
        (0..5).map(|score| json!({ "member": "ann", "score": score })).collect();
    let variables = json!({ "board": "b", "scores": scores, "ack": "APPLIED" });
    let _ = api.try_ask(Some(api.token()), tests::documents::SUBMIT_SCORES, variables).await;
    assert!(!api.wait_until_stopped().await.success());
    assert_eq!(receiver.taken().len(), 3);
    let api = Api::start_with_settings(&deployment, &SETTINGS).await;
    let taken = receiver.wait_for(5).await;
    let scores: Vec<&Value> = taken.iter().map(|(_, body)| &body["data"]["score"]).collect();
    assert_eq!(json!(scores), json!(["0", "1", "2", "3", "4"]));
    assert!(receiver.requests().len() > 5, "what was not noted comes again");
    drop(api);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_one_delivers_and_the_other_goes_on_when_it_dies() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let dies = Api::start_with_settings(&deployment, &SETTINGS).await;
    dies.create_board(json!({ "slug": "b" })).await;
    let receiver = Receiver::start(Manner::Takes).await;
    receiver.subscribe(&dies, &["SCORE"], None).await;
    submit_rising(&dies, "b", 0..3).await;
    receiver.wait_for(12).await;
    let other = Api::start_with_settings(&deployment, &SETTINGS).await;
    submit_rising(&other, "b", 3..6).await;
    receiver.wait_for(24).await;
    assert_eq!(receiver.requests().len(), 24, "two do not deliver the same");
    tests::servers::program::signal("KILL", dies.pid());
    submit_rising(&other, "b", 6..8).await;
    receiver.wait_for(32).await;
    check_whole(&other, &receiver, "b", 0).await;
}
