//! Engines that answer wrongly, and plans that do not fit any more: refused by name, and nothing is
//! loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ranking::board::Policy;
use ranking::board::rules::{Rules, RulesInput};
use ranking::window::Window;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::api::window::{set_windows, wait_until_ready};
use tests::deployment::{Deployment, Redis, Sql};
use tests::engine::{Engine, check_states, fold_check, load};
use tests::jobs::archive::archived;
use tests::jobs::diff::check_diff;
use tests::jobs::erasure::erase;
use tests::jobs::rebuild::stages;

/// A lie: a window's directory, how its states are made wrong, and the answer.
const LIES: [(&str, &str, &str); 17] = [
    ("all", "missing", "are of"),
    ("daily", "missing", "are of"),
    ("all", "twice", "has two entries"),
    ("daily", "another key", "has two entries"),
    ("all", "score", "is that of score"),
    ("daily", "wrapped", "add up to"),
    ("all", "wrapped", "add up to"),
    ("all", "time", "its events fold to"),
    ("daily", "time", "its events fold to"),
    ("daily", "outside", "outside the period"),
    ("all", "key", "is not a rank key"),
    ("all", "partition", "is of partition"),
    ("daily", "stranger", "no shard in"),
    ("all", "swapped", "its events fold to"),
    ("daily", "period", "has no open period"),
    ("all", "seq", "is none of the plan's"),
    ("all", "column", "has no column seq"),
];

/// Two boards with the same rules and members.
async fn start() -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    for slug in ["b", "c"] {
        let windows = json!([{ "name": "daily" }]);
        api.create_board(json!({ "slug": slug, "shards": 2, "windows": windows })).await;
        let score = |number: i64| {
            json!({
                "member": format!("m{}", number % 20), "score": number * 7 % 40 + 1,
                "at": format!("2025-03-0{}T12:00:{:02}Z", 1 + number % 3, number % 60),
            })
        };
        submit_durably(&api, slug, (0..80).map(score).collect()).await;
    }
    (deployment, api)
}

/// The weight of a score in a key.
fn unit(window: Window) -> i64 {
    let windows = vec![Window::Daily];
    let rules = Rules::new(RulesInput { policy: Policy::Sum, windows, ..RulesInput::default() });
    1 << rules.unwrap().layout(window).time_bits()
}

/// Copies the states of a window.
fn copy(from: &str, to: &str) {
    for window in ["all", "daily"] {
        let _ = fs::remove_dir_all(format!("{to}/{window}"));
        fs::create_dir_all(format!("{to}/{window}")).unwrap();
        for path in files(from, window) {
            let name = path.file_name().unwrap();
            fs::copy(&path, Path::new(to).join(window).join(name)).unwrap();
        }
    }
}

fn files(states: &str, window: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(states).join(window)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Checks that states are refused, by the check and by a rebuild, which changes nothing.
async fn check_refused(deployment: &Deployment, plan: &str, states: &str, expected: &str) {
    let refused = fold_check(deployment, plan, states).expect_err(expected);
    assert!(refused.contains(expected), "{expected}: {refused}");
    let before = deployment.redis_contents().await;
    let refused = load(deployment, "b", plan, states).expect_err(expected);
    assert!(refused.contains(expected), "{expected}: {refused}");
    let is_standings = |(key, _): &&(String, Option<Vec<u8>>)| key.contains(":z:");
    let now = deployment.redis_contents().await;
    assert_eq!(
        now.iter().filter(is_standings).collect::<Vec<_>>(),
        before.iter().filter(is_standings).collect::<Vec<_>>()
    );
    assert_eq!(stages(deployment).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lie_of_an_engine_is_refused_by_name() {
    let (deployment, _api) = start().await;
    let mut engine = Engine::start("datafusion");
    let plan = Engine::plan(&deployment, "b", "plan");
    let states = engine.run(&deployment, &plan);
    check_states(&deployment, &plan, &states);
    let lies = deployment.path("lies");
    for (window, how, expected) in LIES {
        copy(&states, &lies);
        let file = largest(&lies, window);
        engine.spoil(&file, how, unit(window.parse().unwrap()));
        check_refused(&deployment, &plan, &lies, expected).await;
        if !["missing", "wrapped"].contains(&how) {
            // A total has no row.
            let refused = fold_check(&deployment, &plan, &lies).unwrap_err();
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(refused.contains(name), "{how}: {refused}");
        }
    }
    copy(&states, &lies);
    let file = largest(&lies, "daily");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 9]).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    check_refused(&deployment, &plan, &lies, &format!("{name} is broken")).await;
    fs::remove_file(&file).unwrap();
    let others = files(&lies, "daily");
    let expected = if others.is_empty() { "has no file" } else { "are of" };
    check_refused(&deployment, &plan, &lies, expected).await;
    load(&deployment, "b", &plan, &states).unwrap();
    check_diff(&deployment);
}

fn largest(states: &str, window: &str) -> PathBuf {
    let files = files(states, window).into_iter();
    files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_board_s_states_and_plan_are_refused() {
    let (deployment, _api) = start().await;
    let mut engine = Engine::start("datafusion");
    let [b, c] = ["b", "c"].map(|slug| Engine::plan(&deployment, slug, slug));
    let of_c = engine.run(&deployment, &c);
    let refused = fold_check(&deployment, &b, &of_c).unwrap_err();
    assert!(refused.contains("are refused"), "{refused}");
    let refused = load(&deployment, "b", &b, &of_c).unwrap_err();
    assert!(refused.contains("are refused"), "{refused}");
    let refused = load(&deployment, "b", &c, &of_c).unwrap_err();
    assert!(refused.contains("the plan is of board \"c\""), "{refused}");
    let (elsewhere, _api) = start().await;
    let refused = load(&elsewhere, "c", &c, &of_c).unwrap_err();
    assert!(refused.contains("the plan is of deployment"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_does_not_fit_any_more_is_refused() {
    let (deployment, api) = start().await;
    let mut engine = Engine::start("datafusion");
    let plan = Engine::plan(&deployment, "b", "plan");
    let states = engine.run(&deployment, &plan);
    let refused = |expected: &str| {
        let refused = load(&deployment, "b", &plan, &states).expect_err(expected);
        assert!(refused.contains(expected) && refused.contains("another plan"), "{refused}");
    };
    // Its events were altered.
    let events = files(&plan, "events").remove(0);
    let bytes = fs::read(&events).unwrap();
    fs::write(&events, [&bytes[..], b"x"].concat()).unwrap();
    refused("is not as the plan wrote it");
    fs::write(&events, &bytes).unwrap();
    load(&deployment, "b", &plan, &states).unwrap();
    // A window more.
    set_windows(&api, "b", &["daily", "monthly"]).await;
    wait_until_ready(&api, "b", &["daily", "monthly"]).await;
    refused("windows or seasons changed");
    // A member less.
    let plan = Engine::plan(&deployment, "b", "second");
    let states = engine.run(&deployment, &plan);
    let erased = erase(&deployment, "m3", None).await;
    assert!(erased.status.success(), "{erased:?}");
    let error = load(&deployment, "b", &plan, &states).unwrap_err();
    assert!(error.contains("a member was erased since"), "{error}");
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_was_killed_is_none() {
    let (deployment, _api) = archived(Sql::Sqlite).await;
    for step in ["plan-file-written", "plan-events-written"] {
        let dir = deployment.path(step);
        let mut command =
            deployment.analytics_command(&["fold", "plan", "--board", "b", "--out", &dir]);
        command.env("CRASH_AT", step);
        assert_eq!(command.output().unwrap().status.code(), None, "{step}");
        for command in [
            &["fold", "sql", "--plan", &dir][..],
            &["fold", "check", "--plan", &dir, "--states", &dir],
        ] {
            let output = deployment.analytics(command);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && error.contains("is not whole"), "{error}");
        }
        let output = deployment.analytics(&["fold", "plan", "--board", "b", "--out", &dir]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("expected a new or an empty directory"), "{error}");
    }
    let names: Value = json!(["all", "daily"]);
    let plan = Engine::plan(&deployment, "b", "plan");
    let output = deployment.analytics(&["fold", "sql", "--plan", &plan, "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = told.as_array().unwrap().iter().map(|statement| statement["window"].clone());
    assert_eq!(json!(told.collect::<Vec<_>>()), names);
}
