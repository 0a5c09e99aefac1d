//! Rebuilds that survive faults beside them.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;
use tokio::task::JoinHandle;

use tests::api::Api;
use tests::api::playthrough::{check, play_batch};
use tests::api::submission::create_board;
use tests::boards::load::{BATCHES, Load, SENDERS, check_recovered, ids};
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::diff::check_diff;
use tests::jobs::rebuild::{rebuild, stages};
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::{Amended, History};
use tests::servers::program::signal;

/// Starts to rebuild a board.
fn begin(deployment: &Arc<Deployment>, slug: &str) -> JoinHandle<Value> {
    let (deployment, slug) = (deployment.clone(), slug.to_owned());
    tokio::spawn(async move { rebuild(&deployment, &slug).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_outlives_a_redis_that_is_killed() {
    let mut rng = seeded();
    let worlds = [Sql::Sqlite, Sql::Postgres, Sql::Sqlite].into_iter().enumerate();
    for (number, sql) in worlds.filter(|(_, sql)| extent::drawn(*sql).is_some()) {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        let load = Load::new(&mut rng, number);
        create_board(&api, &load.board).await;
        let (kill_after, k) = (rng.random_range(0..900), BATCHES / 4);
        let mut rebuilding = None;
        load.send(&[&api], k, async || {
            rebuilding = Some(begin(&deployment, &load.board.slug));
            tokio::time::sleep(Duration::from_millis(kill_after)).await;
            signal("KILL", deployment.redis_pid().await);
        })
        .await;
        let figures = rebuilding.unwrap().await.unwrap();
        println!("killed after {kill_after} ms: {figures}");
        check_recovered(&api, &load).await;
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_outlives_an_emptied_redis() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut history = History::new(every_game(&mut rng, 2, Range::Wide, 1).swap_remove(0).board);
    create_board(&api, &history.board).await;
    let events = every_game(&mut rng, 2, Range::Wide, 40).swap_remove(0).events;
    play_batch(&mut rng, &api, &mut history, &events).await;
    for _ in 0..6 {
        let slug = history.board.slug.clone();
        let flush = async {
            let after_ms = rand::random_range(100..900);
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            deployment.flush_redis().await;
        };
        futures::join!(rebuild(&deployment, &slug), flush);
        check(&api, &history).await;
        check_diff(&deployment);
    }
    assert_eq!(history.remove("nobody at all"), Amended::Nothing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_outlives_an_api_that_is_killed() {
    let mut rng = seeded();
    let worlds = [Sql::Sqlite, Sql::Postgres].into_iter().enumerate();
    for (number, sql) in worlds.filter(|(_, sql)| extent::drawn(*sql).is_some()) {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let dies = Api::start(&deployment).await;
        let load = Load::new(&mut rng, number);
        create_board(&dies, &load.board).await;
        let k = rng.random_range(1..BATCHES - SENDERS);
        let mut rebuilding = None;
        let acknowledged = load
            .send(&[&dies], k, async || {
                rebuilding = Some(begin(&deployment, &load.board.slug));
                tokio::time::sleep(Duration::from_millis(300)).await;
                signal("KILL", dies.pid());
            })
            .await;
        rebuilding.unwrap().await.unwrap();
        let api = Api::start(&deployment).await;
        load.send_again(&api, &ids(&acknowledged)).await;
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_out_of_memory_keeps_its_board_and_no_stage() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let Game { board, events } = every_game(&mut rng, 1, Range::Wide, 30).swap_remove(3);
    create_board(&api, &board).await;
    let mut history = History::new(board);
    play_batch(&mut rng, &api, &mut history, &events).await;
    check(&api, &history).await;
    let memory = async |bytes: &str| {
        let mut redis = deployment.redis().await;
        let set = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).clone();
        let () = set.query_async(&mut redis).await.unwrap();
    };
    memory("1").await;
    let slug = history.board.slug.clone();
    let mut command = deployment.analytics_command(&["rebuild", "--board", &slug]);
    command.stdout(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("OOM"), "{error}");
    assert_eq!(stages(&deployment).await, []);
    check(&api, &history).await;
    memory("0").await;
    rebuild(&deployment, &slug).await;
    check(&api, &history).await;
    check_diff(&deployment);
}
