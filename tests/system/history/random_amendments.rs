//! Random histories in which events are taken back, against the oracle; and amendments beside
//! writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::listing::{check_all_time_in_sql, check_standings};
use tests::api::playthrough::{amend, check};
use tests::api::submission::{
    create_board, submit_durably, submit_events, write_steadily, written,
};
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;
use tests::jobs::seal::{retain, wait_until_sealed};
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::{Amended, History};
use tests::model::oracle::{Event, Oracle};

/// How many boards are played on, of the kinds that there are: few and many.
const BOARDS: [usize; 2] = [3, 6];

/// The number of events for each board.
const EVENTS: usize = 70;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_never_was_on_sqlite() {
    check_games(Sql::Sqlite, 1, Seals::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_never_was_in_four_shards_on_postgres() {
    check_games(Sql::Postgres, 4, Seals::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_never_was_in_four_shards_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_games(sql, 4, Seals::None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_corrected_where_it_was_sealed_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_games(sql, 4, Seals::InBetween).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_corrected_where_it_was_sealed_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_games(sql, 1, Seals::InBetween).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_corrected_where_it_was_sealed_on_mariadb() {
    check_games(Sql::Mariadb, 1, Seals::InBetween).await;
}

/// The state of past periods while a game is played.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seals {
    None,
    InBetween,
}

async fn check_games(sql: Sql, shards: u16, seals: Seals) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let mut games = every_game(&mut rng, shards, Range::Wide, EVENTS);
    if seals == Seals::None {
        // Late events of a sealed period are not checked against its range.
        games.extend(every_game(&mut rng, shards, Range::Narrow, EVENTS));
    }
    games.shuffle(&mut rng);
    let mut histories = vec![];
    for game in games.into_iter().take(extent::boards(BOARDS)) {
        histories.push(play(&mut rng, &apis, game, seals).await);
    }
    check_diff(&deployment);
    deployment.flush_redis().await;
    for history in &histories {
        check(&apis[0], history).await;
    }
    for history in &histories {
        figures(&deployment, &["rebuild", "--board", &history.board.slug]);
        check(&apis[1], history).await;
    }
    check_diff(&deployment);
}

/// Sends a game's events, and takes some back in between.
async fn play(rng: &mut StdRng, apis: &[Api], game: Game, seals: Seals) -> History {
    create_board(&apis[0], &game.board).await;
    let mut history = History::new(game.board);
    let (mut amended, mut refused) = (0, 0);
    for (number, batch) in game.events.chunks(6).enumerate() {
        let api = &apis[number % apis.len()];
        if number == 4 && seals == Seals::InBetween {
            retain(api, &history.board, 0).await;
            for api in apis {
                wait_until_sealed(api, &history.board).await;
            }
        }
        let told = submit_events(api, &history.board, batch).await;
        let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
        assert_eq!(told, expected, "{batch:?} to {:?}", history.board);
        for _ in 0..3 {
            match amend(rng, api, &mut history).await {
                Amended::Done => amended += 1,
                Amended::OutOfRange => refused += 1,
                Amended::Nothing => {}
            }
        }
        if number % 4 == 3 {
            check(api, &history).await;
        }
    }
    println!("{}: {amended} amendments, {refused} refused", history.board.slug);
    assert!(amended > 5, "a game with {amended} amendments tests little");
    check(&apis[0], &history).await;
    history
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amendments_succeed_beside_writers_of_the_same_partition() {
    for sql in Sql::all() {
        check_beside_writers(sql).await;
    }
}

async fn check_beside_writers(sql: Sql) {
    let mut rng = seeded();
    let deployment: Arc<Deployment> = Deployment::new(sql, Redis::Private).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let game = every_game(&mut rng, 1, Range::Wide, 40).swap_remove(0);
    let board = game.board;
    create_board(&apis[0], &board).await;
    let stop = AtomicBool::new(false);
    let mut change = async || {
        let mut history = History::new(board.clone());
        for batch in game.events.chunks(5) {
            submit_durably_all(&apis[1], &mut history, batch).await;
            amend(&mut rng, &apis[0], &mut history).await;
            amend(&mut rng, &apis[1], &mut history).await;
        }
        stop.store(true, Ordering::Relaxed);
        history
    };
    let (first, second, history) = futures::join!(
        write_steadily(&apis[0], &board, "w", &stop),
        write_steadily(&apis[1], &board, "v", &stop),
        change(),
    );
    println!("{first} and {second} batches beside the amendments");
    let mut counting = history.oracle().accepted().to_vec();
    for (name, sent) in [("w", first), ("v", second)] {
        counting.extend(written(&board, name, sent));
    }
    let oracle = Oracle::of(board, counting);
    check_standings(&apis[1], &oracle).await;
    check_all_time_in_sql(&apis[1], &oracle).await;
    check_diff(&deployment);
}

/// Submits events, each of which must be accepted or be known.
async fn submit_durably_all(api: &Api, history: &mut History, batch: &[Event]) {
    let scores: Vec<Value> = batch.iter().map(|event| history.board.score_input(event)).collect();
    let told = submit_durably(api, &history.board.slug, json!(scores)).await;
    for (event, result) in batch.iter().zip(told["results"].as_array().unwrap()) {
        let expected = format!("{:?}", history.submit(event)).to_uppercase();
        assert_eq!(result["status"], expected, "{event:?}");
    }
}
