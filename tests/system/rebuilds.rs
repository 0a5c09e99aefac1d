//! Rebuilds while people play: standings are right at every step, whatever is killed on the way.

use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::amendments::check_diff;
use crate::api::Api;
use crate::deployment::{Deployment, Redis, Sql};
use crate::faults::{BATCHES, Load, SENDERS, check_recovered, ids};
use crate::game::{Game, Range, every_game, seeded};
use crate::histories::{amend, check};
use crate::history::{Amended, History};
use crate::listing::{check_all_time_in_sql, check_standings};
use crate::load::{create_board, submit, submit_events};
use crate::oracle::{Event, Oracle};
use crate::program::signal;

/// Every step after which a rebuild can end; some are taken several times.
const STEPS: [&str; 9] = [
    "history-read",
    "standings-loaded",
    "standings-loaded:3",
    "rows-written",
    "rows-written:2",
    "staged",
    "standings-put",
    "standings-put:3",
    "partition-put",
];

/// Runs a command of `analytics` to its end, beside others.
async fn analytics(deployment: &Arc<Deployment>, arguments: &[&str]) -> Output {
    let mut command = deployment.analytics_command(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Rebuilds a board; its figures.
pub(crate) async fn rebuild(deployment: &Arc<Deployment>, slug: &str) -> Value {
    let output = analytics(deployment, &["--json", "rebuild", "--board", slug]).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{slug}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Begins to rebuild a board.
fn begin(deployment: &Arc<Deployment>, slug: &str) -> JoinHandle<Value> {
    let (deployment, slug) = (deployment.clone(), slug.to_owned());
    tokio::spawn(async move { rebuild(&deployment, &slug).await })
}

/// The keys of staged standings, and how long they live, in milliseconds.
async fn stages(deployment: &Deployment) -> Vec<(String, i64)> {
    let mut redis = deployment.redis().await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("laurel:*:stage:*").query_async(&mut redis).await.unwrap();
    let mut stages = vec![];
    for key in keys {
        let lives_ms: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut redis).await.unwrap();
        stages.push((key, lives_ms));
    }
    stages
}

/// Somebody who never played is in all standings in Redis, and in SQL.
pub(crate) async fn corrupt(deployment: &Deployment, slug: &str) {
    let mut redis = deployment.redis().await;
    let no = deployment.number(&format!("SELECT no FROM board WHERE slug = '{slug}'")).await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("laurel:*:z:{no}.*")).query_async(&mut redis).await.unwrap();
    assert!(!keys.is_empty());
    for key in &keys {
        let add = redis::cmd("ZADD").arg(key).arg("1.5").arg("nobody").clone();
        let () = add.query_async(&mut redis).await.unwrap();
    }
    // A period that nobody played in.
    let stray = keys[0].rsplit_once(':').unwrap().0.to_owned() + ":1999-01-01";
    let add = redis::cmd("ZADD").arg(stray).arg("1.5").arg("a").clone();
    let () = add.query_async(&mut redis).await.unwrap();
    let db = deployment.sql().await;
    for statement in [
        "INSERT INTO member (key, created_at_ms) SELECT 'nobody', 0 WHERE NOT EXISTS (SELECT 1 FROM member WHERE key = 'nobody')".to_owned(),
        format!("INSERT INTO standing (board_no, segment, member, score, rank_key, partition, seq) SELECT board_no, segment, 'nobody', score, rank_key, partition, seq FROM standing WHERE board_no = {no} ORDER BY member LIMIT 1"),
    ] {
        db.execute_raw(Statement::from_string(db.get_database_backend(), statement))
            .await
            .unwrap();
    }
    db.close().await.unwrap();
}

/// The row of somebody who plays all the while has another score.
async fn spoil(deployment: &Deployment, slug: &str) {
    let db = deployment.sql().await;
    let of_board = format!("board_no = (SELECT no FROM board WHERE slug = '{slug}')");
    let spoil =
        format!("UPDATE standing SET rank_key = rank_key / 2 WHERE member = 'w1' AND {of_board}");
    db.execute_unprepared(&spoil).await.unwrap();
    db.close().await.unwrap();
}

/// Sends a batch, and takes something back.
async fn play(rng: &mut StdRng, api: &Api, history: &mut History, batch: &[Event]) {
    let told = submit_events(api, &history.board, batch).await;
    let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
    assert_eq!(told, expected);
    amend(rng, api, history).await;
}

async fn check_steps(sql: Sql, shards: u16) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = every_game(&mut rng, shards, Range::Wide, 60);
    // With one standings alone in a partition some steps are never taken.
    games.retain(|game| game.board.windows.len() > 1);
    games.shuffle(&mut rng);
    for (step, game) in STEPS.iter().zip(games) {
        create_board(&api, &game.board).await;
        let mut history = History::new(game.board);
        let slug = history.board.slug.clone();
        let (before, meanwhile) = game.events.split_at(30);
        for batch in before.chunks(6) {
            play(&mut rng, &api, &mut history, batch).await;
        }
        let mut command = deployment.analytics_command(&["rebuild", "--board", &slug]);
        command.env("ANALYTICS_CRASH_AT", step);
        let ending = tokio::task::spawn_blocking(move || command.output().unwrap());
        for batch in meanwhile.chunks(6) {
            play(&mut rng, &api, &mut history, batch).await;
        }
        let output = ending.await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        // By a signal, which has no code.
        assert_eq!(output.status.code(), None, "{step}: {error}");
        check(&api, &history).await;
        check_diff(&deployment);
        for (key, lives_ms) in stages(&deployment).await {
            assert!((1..=300_000).contains(&lives_ms), "{key} lives {lives_ms}");
        }

        corrupt(&deployment, &slug).await;
        let figures = rebuild(&deployment, &slug).await;
        assert_eq!(figures["mendedMembers"], 1, "{step}: {figures}");
        check(&api, &history).await;
        check_diff(&deployment);
        deployment.flush_redis().await;
        check(&api, &history).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_may_end_at_any_step_beside_players_on_sqlite() {
    check_steps(Sql::Sqlite, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_may_end_at_any_step_beside_players_on_postgres() {
    check_steps(Sql::Postgres, 2).await;
}

/// Rebuilds one after the other beside a steady load, and beside removals and voids.
async fn check_beside(sql: Sql, shards: u16) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Private).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let mut games = every_game(&mut rng, shards, Range::Wide, 120);
    games.shuffle(&mut rng);
    for Game { board, events } in games.into_iter().take(2) {
        create_board(&apis[0], &board).await;
        let (before, meanwhile) = events.split_at(30);
        let mut history = History::new(board.clone());
        for batch in before.chunks(6) {
            play(&mut rng, &apis[0], &mut history, batch).await;
        }
        corrupt(&deployment, &board.slug).await;
        let stop = AtomicBool::new(false);
        let write = async |api: &Api| {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) || sent == 0 {
                let score = |number: usize| json!({ "member": format!("w{number}"), "score": board.decimal(1), "at": "2025-10-26T01:00:00Z" });
                let scores: Vec<Value> = (0..10).map(score).collect();
                let told = submit(api, &board.slug, json!(scores)).await;
                assert_eq!(told["accepted"], 10, "{told}");
                sent += 1;
            }
            sent
        };
        let mut amend = async || {
            for batch in meanwhile.chunks(3) {
                play(&mut rng, &apis[1], &mut history, batch).await;
            }
            stop.store(true, Ordering::Relaxed);
        };
        let rebuild_on = async || {
            let (mut rebuilds, mut later, mut beaten) = (0, 0, 0);
            while !stop.load(Ordering::Relaxed) || rebuilds == 0 {
                spoil(&deployment, &board.slug).await;
                let figures = rebuild(&deployment, &board.slug).await;
                later += figures["laterEvents"].as_u64().unwrap();
                beaten += figures["beaten"].as_u64().unwrap();
                rebuilds += 1;
            }
            (rebuilds, later, beaten)
        };
        let (first, second, (), (rebuilds, later, beaten)) =
            futures::join!(write(&apis[0]), write(&apis[1]), amend(), rebuild_on());
        println!(
            "{rebuilds} rebuilds, {later} events meanwhile, {beaten} races lost, {first} + {second} batches"
        );
        assert!(later > 0);
        let mut counting = history.oracle().accepted().to_vec();
        let sent = match board.policy {
            "SUM" => first + second,
            _ => 1,
        };
        counting.extend((0..10).map(|number| Event {
            member: format!("w{number}"),
            score: sent,
            at_ms: 1_761_440_400_000,
            id: None,
        }));
        let oracle = Oracle::of(board, counting);
        check_standings(&apis[1], &oracle).await;
        check_all_time_in_sql(&apis[1], &oracle).await;
        check_diff(&deployment);
        assert_eq!(stages(&deployment).await, []);
        // What is right is left as it is.
        let figures = rebuild(&deployment, &oracle.board.slug).await;
        assert_eq!(figures["mendedMembers"], 0, "{figures}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_beside_a_steady_load_is_exact_on_sqlite() {
    check_beside(Sql::Sqlite, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_beside_a_steady_load_is_exact_on_postgres() {
    check_beside(Sql::Postgres, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_outlives_a_redis_that_is_killed() {
    let mut rng = seeded();
    for (number, sql) in [Sql::Sqlite, Sql::Postgres, Sql::Sqlite].into_iter().enumerate() {
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
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut history = History::new(every_game(&mut rng, 2, Range::Wide, 1).swap_remove(0).board);
    create_board(&api, &history.board).await;
    let events = every_game(&mut rng, 2, Range::Wide, 40).swap_remove(0).events;
    play(&mut rng, &api, &mut history, &events).await;
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
    for (number, sql) in [Sql::Sqlite, Sql::Postgres].into_iter().enumerate() {
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
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let Game { board, events } = every_game(&mut rng, 1, Range::Wide, 30).swap_remove(3);
    create_board(&api, &board).await;
    let mut history = History::new(board);
    play(&mut rng, &api, &mut history, &events).await;
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
