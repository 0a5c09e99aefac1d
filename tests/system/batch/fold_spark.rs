//! Folds by this program's own client of Spark Connect, which `make test-spark` builds: on Sail,
//! and on a cluster of Apache Spark, some of whose processes are killed.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::playthrough::{begun, check, play};
use tests::deployment::{Deployment, Redis, Sql};
use tests::engine::{Engine, check_states, load};
use tests::jobs::analytics::{output_beside, run};
use tests::jobs::diff::check_diff;
use tests::jobs::rebuild::{corrupt, stages};
use tests::model::game::seeded;
use tests::servers::spark::{PATIENCE_WITH_SPARK, Spark};
use tests::wait::until_within;

/// Boards whose players go on after the plan; rebuilt from the states that `laurel rebuild` has an
/// engine fold.
async fn check_engine(deployment: &Arc<Deployment>, url: &str, dialect: &str, boards: usize) {
    let mut rng = seeded();
    let api = Api::start(deployment).await;
    for (game, mut history) in begun(&mut rng, &api, 60, 4, boards).await {
        let slug = game.board.slug.clone();
        let plan = Engine::plan(deployment, &slug, &format!("plan-{slug}"));
        let command =
            ["fold", "run", "--json", "--plan", &plan, "--engine", url, "--dialect", dialect];
        let output = deployment.analytics(&command);
        let error = String::from_utf8_lossy(&output.stderr);
        let ran: Value = serde_json::from_slice(&output.stdout).expect(&error);
        let states = format!("{plan}/states");
        assert_eq!(ran["states"], *states);
        let checked = check_states(deployment, &plan, &states);
        assert!(checked["members"].as_u64().unwrap() > 0, "{checked}");
        play(&mut rng, &api, &mut history, &game.events[30..]).await;
        corrupt(deployment, &slug).await;
        load(deployment, &slug, &plan, &states).unwrap();
        check(&api, &history).await;
        // All at once, by a plan of now.
        let of_diff = deployment.path(&format!("of-diff-{slug}"));
        let command = ["diff", "--board", &slug, "--plan", &of_diff, "--engine", url];
        let (code, found, error) =
            run(deployment, &[&command[..], &["--dialect", dialect]].concat());
        assert_eq!((code, &found["found"]), (0, &json!(0)), "{found} {error}");
    }
    check_diff(deployment);
    assert_eq!(stages(deployment).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_spark_folds_what_a_rebuild_makes() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let Some(spark) = Spark::start(deployment.path("spark")).await else { return };
    check_engine(&deployment, &spark.url(), "spark", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sail_folds_what_a_rebuild_makes_by_the_same_client() {
    if std::env::var_os("LAUREL_TEST_SPARK").is_none() {
        return println!("without the client of Spark Connect: make test-spark runs it");
    }
    let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
    let mut sail = Engine::start("sail");
    check_engine(&deployment, &sail.url(), "sail", 8).await;
}

/// A board with events enough for a while.
async fn big(deployment: &Arc<Deployment>) -> Api {
    let api = Api::start(deployment).await;
    let windows = json!([{ "name": "daily" }, { "name": "3d" }]);
    api.create_board(json!({ "slug": "big", "shards": 4, "windows": windows })).await;
    let file = deployment.path("big.csv");
    for command in [
        &["generate", "--members", "20000", "--events", "60000", "--days", "30", "--out", &file][..],
        &["import", "--board", "big", "--bulk", &file],
    ] {
        let (code, _, error) = run(deployment, command);
        assert_eq!(code, 0, "{command:?}: {error}");
    }
    api
}

/// Waits until an engine has begun to write states.
async fn begun_writing(plan: &str) {
    let states = Path::new(plan).join("states");
    let begin = async || states.exists().then_some(());
    until_within(PATIENCE_WITH_SPARK, "an engine writes states", begin).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_on_without_a_process_that_was_killed() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let Some(spark) = Spark::start(deployment.path("spark")).await else { return };
    let _api = big(&deployment).await;
    let plan = deployment.path("plan");
    let url = spark.url();
    let command = ["rebuild", "--json", "--board", "big", "--plan", &plan, "--engine", &url];
    let rebuilding = output_beside(&deployment, &command);
    let (output, ()) = tokio::join!(rebuilding, async {
        begun_writing(&plan).await;
        spark.kill_executor();
    });
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let rebuilt: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rebuilt["events"], 60_000, "{rebuilt}");
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fold_whose_server_is_killed_fails_and_another_one_succeeds() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let Some(mut spark) = Spark::start(deployment.path("spark")).await else { return };
    let _api = big(&deployment).await;
    let (plan, url) = (deployment.path("plan"), spark.url());
    let command = ["rebuild", "--board", "big", "--plan", &plan, "--engine", &url];
    let mut job = deployment.analytics_command(&command);
    let job = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    begun_writing(&plan).await;
    spark.kill_connect();
    spark.restart_connect().await;
    let output = tokio::task::spawn_blocking(|| job.wait_with_output().unwrap()).await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    // The client may send the statement to the new server.
    if !output.status.success() {
        assert!(error.contains("the engine did not fold window"), "{error}");
    }
    println!("{}", output.status);
    assert_eq!(stages(&deployment).await, []);
    let (code, rebuilt, error) = run(&deployment, &command);
    assert_eq!((code, &rebuilt["events"]), (0, &json!(60_000)), "{error}");
    check_diff(&deployment);
}
