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
        let argument = refused["error"]["argument"].as_str().unwrap();
        assert!(argument.starts_with("input.scores[0]."), "{score}: {argument}");
        assert_eq!(payload["results"][1]["status"], "APPLIED");
    }
    let text = "{ board(slug: \"race\") { standings { entries(members: [\"ann\", \"eve\"]) { score } } } }";
    let scores = api.data(text, json!({})).await["board"]["standings"]["entries"].take();
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
    for score in [json!([1]), json!({ "x": 1 }), Value::Null] {
        let scores = json!([{ "member": "ann", "score": score }]);
        check(&api, text, json!({ "board": "race", "scores": scores }), "BAD_USER_INPUT", "").await;
    }
}

#[tokio::test]
async fn a_scalar_that_cannot_be_read_refuses_its_own_score() {
    let (_deployment, api) = race().await;
    for (score, argument, says) in [
        (json!({ "member": "ann", "score": 1.5 }), "score", "as a float may have been rounded"),
        (json!({ "member": "ann", "score": 1e20 }), "score", "as a float"),
        (json!({ "member": "ann", "score": 12_345_678_901_234_567_i64 }), "score", "15 digits"),
        (json!({ "member": "ann", "score": true }), "score", "an integer or a string"),
        (json!({ "member": "ann", "score": 1, "at": "yesterday" }), "at", "RFC 3339"),
        (json!({ "member": "ann", "score": 1, "at": "2025-01-01" }), "at", "RFC 3339"),
        (json!({ "member": "ann", "score": 1, "at": "2025-01-01 10:00:00Z" }), "at", "RFC 3339"),
        (json!({ "member": "ann", "score": 1, "at": 7 }), "at", "RFC 3339"),
    ] {
        let good = json!({ "member": "good", "score": 0 });
        let payload = submit(&api, "race", json!([good, score])).await;
        assert_eq!(payload["results"][0]["status"], "APPLIED", "{score}: {payload}");
        let error = &payload["results"][1]["error"];
        assert_eq!(error["code"], "BAD_USER_INPUT", "{score}: {payload}");
        assert_eq!(error["argument"], format!("input.scores[1].{argument}"), "{score}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    let literal = "
        mutation {
            submitScores(input: { board: \"race\", scores: [
                { member: \"ann\", score: 1.25 }, { member: \"ann\", score: 1 }
            ] }) { results { status error { argument } } }
        }";
    let results = api.data(literal, json!({})).await["submitScores"]["results"].take();
    let error = json!({ "argument": "input.scores[0].score" });
    let expected = json!([
        { "status": "REJECTED", "error": error }, { "status": "APPLIED", "error": null },
    ]);
    assert_eq!(results, expected);
}

#[tokio::test]
async fn an_error_names_the_argument_that_is_wrong() {
    let (_deployment, api) = race().await;
    let create = "mutation($i: CreateBoardInput!) { createBoard(input: $i) { board { id } } }";
    let members = "mutation($m: [MemberInput!]!) { upsertMembers(input: { members: $m }) {
        members { key }
    } }";
    let windows = json!([{ "name": "daily" }, { "name": "fortnightly" }]);
    for (text, variables, argument) in [
        (
            "{ board(slug: \"race\") { standings { entry(member: \"\") { rank } } } }",
            json!({}),
            "member",
        ),
        (
            "{ board(slug: \"race\") { standings { top(first: -1) { totalCount } } } }",
            json!({}),
            "first",
        ),
        (
            "{ board(slug: \"race\") { standings(of: { window: \"x\" }) { size } } }",
            json!({}),
            "of.window",
        ),
        (
            "{ board(slug: \"race\") { standings(of: { window: \"daily\", period: \"x\" }) { size } } }",
            json!({}),
            "of.period",
        ),
        (
            "query($at: DateTime!) { board(slug: \"race\") { standings(of: { at: $at }) { size } } }",
            json!({ "at": "now" }),
            "of.at",
        ),
        ("{ node(id: \"x\") { id } }", json!({}), "id"),
        ("{ jobs(board: \"none\") { totalCount } }", json!({}), "board"),
        ("{ members(keys: [\"a\", 7]) { key } }", json!({}), "keys[1]"),
        (create, json!({ "i": { "slug": "X" } }), "input.slug"),
        (create, json!({ "i": { "slug": "x", "decimals": 10 } }), "input.decimals"),
        (create, json!({ "i": { "slug": "x", "windows": windows } }), "input.windows[1].name"),
        (create, json!({ "i": { "slug": "x", "policy": "WORST" } }), "input.policy"),
        (
            members,
            json!({ "m": [{ "key": "a" }, { "key": "b", "name": " " }] }),
            "input.members[1].name",
        ),
        (members, json!({ "m": [{ "key": "a" }, { "key": 7 }] }), "input.members[1].key"),
    ] {
        let answer = api.query(text, variables.clone()).await;
        let extensions = &answer["errors"][0]["extensions"];
        assert_eq!(extensions["argument"], argument, "{text} {variables}: {answer}");
    }
}

#[tokio::test]
async fn late_scores_that_would_write_very_many_standings_come_in_parts() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
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
    check(&api, text, scores(300), "LIMIT_EXCEEDED", "about 124 of these").await;
    let answer = api.data(text, scores(2)).await;
    assert_eq!(answer["submitScores"]["accepted"], 2);
    let on_time = json!({ "scores": vec![json!({ "member": "ann", "score": 1 }); 1000] });
    assert_eq!(api.data(text, on_time).await["submitScores"]["accepted"], 1000);
}
