//! Merges of members: what becomes of friends, names, event ids and late scores, and the merges
//! that are refused.

use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, merge, void};
use tests::api::friends::{change_friends, try_change_friends, upsert};
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{ADD_FRIEND, MERGE_MEMBERS, REMOVE_ENTRY, SCORE, UPSERT_MEMBERS};
use tests::jobs::archive::{age, archive};
use tests::jobs::diff::check_diff;
use tests::jobs::seal::wait_until_dropped;
use tests::wait::until;

async fn board(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily" }]);
    let board = json!({ "slug": "b", "windows": windows, "maxScore": 10 });
    api.create_board(board).await;
    (deployment, api)
}

/// Submits a score; the result's status, its error's code, and the member that it names.
async fn submit(api: &Api, member: &str, score: i64, event_id: &str) -> [Value; 3] {
    let scores = json!([{ "member": member, "score": score, "eventId": event_id }]);
    let text = "
        mutation($scores: [ScoreInput!]!) {
            submitScores(input: { board: \"b\", scores: $scores, ack: DURABLE }) {
                results { status error { code mergedInto argument } }
            }
        }";
    let data = api.data(text, json!({ "scores": scores })).await;
    let result = &data["submitScores"]["results"][0];
    let error = &result["error"];
    if error["code"] == "MEMBER_MERGED" {
        assert_eq!(error["argument"], "input.scores[0].member");
    }
    [result["status"].clone(), error["code"].clone(), error["mergedInto"].clone()]
}

async fn score(api: &Api, member: &str) -> Value {
    let variables = json!({ "board": "b", "member": member });
    api.data(SCORE, variables).await["board"]["standings"]["entry"]["score"].take()
}

async fn code(api: &Api, source: &str, target: &str) -> (String, Value) {
    let variables = json!({ "source": source, "target": target });
    let answer = api.ask(Some(api.token()), MERGE_MEMBERS, variables).await;
    let error = &answer.body["errors"][0]["extensions"];
    (error["code"].as_str().unwrap_or_default().to_owned(), error["mergedInto"].clone())
}

#[tokio::test]
async fn what_arrives_for_a_merged_member_is_refused_with_its_new_key() {
    for sql in Sql::all() {
        let (deployment, api) = board(sql).await;
        submit(&api, "old", 2, "e1").await;
        submit(&api, "new", 3, "e2").await;
        let first = events(&api, "b", "old").await.swap_remove(0)["id"].clone();
        merge(&api, "old", "new").await;
        merge(&api, "old", "new").await;
        let merged = [json!("REJECTED"), json!("MEMBER_MERGED"), json!("new")];
        for _ in 0..2 {
            assert_eq!(score(&api, "new").await, "5");
            assert_eq!(score(&api, "old").await, Value::Null);
            assert_eq!(submit(&api, "old", 2, "e3").await, merged);
            // The event ids of both are known.
            let duplicate = [json!("DUPLICATE"), Value::Null, Value::Null];
            assert_eq!(submit(&api, "new", 2, "e1").await, duplicate);
            assert_eq!(submit(&api, "new", 3, "e2").await, duplicate);
            assert_eq!(submit(&api, "new", 4, "e1").await[1], "EVENT_ID_CONFLICT");
            let answer = void(&api, first.as_str().unwrap()).await;
            assert_eq!(answer.codes(), ["MEMBER_MERGED"]);
            assert_eq!(answer.body["errors"][0]["extensions"]["mergedInto"], "new");
            let removal = json!({ "board": "b", "member": "old" });
            let answer = api.ask(Some(api.token()), REMOVE_ENTRY, removal).await;
            assert_eq!(answer.codes(), ["MEMBER_MERGED"]);
            // An empty Redis learns it from SQL.
            deployment.flush_redis().await;
        }
        let theirs = events(&api, "b", "new").await;
        assert_eq!((theirs.len(), &theirs[0]["eventId"]), (2, &json!("e1")));
        // A copy is an event like others.
        assert_eq!(void(&api, theirs[0]["id"].as_str().unwrap()).await.codes(), [""; 0]);
        assert_eq!(score(&api, "new").await, "3");
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn friends_move_and_a_new_key_takes_over_the_name() {
    for sql in Sql::all() {
        let (_deployment, api) = board(sql).await;
        upsert(&api, &["ann", "bob", "cid", "old"]).await;
        api.upsert_members(json!([{ "key": "old", "name": "Old" }])).await;
        for pair in [("old", "ann"), ("old", "bob"), ("bob", "cid"), ("cid", "old")] {
            change_friends(&api, ADD_FRIEND, pair).await;
        }
        let shown = async |key: &str| {
            let text = "query($key: String!) { member(key: $key) {
                name friends(first: 10) { nodes { key } }
            } }";
            api.data(text, json!({ "key": key })).await["member"].take()
        };
        merge(&api, "old", "young").await;
        let friends = json!({ "nodes": [{ "key": "ann" }, { "key": "bob" }, { "key": "cid" }] });
        assert_eq!(shown("young").await, json!({ "name": "Old", "friends": friends }));
        assert_eq!(shown("old").await["friends"], json!({ "nodes": [] }));
        merge(&api, "young", "bob").await;
        let friends = json!({ "nodes": [{ "key": "ann" }, { "key": "cid" }] });
        assert_eq!(shown("bob").await, json!({ "name": "bob", "friends": friends }));
        let answer = try_change_friends(&api, Some(api.token()), ADD_FRIEND, ("old", "ann")).await;
        assert_eq!(answer.codes(), ["MEMBER_MERGED"]);
        let members = json!({ "members": [{ "key": "old", "name": "Ann" }] });
        let answer = api.ask(Some(api.token()), UPSERT_MEMBERS, members).await;
        assert_eq!(answer.codes(), ["MEMBER_MERGED"]);
    }
}

#[tokio::test]
async fn a_merge_that_cannot_be_is_refused_and_changes_nothing() {
    for sql in Sql::all() {
        let (deployment, api) = board(sql).await;
        submit(&api, "ann", 6, "a1").await;
        submit(&api, "bob", 5, "b1").await;
        submit(&api, "cid", 1, "c1").await;
        let none = Value::Null;
        assert_eq!(code(&api, "ann", "bob").await, ("SCORE_OUT_OF_RANGE".to_owned(), none.clone()));
        assert_eq!(code(&api, "ann", "ann").await.0, "BAD_USER_INPUT");
        assert_eq!(code(&api, "ann", "").await.0, "BAD_USER_INPUT");
        assert_eq!(code(&api, "nobody", "ann").await.0, "NOT_FOUND");
        for (member, total) in [("ann", "7"), ("bob", "6")] {
            assert_eq!(submit(&api, member, 1, "later").await[0], "APPLIED", "{member}");
            assert_eq!(score(&api, member).await, total);
        }
        merge(&api, "cid", "bob").await;
        let merged = |target: &str| ("MEMBER_MERGED".to_owned(), json!(target));
        assert_eq!(code(&api, "cid", "ann").await, merged("bob"));
        assert_eq!(code(&api, "ann", "cid").await, merged("bob"));
        assert_eq!(score(&api, "bob").await, "7");
        let submits = deployment.new_token(&["--scope", "submit"]).await;
        let variables = json!({ "source": "ann", "target": "dee" });
        let answer = api.ask(Some(&submits), MERGE_MEMBERS, variables).await;
        assert_eq!(answer.codes(), ["FORBIDDEN"]);
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn archived_scores_cannot_be_merged_and_can_be_merged_into() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        let windows = json!([{ "name": "daily", "retain": 1 }]);
        api.create_board(json!({ "slug": "b", "windows": windows })).await;
        let submit = async |member: &str, score: i64, hour: i64| {
            let at = format!("2025-09-03T{hour}:00:00Z");
            let scores = json!([{ "member": member, "score": score, "at": at }]);
            assert_eq!(submit_durably(&api, "b", scores).await["accepted"], 1);
        };
        submit("ann", 2, 12).await;
        wait_until_dropped(&api, "b").await;
        age(&deployment, 40).await;
        assert_eq!(archive(&deployment, &[])["events"], 1);
        submit("bob", 3, 13).await;
        assert_eq!(code(&api, "ann", "bob").await.0, "BAD_USER_INPUT");
        submit("ann", 1, 14).await;
        merge(&api, "bob", "ann").await;
        assert_eq!(score(&api, "ann").await, "6");
        deployment.flush_redis().await;
        assert_eq!(score(&api, "ann").await, "6");
        let sealed = "SELECT CAST(score AS BIGINT) FROM sealed_entry";
        let sealed: Vec<i64> = deployment.column(sealed).await;
        assert_eq!(sealed, [6]);
        check_diff(&deployment);
        // Copies are archived as other events are.
        age(&deployment, 80).await;
        assert!(archive(&deployment, &[])["events"].as_i64() > Some(1));
        submit("ann", 1, 15).await;
        let output = deployment.analytics(&["diff", "--full"]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(score(&api, "ann").await, "7");
    }
}

#[tokio::test]
async fn members_are_free_again_though_a_refusal_was_cut_short() {
    for sql in [Sql::Sqlite, Sql::Postgres] {
        let (deployment, api) = board(sql).await;
        submit(&api, "ann", 6, "a1").await;
        submit(&api, "bob", 5, "b1").await;
        let killed = Api::start_with_settings(&deployment, &[("CRASH_AT", "refused")]).await;
        let variables = json!({ "source": "ann", "target": "bob" });
        let answer = killed.try_ask(Some(killed.token()), MERGE_MEMBERS, variables).await;
        assert!(answer.is_err(), "{:?}", answer.unwrap().body);
        assert!(!killed.wait_until_stopped().await.success());
        until("both may score again", async || {
            let told = submit(&api, "ann", 1, "later").await;
            matches!(told[0].as_str(), Some("APPLIED" | "DUPLICATE")).then_some(())
        })
        .await;
        assert_eq!(submit(&api, "bob", 1, "later").await[0], "APPLIED");
        // The present process cleans up what is left of the first refusal.
        let refused = async || {
            let code = code(&api, "ann", "bob").await.0;
            (code != "UNAVAILABLE").then_some(code)
        };
        let refused = until("the server checks the merge once more", refused).await;
        assert_eq!(refused, "SCORE_OUT_OF_RANGE");
        check_diff(&deployment);
    }
}
