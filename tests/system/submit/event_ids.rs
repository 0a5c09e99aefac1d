//! Event ids: each counts once, whatever happens in between.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};

/// A deployment with a board and the event "e1": ann, 5, at noon.
async fn scored(redis: Redis) -> (std::sync::Arc<Deployment>, Api) {
    let deployment = Deployment::new(Sql::any(), redis).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    assert_eq!(submit_durably(&api, "b", json!([event()])).await["accepted"], 1);
    (deployment, api)
}

fn event() -> Value {
    json!({ "member": "ann", "score": 5, "at": "2025-09-03T12:00:00Z", "eventId": "e1" })
}

fn changed(name: &str, value: Value) -> Value {
    let mut event = event();
    event[name] = value;
    event
}

async fn check(api: &Api) {
    let told = submit(api, "b", json!([event()])).await;
    assert_eq!((&told["accepted"], &told["duplicates"]), (&json!(0), &json!(1)));
    for other in [
        changed("score", json!(6)),
        changed("at", json!("2025-09-03T12:00:00.001Z")),
        changed("at", Value::Null),
    ] {
        let told = submit(api, "b", json!([other])).await;
        let result = &told["results"][0];
        assert_eq!(
            (&result["status"], &result["error"]["code"]),
            (&json!("REJECTED"), &json!("EVENT_ID_CONFLICT")),
            "{other}"
        );
        assert!(result["error"]["message"].as_str().unwrap().contains("same content"));
    }
    let text = "{ board(slug: \"b\") { standings { entry(member: \"ann\") { score } } } }";
    assert_eq!(api.data(text, json!({})).await["board"]["standings"]["entry"]["score"], "5");
}

#[tokio::test]
async fn an_event_id_counts_once_and_with_one_content() {
    let (_deployment, api) = scored(Redis::Private).await;
    check(&api).await;
}

#[tokio::test]
async fn an_event_id_is_remembered_through_a_restart() {
    let (deployment, api) = scored(Redis::Private).await;
    api.stop().await;
    check(&Api::start(&deployment).await).await;
}

#[tokio::test]
async fn an_event_id_is_remembered_by_sql_when_redis_is_emptied() {
    let (deployment, api) = scored(Redis::Own).await;
    deployment.flush_redis().await;
    check(&api).await;
}

#[tokio::test]
async fn an_event_that_only_redis_has_is_refused_with_other_content_by_every_process() {
    let (deployment, api) = scored(Redis::Own).await;
    api.stop().await;
    let silent = Api::start_with(&deployment, &["--no-workers"]).await;
    let other = Api::start_with(&deployment, &["--no-workers"]).await;
    let of = |score: i64| json!([{ "member": "bob", "score": score, "eventId": "e2" }]);
    assert_eq!(submit(&silent, "b", of(1)).await["accepted"], 1);
    for api in [&silent, &other] {
        for told in [submit(api, "b", of(2)).await, submit_durably(api, "b", of(2)).await] {
            let result = &told["results"][0];
            let told = (&result["status"], &result["error"]["code"]);
            assert_eq!(told, (&json!("REJECTED"), &json!("EVENT_ID_CONFLICT")));
        }
        assert_eq!(submit(api, "b", of(1)).await["duplicates"], 1);
    }
    let worker = Api::start(&deployment).await;
    assert_eq!(submit_durably(&worker, "b", of(1)).await["duplicates"], 1);
    let scores: Vec<i64> =
        deployment.column("SELECT score FROM score_event WHERE event_id = 'e2'").await;
    assert_eq!(scores, [1]);
}

#[tokio::test]
async fn an_event_id_is_one_of_its_board_and_member() {
    let (_deployment, api) = scored(Redis::Private).await;
    api.create_board(json!({ "slug": "c" })).await;
    assert_eq!(submit(&api, "c", json!([event()])).await["accepted"], 1);
    assert_eq!(submit(&api, "b", json!([changed("member", json!("bob"))])).await["accepted"], 1);
}

#[tokio::test]
async fn an_event_id_counts_once_in_a_batch_and_a_refused_one_is_free() {
    let (_deployment, api) = scored(Redis::Private).await;
    let score = |score: i64, id: &str| json!({ "member": "bob", "score": score, "eventId": id });
    let batch = json!([score(-1, "a"), score(2, "a"), score(2, "a"), score(3, "a"), score(3, "b")]);
    let told = submit(&api, "b", batch).await;
    let statuses: Vec<&str> = told["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["REJECTED", "APPLIED", "DUPLICATE", "REJECTED", "APPLIED"]);
}

#[tokio::test]
async fn an_event_sent_through_two_processes_at_once_counts_once() {
    let (deployment, api) = scored(Redis::Private).await;
    let other = Api::start(&deployment).await;
    for round in 0..20 {
        let event = changed("eventId", json!(format!("r{round}")));
        let told = futures::join!(
            submit(&api, "b", json!([event])),
            submit(&other, "b", json!([event])),
            submit(&api, "b", json!([event])),
        );
        let counted = [told.0, told.1, told.2]
            .map(|told| (told["accepted"].as_i64(), told["duplicates"].as_i64()));
        assert_eq!(
            counted.iter().filter_map(|(accepted, _)| *accepted).sum::<i64>(),
            1,
            "{counted:?}"
        );
        assert_eq!(
            counted.iter().filter_map(|(_, duplicates)| *duplicates).sum::<i64>(),
            2,
            "{counted:?}"
        );
    }
}
