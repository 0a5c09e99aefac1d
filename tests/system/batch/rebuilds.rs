//! Rebuilds beside players: standings are right at every step, also when the rebuild is killed.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::seq::SliceRandom;
use sea_orm::ConnectionTrait;

use tests::api::Api;
use tests::api::listing::{check_all_time_in_sql, check_standings};
use tests::api::playthrough::{check, play_batch};
use tests::api::submission::{create_board, write_steadily, written};
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::diff::check_diff;
use tests::jobs::rebuild::{corrupt, rebuild, stages};
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::History;
use tests::model::oracle::Oracle;

/// Every step after which a rebuild can be killed; some happen several times.
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

/// Gives the row of a member who plays all the time another score.
async fn spoil(deployment: &Deployment, slug: &str) {
    let db = deployment.sql().await;
    let of_board = format!("board_no = (SELECT no FROM board WHERE slug = '{slug}')");
    let spoil =
        format!("UPDATE standing SET rank_key = rank_key / 2 WHERE member = 'w1' AND {of_board}");
    db.execute_unprepared(&spoil).await.unwrap();
    db.close().await.unwrap();
}

/// Kills rebuilds at one of so many steps, or at every step if everything is wanted.
async fn check_steps(sql: Sql, shards: u16, one_of: usize) {
    let mut rng = seeded();
    let steps = extent::steps(&mut rng, one_of, &STEPS);
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = every_game(&mut rng, shards, Range::Wide, 60);
    // With a single window in a partition some steps never happen.
    games.retain(|game| game.board.windows.len() > 1);
    games.shuffle(&mut rng);
    for (step, game) in steps.into_iter().zip(games) {
        create_board(&api, &game.board).await;
        let mut history = History::new(game.board);
        let slug = history.board.slug.clone();
        let (before, meanwhile) = game.events.split_at(30);
        for batch in before.chunks(6) {
            play_batch(&mut rng, &api, &mut history, batch).await;
        }
        let mut command = deployment.analytics_command(&["rebuild", "--board", &slug]);
        command.env("CRASH_AT", step);
        let ending = tokio::task::spawn_blocking(move || command.output().unwrap());
        for batch in meanwhile.chunks(6) {
            play_batch(&mut rng, &api, &mut history, batch).await;
        }
        let output = ending.await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        // Killed by a signal, so there is no exit code.
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
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_steps(sql, 4, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_may_end_at_any_step_beside_players_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_steps(sql, 2, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_may_end_at_any_step_beside_players_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_steps(sql, 2, 1).await;
    }
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
            play_batch(&mut rng, &apis[0], &mut history, batch).await;
        }
        corrupt(&deployment, &board.slug).await;
        let stop = AtomicBool::new(false);
        let write = async |api: &Api| write_steadily(api, &board, "w", &stop).await;
        let mut amend = async || {
            for batch in meanwhile.chunks(3) {
                play_batch(&mut rng, &apis[1], &mut history, batch).await;
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
            "{rebuilds} rebuilds, {later} later events, {beaten} races lost, {first} + {second} batches"
        );
        assert!(later > 0);
        let mut counting = history.oracle().accepted().to_vec();
        counting.extend(written(&board, "w", first + second));
        let oracle = Oracle::of(board, counting);
        check_standings(&apis[1], &oracle).await;
        check_all_time_in_sql(&apis[1], &oracle).await;
        check_diff(&deployment);
        assert_eq!(stages(&deployment).await, []);
        // A rebuild changes nothing that is right.
        let figures = rebuild(&deployment, &oracle.board.slug).await;
        assert_eq!(figures["mendedMembers"], 0, "{figures}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_beside_a_steady_load_is_exact_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_beside(sql, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_beside_a_steady_load_is_exact_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_beside(sql, 4).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_beside_a_steady_load_is_exact_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_beside(sql, 4).await;
    }
}
