//! Moves to another number of shards that are killed at any step: before the decision they have no
//! effect, after it they are finished, and writes are let go in either case.

use rand::RngExt;
use rand::seq::SliceRandom;
use sea_orm::{ConnectionTrait, Statement};

use tests::api::Api;
use tests::api::listing::check_standings;
use tests::api::playthrough::{check, play_batch};
use tests::api::submission::{create_board, submit_events, try_submit};
use tests::boards::busy::{busy_board, create_busy};
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::diff::check_diff;
use tests::jobs::reshard::{check_anew, reshard, shards_of};
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::History;
use tests::model::oracle::{Board, Event, Oracle, Verdict};
use tests::wait::until;

/// Every step after which a move can be killed; some happen in each partition.
const STEPS: [&str; 13] = [
    "begun",
    "staged",
    "remembered",
    "holding",
    "held",
    "caught-up",
    "listed",
    "decided",
    "released",
    "released:3",
    "released:16",
    "settling",
    "settled",
];

/// Makes the mover of boards look dead.
async fn be_silent(deployment: &Deployment) {
    be_alive_until(deployment, 0).await;
}

/// Sets the time until which the mover of boards is taken to be alive, in Unix milliseconds.
async fn be_alive_until(deployment: &Deployment, until_ms: i64) {
    let db = deployment.sql().await;
    let text = format!("UPDATE board SET reshard_until_ms = {until_ms} WHERE reshard IS NOT NULL");
    let statement = Statement::from_string(db.get_database_backend(), text);
    db.execute_raw(statement).await.unwrap();
    db.close().await.unwrap();
}

/// Runs a move that kills itself at a step, as by kill -9.
fn reshard_until(deployment: &Deployment, slug: &str, shards: u16, step: &str) {
    let shards = shards.to_string();
    let arguments = ["rebuild", "--board", slug, "--shards", &*shards];
    let mut command = deployment.analytics_command(&arguments);
    let output = command.env("CRASH_AT", step).output().unwrap();
    // Killed by a signal, so there is no exit code.
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), None, "{step}: {error}");
}

/// Kills moves at one of so many steps, or at every step if everything is wanted.
async fn check_steps(sql: Sql, one_of: usize) {
    let mut rng = seeded();
    let numbered: Vec<(usize, &str)> = STEPS.into_iter().enumerate().collect();
    let steps = extent::steps(&mut rng, one_of, &numbered);
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = every_game(&mut rng, 1, Range::Wide, 1000);
    games.shuffle(&mut rng);
    let Game { board, events } = games.swap_remove(0);
    let other = Game {
        board: Board { slug: "other".to_owned(), ..games[0].board.clone() },
        events: games[0].events.clone(),
    };
    create_board(&api, &board).await;
    create_board(&api, &other.board).await;
    let (mut history, mut beside) = (History::new(board.clone()), History::new(other.board));
    let (mut batches, mut others) = (events.chunks(5), other.events.chunks(5));
    let mut shards = 1;
    for (number, crash) in steps {
        for batch in batches.by_ref().take(3) {
            play_batch(&mut rng, &api, &mut history, batch).await;
        }
        let next = if shards == 1 { 16 } else { 1 };
        reshard_until(&deployment, &board.slug, next, crash);
        // Other boards go on in any case.
        play_batch(&mut rng, &api, &mut beside, others.next().unwrap()).await;
        let flushed = rng.random_bool(0.3);
        if flushed {
            deployment.flush_redis().await;
        }
        be_silent(&deployment).await;
        if number % 2 == 0 {
            // The background work cleans up.
            let left = "SELECT CAST(COUNT(*) AS BIGINT) FROM board WHERE reshard IS NOT NULL";
            until("nothing is left", async || (deployment.number(left).await == 0).then_some(()))
                .await;
            let now = shards_of(&deployment, &board.slug).await;
            let is_decided = number >= 7;
            let expected = if is_decided { next } else { shards };
            assert_eq!(now, i64::from(expected), "{crash}");
        } else {
            reshard(&deployment, &board.slug, next);
        }
        shards = shards_of(&deployment, &board.slug).await as u16;
        println!("{crash}, flushed {flushed}: {shards} shards");
        check(&api, &history).await;
        for batch in batches.by_ref().take(2) {
            play_batch(&mut rng, &api, &mut history, batch).await;
        }
        check(&api, &history).await;
        check(&api, &beside).await;
        check_diff(&deployment);
    }
    check_anew(&deployment, &api, &history).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_may_end_at_any_step_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_steps(sql, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_may_end_at_any_step_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_steps(sql, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_may_end_at_any_step_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_steps(sql, 1).await;
    }
}

/// While a move holds a board, submissions are answered UNAVAILABLE after a while, removals wait,
/// and reads and other boards go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_that_is_held_is_read_and_not_written() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let board = busy_board();
    create_busy(&api, &board).await;
    let event = |number: usize| Event {
        member: format!("m{number}"),
        score: number as i64 + 1,
        at_ms: now_ms(),
        id: Some(format!("e{number}")),
        metadata: None,
    };
    let events: Vec<Event> = (0..20).map(event).collect();
    submit_events(&api, &board, &events).await;
    reshard_until(&deployment, "busy", 8, "held");
    be_alive_until(&deployment, i64::MAX).await;
    let oracle = Oracle::of(board.clone(), events.clone());
    check_standings(&api, &oracle).await;
    let outcomes = try_submit(&api, &board, &[event(30)]).await.unwrap();
    assert_eq!(outcomes, [Err("UNAVAILABLE")]);
    be_silent(&deployment).await;
    until("the background work lets it go", async || {
        let told = try_submit(&api, &board, &[event(31)]).await?;
        told.contains(&Ok(Verdict::Applied)).then_some(())
    })
    .await;
    assert_eq!(shards_of(&deployment, "busy").await, 1);
    check_diff(&deployment);
}
