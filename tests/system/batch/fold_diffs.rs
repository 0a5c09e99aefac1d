//! Diffs that take an engine's states in place of a fold of their own.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::remove;
use tests::api::submission::submit_durably;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::engine::Engine;
use tests::jobs::analytics::run;
use tests::jobs::diff::{check_diff, findings};

/// The members of findings, in order.
fn members(found: &Value) -> Vec<String> {
    let mut members: Vec<String> = findings(found).into_iter().map(|(.., member)| member).collect();
    members.sort();
    members
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diff_takes_an_engine_s_states_and_looks_at_all_that_came_since() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily" }, { "name": "3d" }]);
    api.create_board(json!({ "slug": "b", "windows": windows })).await;
    let score = |number: i64| {
        let at = jiff::Timestamp::from_millisecond(now_ms() - number * DAY_MS / 9).unwrap();
        json!({ "member": format!("m{}", number % 9), "score": number, "at": at.to_string() })
    };
    let scores: Vec<Value> = (1..60).map(score).collect();
    submit_durably(&api, "b", scores.into()).await;
    let plan = Engine::plan(&deployment, "b", "plan");
    let states = Engine::start("datafusion").run(&deployment, &plan);
    let diff = |more: &[&'static str]| {
        let command = ["diff", "--board", "b", "--plan", &plan, "--states", &states];
        let (code, found, error) = run(&deployment, &[&command[..], more].concat());
        assert_eq!(error, "");
        (code, found)
    };
    submit_durably(
        &api,
        "b",
        json!([
            { "member": "late", "score": 500 }, { "member": "m1", "score": 600 },
        ]),
    )
    .await;
    remove(&api, "b", "m2").await;
    let (code, found) = diff(&[]);
    assert_eq!((code, &found["found"]), (0, &json!(0)), "{found}");
    let keys: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:*:z:*:all"]).await;
    let [all] = &keys[..] else { panic!("{keys:?}") };
    // Entries that came after the plan, one that left, and one that was there.
    let () = deployment.ask_redis(&["ZREM", all, "late"]).await;
    let () = deployment.ask_redis(&["ZADD", all, "77", "m2"]).await;
    let of_m4: String = deployment.ask_redis(&["ZSCORE", all, "m4"]).await;
    let () = deployment.ask_redis(&["ZADD", all, &of_m4, "m3"]).await;
    let (code, found) = diff(&[]);
    assert_eq!(code, 3, "{found}");
    assert_eq!(members(&found), ["late", "m2", "m3"], "{found}");
    let (code, found) = diff(&["--repair"]);
    assert_eq!((code, &found["left"]), (0, &json!(0)), "{found}");
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_redis_missed_after_the_plan_is_found() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_durably(&api, "b", json!([
        { "member": "a", "score": 5 }, { "member": "b", "score": 6 }, { "member": "c", "score": 7 },
    ]))
    .await;
    let plan = Engine::plan(&deployment, "b", "plan");
    let states = Engine::start("datafusion").run(&deployment, &plan);
    let keys: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:*:z:*:all"]).await;
    let [all] = &keys[..] else { panic!("{keys:?}") };
    let held: Vec<String> = deployment.ask_redis(&["ZRANGE", all, "0", "-1", "WITHSCORES"]).await;
    // The states and Redis then agree, and only the history knows better.
    remove(&api, "b", "a").await;
    submit_durably(&api, "b", json!([{ "member": "b", "score": 60 }])).await;
    let () = deployment.ask_redis(&["DEL", all]).await;
    for entry in held.chunks(2) {
        let () = deployment.ask_redis(&["ZADD", all, &entry[1], &entry[0]]).await;
    }
    let command = ["diff", "--board", "b", "--plan", &plan, "--states", &states];
    let (code, found, _) = run(&deployment, &command);
    assert_eq!((code, members(&found)), (3, vec!["a".to_owned(), "b".to_owned()]), "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_are_of_one_board() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    for slug in ["b", "c"] {
        api.create_board(json!({ "slug": slug })).await;
    }
    let plan = Engine::plan(&deployment, "b", "plan");
    let refused = |arguments: &[&str]| {
        let (code, _, error) = run(&deployment, arguments);
        assert_ne!(code, 0, "{arguments:?}");
        error
    };
    assert!(refused(&["diff", "--plan", &plan]).contains("name it with --board"));
    assert!(refused(&["diff", "--board", "c", "--plan", &plan]).contains("the plan is of board"));
    for other in [&["--against", "standings"][..], &["--part", "0/2"]] {
        let command = [&["diff", "--board", "b", "--plan", &plan][..], other].concat();
        assert!(refused(&command).contains("cannot be used with"), "{other:?}");
    }
    let error = refused(&["diff", "--board", "b", "--engine", "sc://127.0.0.1:1"]);
    assert!(error.contains("--plan"), "{error}");
    // A program with a client refuses the address, and one without it the command.
    let command = ["fold", "run", "--plan", &plan, "--engine", "http://127.0.0.1:1"];
    let output = deployment.analytics(&command);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = ["make analytics SPARK=1", "expected sc://HOST:PORT"];
    assert!(expected.iter().any(|expected| error.contains(expected)), "{error}");
}
