//! Boards and scores that are not accepted: each has its code and a message that says what would be.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::Api;
use crate::first_light::race;
use crate::load::submit;

pub(crate) const CREATE: &str =
    "mutation($input: CreateBoardInput!) { createBoard(input: $input) { board { id } } }";

/// Asks what must be refused with that code, and a message that says that.
pub(crate) async fn check(api: &Api, text: &str, variables: Value, code: &str, says: &str) {
    let answer = api.ask(Some(api.token()), text, variables).await;
    let body = &answer.body;
    assert!(body["errors"].is_array(), "{text} was accepted: {body}");
    assert_eq!(answer.codes(), [code], "{text}: {body}");
    assert!(answer.message().contains(says), "{text}: {body}");
}

#[tokio::test]
async fn a_board_that_cannot_be_is_refused() {
    let (_deployment, api) = race().await;
    let refused = async |change: Value, code: &str, says: &str| {
        let mut input = json!({ "slug": "other" });
        input.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        check(&api, CREATE, json!({ "input": input }), code, says).await;
    };
    refused(json!({ "slug": "race" }), "ALREADY_EXISTS", "race").await;
    for (change, says) in [
        (json!({ "slug": "No Slug" }), "slug"),
        (json!({ "slug": "" }), "slug"),
        (json!({ "title": "" }), "title"),
        (json!({ "decimals": 10, "maxScore": "1" }), "0 to 9"),
        (json!({ "decimals": 200 }), "0 to 9"),
        (json!({ "decimals": -1 }), "0 to 9"),
        (json!({ "minScore": "5", "maxScore": "5" }), "less than"),
        (json!({ "maxScore": "9007199254740992" }), "maxScore"),
        (
            json!({ "minScore": "-1", "maxScore": "9007199254740991", "tieBreak": "MEMBER" }),
            "53 bits",
        ),
        (json!({ "maxScore": "1.5" }), "maxScore"),
        (json!({ "maxScore": "9007199254740991" }), "tie-break"),
        (json!({ "tieBreakResolutionMs": 7 }), "1000"),
        (json!({ "tieBreakResolutionMs": -1 }), "tieBreakResolutionMs"),
        (json!({ "tieBreak": "MEMBER", "tieBreakResolutionMs": 1000 }), "MEMBER"),
        (json!({ "tieBreak": "MEMBER", "policy": "LATEST" }), "EARLIEST and LATEST"),
        (json!({ "timeZone": "Mars/Olympus" }), "IANA"),
        (json!({ "shards": 3 }), "power of two"),
        (json!({ "shards": 32 }), "16"),
        (json!({ "shards": 0 }), ""),
        (json!({ "segmentBy": ["country"] }), "are accepted"),
        (
            json!({ "windows": [{ "name": "yearly" }] }),
            "hourly, daily, weekly, monthly, rolling ones",
        ),
        (
            json!({ "windows": [{ "name": "decay:7d" }], "policy": "BEST" }),
            "policy SUM and direction HIGH_FIRST",
        ),
        (json!({ "windows": [{ "name": "daily" }, { "name": "daily" }] }), "twice"),
        (json!({ "maxScore": 1.5 }), "string"),
        (json!({ "maxScore": 1_234_567_890_123_456_i64 }), "15 digits"),
        (json!({ "direction": "SIDEWAYS" }), ""),
    ] {
        refused(change, "BAD_USER_INPUT", says).await;
    }
}

#[tokio::test]
async fn a_score_that_cannot_count_is_refused_for_itself() {
    let (_deployment, api) = race().await;
    let future = (Timestamp::now() + Duration::from_secs(60)).to_string();
    let long = "x".repeat(129);
    for (score, code, says) in [
        (json!({ "member": "", "score": 1 }), "BAD_USER_INPUT", "1 to 128"),
        (json!({ "member": long, "score": 1 }), "BAD_USER_INPUT", "1 to 128"),
        (json!({ "member": "a\nb", "score": 1 }), "BAD_USER_INPUT", "control"),
        (json!({ "member": "ann", "score": 1, "eventId": "" }), "BAD_USER_INPUT", "1 to 128"),
        (json!({ "member": "ann", "score": "1.005" }), "BAD_USER_INPUT", "never rounds"),
        (json!({ "member": "ann", "score": "many" }), "BAD_USER_INPUT", "not a decimal"),
        (
            json!({ "member": "ann", "score": "99999999999999999999" }),
            "SCORE_OUT_OF_RANGE",
            "out of range",
        ),
        (json!({ "member": "ann", "score": "9999970" }), "SCORE_OUT_OF_RANGE", "the window all"),
        (
            json!({ "member": "eve", "score": "-5.51" }),
            "SCORE_OUT_OF_RANGE",
            "the window all would hold -0.01",
        ),
        (json!({ "member": "ann", "score": 1, "at": future }), "BAD_USER_INPUT", "future"),
        (
            json!({ "member": "ann", "score": 1, "at": "1969-12-31T23:59:59.999Z" }),
            "BAD_USER_INPUT",
            "1970",
        ),
    ] {
        let good = json!({ "member": "good", "score": 0 });
        let payload = submit(&api, "race", json!([score, good])).await;
        assert_eq!(
            (&payload["accepted"], &payload["rejected"]),
            (&json!(1), &json!(1)),
            "{score}: {payload}"
        );
        let refused = &payload["results"][0];
        assert_eq!(
            (&refused["status"], &refused["error"]["code"]),
            (&json!("REJECTED"), &json!(code)),
            "{score}: {payload}"
        );
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{score}: {message}");
        assert_eq!(payload["results"][1]["status"], "APPLIED");
    }
    let text =
        "{ board(slug: \"race\") { standings { ranks(members: [\"ann\", \"eve\"]) { score } } } }";
    let scores = api.data(text, json!({})).await["board"]["standings"]["ranks"].take();
    assert_eq!(scores, json!([{ "score": "30.00" }, { "score": "5.50" }]));
}

#[tokio::test]
async fn a_submission_that_is_no_batch_for_a_board_is_refused() {
    let (_deployment, api) = race().await;
    let text = "mutation($board: String!, $scores: [ScoreInput!]!) { submitScores(input: { board: $board, scores: $scores }) { accepted } }";
    let one = json!([{ "member": "ann", "score": 1 }]);
    check(&api, text, json!({ "board": "none", "scores": one }), "NOT_FOUND", "none").await;
    check(&api, text, json!({ "board": "race", "scores": [] }), "BAD_USER_INPUT", "1 to 1000")
        .await;
    let many = vec![json!({ "member": "ann", "score": 1 }); 1001];
    check(&api, text, json!({ "board": "race", "scores": many }), "LIMIT_EXCEEDED", "1000").await;
    for (at, says) in [("yesterday", "RFC 3339"), ("2025-01-01", "RFC 3339")] {
        let scores = json!([{ "member": "ann", "score": 1, "at": at }]);
        check(&api, text, json!({ "board": "race", "scores": scores }), "BAD_USER_INPUT", says)
            .await;
    }
    for score in [json!(1.5), json!(1e20), json!(true), Value::Null] {
        let scores = json!([{ "member": "ann", "score": score }]);
        check(&api, text, json!({ "board": "race", "scores": scores }), "BAD_USER_INPUT", "").await;
    }
    let literal = "mutation { submitScores(input: { board: \"race\", scores: [{ member: \"ann\", score: 1.25 }] }) { accepted } }";
    check(&api, literal, json!({}), "BAD_USER_INPUT", "string").await;
}

#[tokio::test]
async fn a_mutation_needs_a_token_of_its_scope() {
    let (deployment, api) = race().await;
    let submit = "mutation { submitScores(input: { board: \"race\", scores: [{ member: \"ann\", score: 1 }] }) { accepted } }";
    let create = "mutation { createBoard(input: { slug: \"other\" }) { board { id } } }";
    let upsert = "mutation { upsertMembers(input: [{ key: \"ann\" }]) { members { key } } }";
    let (reads, submits) = (
        deployment.new_token(&["--scope", "read"]).await,
        deployment.new_token(&["--scope", "submit"]).await,
    );
    for (token, text, code) in [
        (None, submit, "UNAUTHENTICATED"),
        (None, create, "UNAUTHENTICATED"),
        (None, upsert, "UNAUTHENTICATED"),
        (Some("laurel_0123456789ab_no"), submit, "UNAUTHENTICATED"),
        (Some("nonsense"), "{ viewer { scopes } }", "UNAUTHENTICATED"),
        (Some(reads.as_str()), submit, "FORBIDDEN"),
        (Some(submits.as_str()), create, "FORBIDDEN"),
        (Some(submits.as_str()), upsert, "FORBIDDEN"),
    ] {
        let answer = api.ask(token, text, json!({})).await;
        assert_eq!(answer.codes(), [code], "{text} with {token:?}: {:?}", answer.body);
    }
    let answer = api.ask(Some(&submits), submit, json!({})).await;
    assert_eq!(answer.body, json!({ "data": { "submitScores": { "accepted": 1 } } }));
}
