//! Refused scores: each with its code and a message that says what is expected.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::refusal::check;
use tests::api::submission::submit;
use tests::boards::race::race;
use tests::deployment::{Deployment, Redis, Sql};

#[tokio::test]
async fn a_score_that_cannot_count_is_refused_for_itself() {
    let (_deployment, api) = race().await;
    let future = (Timestamp::now() + Duration::from_secs(60)).to_string();
    let long = "x".repeat(129);
    for (score, code, says) in [
        (json!({ "member": "", "score": 1 }), "BAD_USER_INPUT", "1 to 128"),
        (json!({ "member": long, "score": 1 }), "BAD_USER_INPUT", "1 to 128"),
        (json!({ "member": "a\nb", "score": 1 }), "BAD_USER_INPUT", "control"),
        (json!({ "member": "ann\u{200B}", "score": 1 }), "BAD_USER_INPUT", "invisible"),
        (json!({ "member": "\u{202E}nna", "score": 1 }), "BAD_USER_INPUT", "direction"),
        (json!({ "member": "  ", "score": 1 }), "BAD_USER_INPUT", "blank"),
        (
            json!({ "member": "ann", "score": 1, "eventId": "a\u{2028}" }),
            "BAD_USER_INPUT",
            "event id",
        ),
        (json!({ "member": "ann", "score": 1, "eventId": "" }), "BAD_USER_INPUT", "1 to 128"),
        (json!({ "member": "ann", "score": "1.005" }), "BAD_USER_INPUT", "never rounds"),
        (json!({ "member": "ann", "score": "many" }), "BAD_USER_INPUT", "invalid score"),
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
    let text = "
        mutation($board: String!, $scores: [ScoreInput!]!) {
            submitScores(input: { board: $board, scores: $scores }) { accepted }
        }";
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
    let literal = "
        mutation {
            submitScores(input: { board: \"race\", scores: [{ member: \"ann\", score: 1.25 }] }) {
                accepted
            }
        }";
    check(&api, literal, json!({}), "BAD_USER_INPUT", "string").await;
}

#[tokio::test]
async fn late_scores_that_would_write_very_many_standings_come_in_parts() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let windows =
        json!([{ "name": "daily" }, { "name": "7d" }, { "name": "30d" }, { "name": "90d" }]);
    api.create_board(json!({ "slug": "roll", "windows": windows })).await;
    let text = "
        mutation($scores: [ScoreInput!]!) {
            submitScores(input: { board: \"roll\", scores: $scores }) { accepted }
        }";
    // Each writes 129 standings: all, its day, and the days of which the windows see it.
    let late = json!({ "member": "ann", "score": 1, "at": "1990-01-01T00:00:00Z" });
    let scores = |count| json!({ "scores": vec![late.clone(); count] });
    check(&api, text, scores(300), "LIMIT_EXCEEDED", "about 155 of these").await;
    let answer = api.data(text, scores(2)).await;
    assert_eq!(answer["submitScores"]["accepted"], 2);
    let on_time = json!({ "scores": vec![json!({ "member": "ann", "score": 1 }); 1000] });
    assert_eq!(api.data(text, on_time).await["submitScores"]["accepted"], 1000);
}
