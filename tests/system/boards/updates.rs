//! Boards that change, open and close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::CREATE_BOARD;
use tests::wait::until;

const UPDATE: &str = "
    mutation($input: UpdateBoardInput!) { updateBoard(input: $input) { board {
        slug title visibility selfSubmit opensAt closesAt windows { name }
    } } }";

const BOARD: &str =
    "{ board(slug: \"b\") { slug title visibility selfSubmit opensAt closesAt windows { name } } }";

const OPENS: &str = "2025-09-03T12:00:00.250Z";

const CLOSES: &str = "2025-09-04T12:00:00.750Z";

async fn board(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily" }, { "name": "monthly" }]);
    api.create_board(json!({ "slug": "b", "windows": windows })).await;
    (deployment, api)
}

/// Changes the board; returns its fields, or the code of the refusal.
async fn update(api: &Api, input: Value) -> Value {
    let mut input = input;
    if input["slug"] == Value::Null {
        input["slug"] = json!("b");
    }
    let mut answer = api.ask(Some(api.token()), UPDATE, json!({ "input": input })).await;
    match answer.codes()[..] {
        [] => answer.body["data"]["updateBoard"]["board"].take(),
        [code] => json!(code),
        _ => panic!("{:?}", answer.body),
    }
}

/// The outcome of a score earned at an instant: its status, or the reason for its refusal.
async fn earned(api: &Api, at: &str) -> String {
    let told = submit(api, "b", json!([{ "member": "ann", "score": 1, "at": at }])).await;
    let result = &told["results"][0];
    let said = |pointer: &str| {
        result.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match (&*said("/status"), &*said("/error/code")) {
        ("APPLIED", "") => "APPLIED".to_owned(),
        ("REJECTED", "BOARD_NOT_OPEN" | "BOARD_CLOSED") => said("/error/message"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_changed_of_a_board_is_changed_and_nothing_else() {
    for sql in Sql::all() {
        let (_deployment, api) = board(sql).await;
        let mut expected = api.data(BOARD, json!({})).await["board"].take();
        assert_eq!(expected["title"], "b");
        for (name, value) in [
            ("title", json!("Ränge")),
            ("visibility", json!("PRIVATE")),
            ("selfSubmit", json!(true)),
            ("opensAt", json!(OPENS)),
            ("closesAt", json!(CLOSES)),
            ("opensAt", Value::Null),
            ("visibility", json!("PUBLIC")),
            ("selfSubmit", json!(false)),
            ("closesAt", Value::Null),
        ] {
            expected[name] = value.clone();
            assert_eq!(update(&api, json!({ name: value })).await, expected, "{name}");
            assert_eq!(api.data(BOARD, json!({})).await["board"], expected, "{name}");
        }
        assert_eq!(update(&api, json!({})).await, expected);
    }
}

#[tokio::test]
async fn windows_that_cannot_be_are_refused_and_those_it_has_change_nothing() {
    let (_deployment, api) = board(Sql::any()).await;
    let windows = |names: &[&str]| {
        let window = |name: &&str| json!({ "name": name });
        json!({ "windows": names.iter().map(window).collect::<Vec<_>>(), "title": "changed" })
    };
    for other in [&["fortnightly"][..], &["daily", "daily"], &["daily", ""]] {
        assert_eq!(update(&api, windows(other)).await, "BAD_USER_INPUT", "{other:?}");
        assert_eq!(api.data(BOARD, json!({})).await["board"]["title"], "b", "{other:?}");
    }
    for same in [["daily", "monthly"], ["monthly", "daily"]] {
        let board = update(&api, windows(&same)).await;
        assert_eq!(board["title"], "changed");
        let kept = json!([{ "name": "all" }, { "name": "daily" }, { "name": "monthly" }]);
        assert_eq!(board["windows"], kept);
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_is_refused_as_a_whole() {
    let (deployment, api) = board(Sql::any()).await;
    let before = api.data(BOARD, json!({})).await;
    for (input, code) in [
        (json!({ "slug": "none", "title": "x" }), "NOT_FOUND"),
        (json!({ "slug": "~1", "title": "x" }), "NOT_FOUND"),
        (json!({ "slug": "No Slug", "title": "x" }), "NOT_FOUND"),
        (json!({ "title": "" }), "BAD_USER_INPUT"),
        (json!({ "title": "x".repeat(201) }), "BAD_USER_INPUT"),
        (json!({ "title": "x", "opensAt": CLOSES, "closesAt": OPENS }), "BAD_USER_INPUT"),
        (json!({ "title": "x", "opensAt": OPENS, "closesAt": OPENS }), "BAD_USER_INPUT"),
        (json!({ "title": "x", "opensAt": "1969-12-31T23:59:59Z" }), "BAD_USER_INPUT"),
    ] {
        assert_eq!(update(&api, input.clone()).await, code, "{input}");
        assert_eq!(api.data(BOARD, json!({})).await, before);
    }
    // A change of one end is compared with the other end of the board.
    update(&api, json!({ "opensAt": CLOSES })).await;
    assert_eq!(update(&api, json!({ "closesAt": OPENS })).await, "BAD_USER_INPUT");
    assert_eq!(update(&api, json!({ "closesAt": CLOSES })).await, "BAD_USER_INPUT");
    let create = json!({ "slug": "c", "opensAt": CLOSES, "closesAt": OPENS });
    let answer = api.ask(Some(api.token()), CREATE_BOARD, json!({ "input": create })).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
    let submits = deployment.new_token(&["--scope", "submit"]).await;
    let change = json!({ "input": { "slug": "b", "title": "x" } });
    assert_eq!(api.ask(Some(&submits), UPDATE, change.clone()).await.codes(), ["FORBIDDEN"]);
    assert_eq!(api.ask(None, UPDATE, change).await.codes(), ["UNAUTHENTICATED"]);
}

#[tokio::test]
async fn a_board_takes_scores_from_the_millisecond_it_opens_until_the_one_it_closes() {
    for sql in Sql::all() {
        let (_deployment, api) = board(sql).await;
        let open = update(&api, json!({ "opensAt": OPENS, "closesAt": CLOSES })).await;
        assert_eq!((&open["opensAt"], &open["closesAt"]), (&json!(OPENS), &json!(CLOSES)));
        let before = earned(&api, "2025-09-03T12:00:00.249Z").await;
        assert!(before.contains("2025-09-03T12:00:00.25"), "{before}");
        assert_eq!(earned(&api, OPENS).await, "APPLIED");
        assert_eq!(earned(&api, "2025-09-04T12:00:00.749Z").await, "APPLIED");
        let after = earned(&api, CLOSES).await;
        assert!(after.contains("2025-09-04T12:00:00.75"), "{after}");
        // A score without a time is earned now, long after the end.
        let told = submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
        assert_eq!(told["rejected"], 1);
        update(&api, json!({ "closesAt": null })).await;
        assert_eq!(earned(&api, CLOSES).await, "APPLIED");
        assert_ne!(earned(&api, "2025-09-03T12:00:00.249Z").await, "APPLIED");
        update(&api, json!({ "opensAt": null })).await;
        assert_eq!(earned(&api, "1970-01-01T00:00:00Z").await, "APPLIED");
        // Scores from before the board closed still count.
        update(&api, json!({ "closesAt": "1970-01-01T00:00:00.001Z" })).await;
        let text = "{ board(slug: \"b\") { standings { entry(member: \"ann\") { score } } } }";
        assert_eq!(api.data(text, json!({})).await["board"]["standings"]["entry"]["score"], "4");
    }
}

#[tokio::test]
async fn a_score_that_counted_before_the_board_closed_is_still_a_duplicate() {
    let (_deployment, api) = board(Sql::any()).await;
    let score = json!([{ "member": "ann", "score": 1, "at": OPENS, "eventId": "e1" }]);
    assert_eq!(submit(&api, "b", score.clone()).await["accepted"], 1);
    update(&api, json!({ "closesAt": OPENS })).await;
    assert_eq!(submit(&api, "b", score).await["duplicates"], 1);
}

#[tokio::test]
async fn a_change_shows_in_another_process() {
    let (deployment, api) = board(Sql::any()).await;
    let other = Api::start(&deployment).await;
    assert_eq!(earned(&other, OPENS).await, "APPLIED");
    update(&api, json!({ "title": "new", "visibility": "PRIVATE", "closesAt": OPENS })).await;
    until("the other process shows the title", async || {
        let seen = other.data(BOARD, json!({})).await;
        (seen["board"]["title"] == "new").then_some(())
    })
    .await;
    until("the other process refuses scores", async || {
        (earned(&other, OPENS).await != "APPLIED").then_some(())
    })
    .await;
    until("the other process hides it", async || {
        let seen = other.ask(None, BOARD, json!({})).await;
        (seen.body["data"]["board"] == Value::Null).then_some(())
    })
    .await;
}

#[tokio::test]
async fn rows_from_when_a_board_was_closed_are_bad() {
    let (deployment, api) = board(Sql::any()).await;
    update(&api, json!({ "opensAt": OPENS, "closesAt": CLOSES })).await;
    let file = deployment.new_file("csv");
    let rows = format!(
        "member,score,at\n\
        ann,1,2025-09-03T12:00:00.249Z\n\
        bob,1,{OPENS}\n\
        cy,1,2025-09-04T12:00:00.749Z\n\
        dee,1,{CLOSES}\n"
    );
    std::fs::write(&file, rows).unwrap();
    let file = file.to_str().unwrap();
    let output = deployment.analytics(&["import", "--board", "b", file]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    for line in ["line 2: ", "line 5: "] {
        assert!(error.contains(line), "{error}");
    }
    for line in ["line 3: ", "line 4: "] {
        assert!(!error.contains(line), "{error}");
    }
    let rejects = deployment.new_file("csv");
    let output = deployment.analytics(&[
        "import",
        "--board",
        "b",
        "--skip-bad",
        rejects.to_str().unwrap(),
        file,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = "{ board(slug: \"b\") { standings { top { nodes { member { key } } } } } }";
    let nodes = json!([{ "member": { "key": "bob" } }, { "member": { "key": "cy" } }]);
    assert_eq!(api.data(text, json!({})).await["board"]["standings"]["top"]["nodes"], nodes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_is_changed_beside_writers() {
    let (deployment, api) = board(Sql::any()).await;
    let other = Api::start(&deployment).await;
    let stop = AtomicBool::new(false);
    let write = async |api: &Api| {
        while !stop.load(Ordering::SeqCst) {
            assert_eq!(earned(api, OPENS).await, "APPLIED");
        }
    };
    let change = async || {
        let mut refused = vec![];
        for round in 0..200 {
            let title = format!("t{round}");
            let seen = update(&api, json!({ "title": title })).await;
            if seen["title"] != title {
                refused.push(seen);
            }
        }
        stop.store(true, Ordering::SeqCst);
        refused
    };
    let (refused, (), ()) = futures::join!(change(), write(&api), write(&other));
    assert_eq!(refused, [Value::Null; 0]);
}

#[tokio::test]
async fn a_score_that_comes_too_late_is_rejected_and_one_that_is_brought_in_is_not() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let created = api.create_board(json!({ "slug": "b", "maxLatenessSeconds": 3600 })).await;
    assert_eq!(created["maxLatenessSeconds"], 3600);
    let ago = |seconds: i64| {
        (jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds)).to_string()
    };
    let score = |seconds: i64| json!([{ "member": "ann", "score": 1, "at": ago(seconds) }]);
    let late = submit(&api, "b", score(3660)).await;
    assert_eq!(late["results"][0]["status"], "REJECTED");
    assert_eq!(late["results"][0]["error"]["code"], "TOO_LATE");
    assert_eq!(submit(&api, "b", score(3500)).await["accepted"], 1);
    let file = deployment.new_file("late.csv");
    std::fs::write(&file, format!("member,score,at\nann,1,{}\n", ago(90_000))).unwrap();
    let imported = deployment.analytics(&["import", "--board", "b", file.to_str().unwrap()]);
    assert!(imported.status.success());
    let changed = api.update_board(json!({ "slug": "b", "maxLatenessSeconds": null })).await;
    assert!(changed["maxLatenessSeconds"].is_null());
    assert_eq!(submit(&api, "b", score(90_000)).await["accepted"], 1);
    let ask = r#"{ board(slug: "b") { standings { entry(member: "ann") { score } } } }"#;
    let data = api.data(ask, json!({})).await;
    assert_eq!(data["board"]["standings"]["entry"]["score"], "3");
}

#[tokio::test]
async fn a_board_where_members_submit_accepts_scores_of_the_last_seven_days_by_default() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (slug, asked, expected) in [
        ("default", json!({ "selfSubmit": true }), json!(604_800)),
        ("given", json!({ "selfSubmit": true, "maxLatenessSeconds": 60 }), json!(60)),
        ("none", json!({ "selfSubmit": true, "maxLatenessSeconds": null }), Value::Null),
        ("service", json!({ "selfSubmit": false }), Value::Null),
    ] {
        let mut input = asked;
        input["slug"] = json!(slug);
        assert_eq!(api.create_board(input).await["maxLatenessSeconds"], expected, "{slug}");
    }
    // So does one where they begin to, unless its owner says otherwise.
    for (mut asked, expected) in [
        (json!({}), json!(604_800)),
        (json!({ "maxLatenessSeconds": null }), Value::Null),
        (json!({ "maxLatenessSeconds": 60 }), json!(60)),
    ] {
        api.update_board(
            json!({ "slug": "service", "selfSubmit": false, "maxLatenessSeconds": null }),
        )
        .await;
        (asked["slug"], asked["selfSubmit"]) = (json!("service"), json!(true));
        assert_eq!(api.update_board(asked).await["maxLatenessSeconds"], expected);
    }
    let again = api.update_board(json!({ "slug": "service", "selfSubmit": true })).await;
    assert_eq!(again["maxLatenessSeconds"], 60);
}

#[tokio::test]
async fn only_the_period_that_is_on_says_when_the_next_one_begins() {
    let (_deployment, api) = board(Sql::any()).await;
    let ask = r#"{ board(slug: "b") {
        windows { name current { end nextResetAt } }
        standings(of: { window: "daily", period: "2020-02-29" }) { period { end nextResetAt } }
    } }"#;
    let data = api.data(ask, json!({})).await;
    for window in data["board"]["windows"].as_array().unwrap() {
        let current = &window["current"];
        assert_eq!(current["nextResetAt"], current["end"], "{window}");
        assert_eq!(current["end"].is_null(), window["name"] == "all");
    }
    let past = &data["board"]["standings"]["period"];
    assert_eq!(past["end"], "2020-03-01T00:00:00.000Z");
    assert!(past["nextResetAt"].is_null());
}
