//! Removals and voids: one amendment at a time, and its answer.

use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, member_events, remove, void};
use tests::api::connection::texts;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{REMOVE_ENTRY, VOID_EVENT};
use tests::jobs::diff::check_diff;

const SCORE: &str = "
    query($board: String!, $member: String!) { board(slug: $board) { standings {
        entry(member: $member) { score }
    } } }";

/// Voids an event; it must be done now, or have been done before.
async fn voided(api: &Api, id: &str) -> Value {
    let mut answer = void(api, id).await;
    assert_eq!(answer.codes(), [""; 0], "{id}: {}", answer.body);
    answer.body["data"]["voidEvent"].take()
}

/// A board whose sums are at least 0.
async fn board(sql: Sql, redis: Redis) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, redis).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily" }]);
    api.create_board(json!({ "slug": "b", "windows": windows })).await;
    (deployment, api)
}

/// Submits a score of ann's and waits until it is in the history; the event's id.
async fn score(api: &Api, score: i64, event_id: &str) -> String {
    let scores = json!([{ "member": "ann", "score": score, "eventId": event_id }]);
    let told = submit_durably(api, "b", scores).await;
    assert_eq!(told["accepted"], 1, "{told}");
    let newest = events(api, "b", "ann").await.swap_remove(0);
    assert_eq!(newest["eventId"], event_id);
    newest["id"].as_str().unwrap().to_owned()
}

async fn total(api: &Api) -> Value {
    let variables = json!({ "board": "b", "member": "ann" });
    api.data(SCORE, variables).await["board"]["standings"]["entry"]["score"].take()
}

async fn status(api: &Api, score: i64, event_id: &str) -> String {
    let scores = json!([
        { "member": "ann", "score": score, "eventId": event_id, "at": "2025-09-03T12:00:00Z" },
    ]);
    let told = submit_durably(api, "b", scores).await;
    told["results"][0]["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_member_without_an_entry_is_not_removed() {
    let (_deployment, api) = board(Sql::any(), Redis::Private).await;
    let nobody = remove(&api, "b", "nobody").await;
    assert_eq!(nobody, json!({ "removed": false, "board": { "slug": "b" }, "member": null }));
    score(&api, 5, "e1").await;
    assert_eq!(
        remove(&api, "b", "ann").await,
        json!({ "removed": true, "board": { "slug": "b" }, "member": { "key": "ann" } })
    );
    assert_eq!(total(&api).await, Value::Null);
    assert_eq!(remove(&api, "b", "ann").await["removed"], false);
    score(&api, 2, "e2").await;
    assert_eq!(total(&api).await, "2");
    assert_eq!(events(&api, "b", "ann").await.len(), 3);
}

#[tokio::test]
async fn a_removal_needs_a_board_a_member_s_key_and_the_scope_admin() {
    let (deployment, api) = board(Sql::any(), Redis::Private).await;
    let id = score(&api, 5, "e1").await;
    for (board, member, code) in [
        ("c", "ann", "NOT_FOUND"),
        ("", "ann", "NOT_FOUND"),
        ("b", "", "BAD_USER_INPUT"),
        ("b", &*"x".repeat(129), "BAD_USER_INPUT"),
    ] {
        let variables = json!({ "board": board, "member": member });
        let answer = api.ask(Some(api.token()), REMOVE_ENTRY, variables).await;
        assert_eq!(answer.codes(), [code], "{board} {member}");
    }
    let submits = deployment.new_token(&["--scope", "submit"]).await;
    for (token, code) in [(None, "UNAUTHENTICATED"), (Some(&*submits), "FORBIDDEN")] {
        let removal = json!({ "board": "b", "member": "ann" });
        assert_eq!(api.ask(token, REMOVE_ENTRY, removal).await.codes(), [code]);
        assert_eq!(api.ask(token, VOID_EVENT, json!({ "id": id })).await.codes(), [code]);
    }
    assert_eq!(total(&api).await, "5");
}

#[tokio::test]
async fn an_event_is_voided_once() {
    for sql in Sql::all() {
        let (deployment, api) = board(sql, Redis::Private).await;
        let first = score(&api, 5, "e1").await;
        score(&api, 3, "e2").await;
        let expected = json!({
            "voided": true, "event": { "id": first, "voided": true }, "entry": { "score": "3" },
        });
        assert_eq!(voided(&api, &first).await, expected);
        let expected = json!({
            "voided": false, "event": { "id": first, "voided": true }, "entry": { "score": "3" },
        });
        assert_eq!(voided(&api, &first).await, expected);
        assert_eq!(total(&api).await, "3");
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn what_is_left_after_the_last_void_is_nothing() {
    let (deployment, api) = board(Sql::any(), Redis::Private).await;
    let only = score(&api, 5, "e1").await;
    assert_eq!(voided(&api, &only).await["entry"], Value::Null);
    assert_eq!(remove(&api, "b", "ann").await["removed"], false);
    assert_eq!(total(&api).await, Value::Null);
    check_diff(&deployment);
}

#[tokio::test]
async fn a_void_of_a_void_or_of_nothing_is_refused() {
    let (_deployment, api) = board(Sql::any(), Redis::Private).await;
    let id = score(&api, 5, "e1").await;
    score(&api, 1, "e2").await;
    voided(&api, &id).await;
    let void_id = newest(&api, "VOID").await;
    let (partition, rest) = id.strip_prefix("event:").unwrap().split_once(':').unwrap();
    for (bad, code) in [
        (void_id, "BAD_USER_INPUT"),
        (format!("event:{partition}:999999:0"), "NOT_FOUND"),
        (format!("event:{partition}:{}:7", rest.split_once(':').unwrap().0), "NOT_FOUND"),
        ("event:65535:1:0".to_owned(), "NOT_FOUND"),
        ("event:1:18446744073709551615:4294967295".to_owned(), "NOT_FOUND"),
        ("event:1".to_owned(), "BAD_USER_INPUT"),
        ("event:a:b:c".to_owned(), "BAD_USER_INPUT"),
        ("member:ann".to_owned(), "BAD_USER_INPUT"),
        ("board:b.1".to_owned(), "BAD_USER_INPUT"),
        ("junk".to_owned(), "BAD_USER_INPUT"),
        (String::new(), "BAD_USER_INPUT"),
    ] {
        let answer = void(&api, &bad).await;
        assert_eq!(answer.codes(), [code], "{bad}: {}", answer.body);
    }
    assert_eq!(total(&api).await, "1");
}

/// The id of ann's newest event, as soon as it is of that kind.
async fn newest(api: &Api, kind: &str) -> String {
    tests::wait::until(kind, async || {
        let page = member_events("b", "ann").page(api, json!({ "first": 1 })).await;
        let event = &page["nodes"][0];
        (event["kind"] == kind).then(|| event["id"].as_str().unwrap().to_owned())
    })
    .await
}

#[tokio::test]
async fn a_void_that_would_leave_the_range_is_refused_and_changes_nothing() {
    for sql in Sql::all() {
        let (deployment, api) = board(sql, Redis::Private).await;
        let earned = score(&api, 10, "e1").await;
        let spent = score(&api, -5, "e2").await;
        let answer = void(&api, &earned).await;
        assert_eq!(answer.codes(), ["SCORE_OUT_OF_RANGE"], "{}", answer.body);
        assert_eq!(total(&api).await, "5");
        let seen = events(&api, "b", "ann").await;
        assert_eq!(texts(&seen, "/kind"), ["SCORE", "SCORE"]);
        assert!(seen.iter().all(|event| event["voided"] == false));
        // Once nothing is spent, the earned score can be voided.
        voided(&api, &spent).await;
        assert_eq!(voided(&api, &earned).await["entry"], Value::Null);
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn a_void_of_a_removal_that_would_leave_the_range_is_refused() {
    let (_deployment, api) = board(Sql::any(), Redis::Private).await;
    score(&api, 999_999_999, "e1").await;
    remove(&api, "b", "ann").await;
    let removal = newest(&api, "REMOVAL").await;
    score(&api, 1, "e2").await;
    assert_eq!(void(&api, &removal).await.codes(), ["SCORE_OUT_OF_RANGE"]);
    assert_eq!(total(&api).await, "1");
}

#[tokio::test]
async fn the_id_of_a_voided_event_may_be_sent_again_and_counts() {
    for redis in [false, true] {
        let (deployment, api) = board(Sql::any(), Redis::Own).await;
        assert_eq!(status(&api, 5, "e1").await, "APPLIED");
        assert_eq!(status(&api, 5, "e1").await, "DUPLICATE");
        let id = newest(&api, "SCORE").await;
        voided(&api, &id).await;
        newest(&api, "VOID").await;
        if redis {
            deployment.flush_redis().await;
        }
        assert_eq!(status(&api, 7, "e1").await, "APPLIED");
        if redis {
            deployment.flush_redis().await;
        }
        assert_eq!(status(&api, 7, "e1").await, "DUPLICATE");
        assert_eq!(status(&api, 5, "e1").await, "REJECTED");
        assert_eq!(total(&api).await, "7");
        // The first event stays voided, and its void frees no other id.
        assert_eq!(voided(&api, &id).await["voided"], false);
        assert_eq!(status(&api, 7, "e1").await, "DUPLICATE");
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn the_id_of_a_removed_event_stays_taken() {
    let (deployment, api) = board(Sql::any(), Redis::Own).await;
    assert_eq!(status(&api, 5, "e1").await, "APPLIED");
    remove(&api, "b", "ann").await;
    let removal = newest(&api, "REMOVAL").await;
    assert_eq!(status(&api, 5, "e1").await, "DUPLICATE");
    deployment.flush_redis().await;
    assert_eq!(status(&api, 5, "e1").await, "DUPLICATE");
    assert_eq!(total(&api).await, Value::Null);
    voided(&api, &removal).await;
    assert_eq!(total(&api).await, "5");
    check_diff(&deployment);
}

#[tokio::test]
async fn an_event_says_what_was_accepted_and_what_it_voids() {
    let (_deployment, api) = board(Sql::Postgres, Redis::Private).await;
    let before = jiff::Timestamp::now();
    let first =
        json!({ "member": "ann", "score": 5, "at": "2025-09-03T12:00:00.123Z", "eventId": "e1" });
    submit_durably(&api, "b", json!([first, { "member": "ann", "score": 2 }])).await;
    remove(&api, "b", "ann").await;
    let removal = newest(&api, "REMOVAL").await;
    voided(&api, &removal).await;
    newest(&api, "VOID").await;
    let seen = events(&api, "b", "ann").await;
    let shown: Vec<Value> = seen
        .iter()
        .map(|event| {
            json!([
                event["kind"],
                event["score"],
                event["eventId"],
                event["voided"],
                event["voids"]
            ])
        })
        .collect();
    let expected = json!([
        ["VOID", null, null, false, removal],
        ["REMOVAL", null, null, true, null],
        ["SCORE", "2", null, false, null],
        ["SCORE", "5", "e1", false, null],
    ]);
    assert_eq!(json!(shown), expected);
    assert_eq!(seen[3]["at"], "2025-09-03T12:00:00.123Z");
    assert_eq!((&seen[0]["at"], &seen[1]["at"]), (&Value::Null, &Value::Null));
    let accepted =
        |event: &Value| event["acceptedAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let times: Vec<jiff::Timestamp> = seen.iter().map(accepted).collect();
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "{times:?}");
    let slack = jiff::SignedDuration::from_millis(1);
    assert!(times[3] >= before - slack && times[0] <= jiff::Timestamp::now() + slack);
    // A score without a time was earned when it was accepted.
    assert_eq!(seen[2]["at"], seen[2]["acceptedAt"]);
    for event in &seen {
        assert_eq!(
            (&event["board"]["slug"], &event["member"]["key"]),
            (&json!("b"), &json!("ann"))
        );
        let text = "
            query($id: ID!) { node(id: $id) {
                id
                ... on ScoreEvent {
                    id kind score at acceptedAt eventId metadata voided voids board { slug }
                    member { key }
                }
            } }";
        let data = api.data(text, json!({ "id": event["id"] })).await;
        assert_eq!(data["node"], *event);
    }
}

#[tokio::test]
async fn events_of_a_private_board_are_seen_with_a_token_only() {
    let (deployment, api) = board(Sql::any(), Redis::Private).await;
    api.create_board(json!({ "slug": "p", "visibility": "PRIVATE" })).await;
    submit_durably(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    submit_durably(&api, "p", json!([{ "member": "ann", "score": 1 }])).await;
    let id = events(&api, "p", "ann").await[0]["id"].clone();
    let text = "
        query($id: ID!) {
            node(id: $id) { id }
            member(key: \"ann\") {
                events(board: \"p\") { totalCount } none: events(board: \"none\") { totalCount }
            }
        }";
    let expected = json!({ "node": null, "member": { "events": null, "none": null } });
    let moderates = deployment.new_token(&["--scope", "moderate"]).await;
    let public = api.ask(Some(&moderates), text, json!({ "id": id })).await;
    assert_eq!(public.body, json!({ "data": expected }));
    let anyone = api.ask(None, text, json!({ "id": id })).await;
    assert_eq!(anyone.body["data"]["node"], Value::Null);
    assert_eq!(anyone.codes(), ["UNAUTHENTICATED"; 2]);
    let seen = api.data(text, json!({ "id": id })).await;
    let expected =
        json!({ "node": { "id": id }, "member": { "events": { "totalCount": 1 }, "none": null } });
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn an_amendment_is_seen_at_once_by_the_process_that_made_it() {
    let (_deployment, api) = board(Sql::any(), Redis::Private).await;
    for round in 0..10 {
        submit(&api, "b", json!([{ "member": "ann", "score": 1, "eventId": format!("e{round}") }]))
            .await;
        // The removal takes what was acknowledged a moment ago, in SQL or not.
        assert_eq!(remove(&api, "b", "ann").await["removed"], true);
        assert_eq!(total(&api).await, Value::Null);
    }
}
