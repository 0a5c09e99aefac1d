//! Removals of many members: by a filter, and of a whole board, in steps.

use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{REMOVE_ENTRIES, RESET_BOARD, UPSERT_MEMBERS};
use tests::jobs::diff::check_diff;

const KEYS: &str = "
    query($board: String!, $window: String!) { board(slug: $board) {
        standings(of: { window: $window }) { size top(first: 100) { nodes { member { key } score } } }
    } }";

/// Removes what a filter selects, in one step.
async fn remove(api: &Api, filter: Value, dry_run: bool) -> Value {
    let input = json!({ "board": "b", "filter": filter, "dryRun": dry_run });
    api.data(REMOVE_ENTRIES, json!({ "input": input })).await["removeEntries"].take()
}

async fn reset(api: &Api, after: Value) -> Value {
    let input = json!({ "board": "b", "after": after });
    api.data(RESET_BOARD, json!({ "input": input })).await["resetBoard"].take()
}

async fn keys(api: &Api, window: &str) -> Vec<String> {
    let variables = json!({ "board": "b", "window": window });
    let found = api.data(KEYS, variables).await["board"]["standings"].take();
    let nodes = found["top"]["nodes"].as_array().unwrap();
    let mut keys: Vec<String> =
        nodes.iter().map(|node| node["member"]["key"].as_str().unwrap().to_owned()).collect();
    keys.sort_unstable();
    keys
}

fn members(told: &Value) -> Vec<&str> {
    let members = told["members"].as_array().unwrap().iter();
    members.map(|member| member["key"].as_str().unwrap()).collect()
}

/// A board with regions and some windows, on which six members scored, one at each full hour from
/// noon on.
async fn board(sql: Sql, shards: i64, tie_break: &str) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily" }, { "name": "7d" }]);
    api.create_board(json!({
        "slug": "b", "windows": windows, "segmentBy": ["region"], "shards": shards,
        "policy": "BEST", "tieBreak": tie_break,
    }))
    .await;
    let regions = json!([{ "key": "ann", "region": "eu" }, { "key": "bot-1", "region": "eu" }]);
    api.data(UPSERT_MEMBERS, json!({ "members": regions })).await;
    let scored = [("ann", 10), ("bob", 20), ("bot-1", 30), ("bot-2", 40), ("cy", 50), ("dee", 60)];
    let scores = scored.iter().enumerate().map(|(hour, (member, score))| {
        let at = format!("2025-09-03T{}:00:00Z", 12 + hour);
        json!({ "member": member, "score": score, "at": at })
    });
    let told = submit_durably(&api, "b", scores.collect()).await;
    assert_eq!(told["accepted"], 6, "{told}");
    (deployment, api)
}

#[tokio::test]
async fn a_filter_selects_by_every_condition_that_it_has() {
    for (sql, tie_break) in Sql::all().into_iter().zip(["EARLIEST", "LATEST", "EARLIEST"]) {
        let (_deployment, api) = board(sql, 4, tie_break).await;
        for (filter, expected) in [
            (json!({ "minScore": 50 }), &["cy", "dee"][..]),
            (json!({ "maxScore": "20" }), &["ann", "bob"]),
            (json!({ "minScore": 20, "maxScore": 30 }), &["bob", "bot-1"]),
            (json!({ "keyPrefix": "bot-" }), &["bot-1", "bot-2"]),
            (json!({ "keyPrefix": "bot-", "minScore": 31 }), &["bot-2"]),
            (json!({ "members": ["bob", "nobody", "dee"] }), &["bob", "dee"]),
            (json!({ "segment": "region:eu" }), &["ann", "bot-1"]),
            (json!({ "segment": "region:eu", "minScore": 11 }), &["bot-1"]),
            (json!({ "segment": "region:us" }), &[]),
            (json!({ "reachedSince": "2025-09-03T16:00:00Z" }), &["cy", "dee"]),
            (json!({ "reachedBefore": "2025-09-03T13:00:00Z" }), &["ann"]),
            (
                json!({
                    "reachedSince": "2025-09-03T13:00:00Z", "reachedBefore": "2025-09-03T15:00:00Z",
                }),
                &["bob", "bot-1"],
            ),
            (json!({ "reachedBefore": "1960-01-01T00:00:00Z" }), &[]),
        ] {
            let told = remove(&api, filter.clone(), true).await;
            assert_eq!(members(&told), expected, "{filter}");
            assert_eq!(told["matched"], expected.len(), "{filter}");
            assert_eq!((&told["removed"], &told["hasMore"]), (&json!(0), &json!(false)));
            assert_eq!(told["deletedEntryIds"], json!([]));
        }
        assert_eq!(keys(&api, "all").await.len(), 6);
    }
}

#[tokio::test]
async fn what_a_filter_removes_goes_from_every_window_and_later_scores_begin_anew() {
    for sql in Sql::all() {
        let (deployment, api) = board(sql, 2, "EARLIEST").await;
        let told = remove(&api, json!({ "keyPrefix": "bot-", "minScore": 31 }), false).await;
        assert_eq!((&told["removed"], &told["matched"]), (&json!(1), &Value::Null));
        assert_eq!(members(&told), ["bot-2"]);
        let told = remove(&api, json!({ "keyPrefix": "b" }), false).await;
        assert_eq!(members(&told), ["bob", "bot-1"]);
        assert_eq!(told["deletedEntryIds"].as_array().unwrap().len(), 2);
        let again = remove(&api, json!({ "keyPrefix": "b" }), false).await;
        assert_eq!((&again["removed"], &again["endCursor"]), (&json!(0), &Value::Null));
        assert_eq!(keys(&api, "all").await, ["ann", "cy", "dee"]);
        let told = submit_durably(&api, "b", json!([{ "member": "bob", "score": 1 }])).await;
        assert_eq!(told["accepted"], 1);
        assert_eq!(keys(&api, "7d").await, ["bob"]);
        let none = remove(&api, json!({ "members": ["bob"], "minScore": 2 }), true).await;
        assert_eq!(none["matched"], 0);
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn a_board_is_reset_in_steps_and_who_comes_back_stays() {
    for sql in Sql::all() {
        let (deployment, api) = board(sql, 4, "LATEST").await;
        for part in 0..2 {
            let member = |no: usize| format!("m{:04}", part * 600 + no);
            let scores = (0..600).map(|no| json!({ "member": member(no), "score": 5 })).collect();
            assert_eq!(submit_durably(&api, "b", scores).await["accepted"], 600);
        }
        let first = reset(&api, Value::Null).await;
        assert_eq!((&first["removed"], &first["hasMore"]), (&json!(1000), &json!(true)));
        let told = submit_durably(&api, "b", json!([{ "member": "ann", "score": 3 }])).await;
        assert_eq!(told["accepted"], 1);
        let last = reset(&api, first["endCursor"].clone()).await;
        assert_eq!((&last["removed"], &last["hasMore"]), (&json!(206), &json!(false)));
        for window in ["all", "daily", "7d"] {
            assert_eq!(keys(&api, window).await, ["ann"], "{window}");
        }
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn a_removal_of_many_says_what_it_would_accept() {
    let (deployment, api) = board(Sql::any(), 1, "MEMBER").await;
    for (filter, argument) in [
        (json!({}), "input.filter"),
        (json!({ "segment": "" }), "input.filter"),
        (json!({ "segment": "eu" }), "input.filter.segment"),
        (json!({ "minScore": "1.5" }), "input.filter.minScore"),
        (json!({ "minScore": 2, "maxScore": 1 }), "input.filter.minScore"),
        (json!({ "keyPrefix": "" }), "input.filter.keyPrefix"),
        (json!({ "members": ["ann", ""] }), "input.filter.members[1]"),
        (json!({ "reachedSince": "2025-09-03T16:00:00Z" }), "input.filter.reachedSince"),
        (json!({ "reachedBefore": "2025-09-03T16:00:00Z" }), "input.filter.reachedBefore"),
    ] {
        let input = json!({ "board": "b", "filter": filter });
        let answer = api.ask(Some(api.token()), REMOVE_ENTRIES, json!({ "input": input })).await;
        assert_eq!(answer.codes(), ["BAD_USER_INPUT"], "{filter}");
        assert_eq!(answer.body["errors"][0]["extensions"]["argument"], argument);
    }
    let submits = deployment.new_token(&["--scope", "submit"]).await;
    let removal = json!({ "input": { "board": "b", "filter": { "minScore": 1 } } });
    let whole = json!({ "input": { "board": "b" } });
    for (token, code) in [(None, "UNAUTHENTICATED"), (Some(&*submits), "FORBIDDEN")] {
        let refused = api.ask(token, REMOVE_ENTRIES, removal.clone()).await;
        assert_eq!(refused.codes(), [code]);
        assert_eq!(api.ask(token, RESET_BOARD, whole.clone()).await.codes(), [code]);
    }
    let cursor = json!({ "input": { "board": "b", "after": "" } });
    let answer = api.ask(Some(api.token()), RESET_BOARD, cursor).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
    let nowhere = json!({ "input": { "board": "c" } });
    let answer = api.ask(Some(api.token()), RESET_BOARD, nowhere).await;
    assert_eq!(answer.codes(), ["NOT_FOUND"]);
    assert_eq!(keys(&api, "all").await.len(), 6);
}

#[tokio::test]
async fn a_request_looks_through_few_boards() {
    let (_deployment, api) = board(Sql::any(), 1, "EARLIEST").await;
    let filter = "input: { board: \"b\", dryRun: true, filter: { minScore: 50 } }";
    let looks = (0..9).map(|no| format!("a{no}: removeEntries({filter}) {{ matched }}"));
    let looks: Vec<String> = looks.collect();
    let looks = format!("mutation {{ {} }}", looks.join(" "));
    let answer = api.ask(Some(api.token()), &looks, json!({})).await;
    assert_eq!(answer.body["data"]["a0"]["matched"], 2, "{}", answer.body);
    assert!(answer.codes().len() >= 5, "{}", answer.body);
    assert!(answer.codes().iter().all(|code| *code == "LIMIT_EXCEEDED"), "{}", answer.body);
}
