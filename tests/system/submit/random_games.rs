//! Random boards and events through three processes at once, compared with the oracle: every entry
//! of every period of every window.

use futures::stream::{self, StreamExt};
use rand::seq::SliceRandom;

use tests::api::Api;
use tests::api::listing::check_board;
use tests::api::submission::{create_board, submit_events};
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::game::{Range, batches, every_game, seeded};
use tests::model::oracle::{Oracle, Verdict};

/// How many events a board gets.
const EVENTS: usize = 240;

/// How many requests are under way at once.
const SENDERS: usize = 9;

/// The number of boards that are tested side by side where the order of batches counts.
const BOARDS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_game_ends_as_the_rules_say_on_sqlite() {
    check_games(Sql::Sqlite, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_game_in_four_shards_ends_as_the_rules_say_on_sqlite() {
    check_games(Sql::Sqlite, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_game_ends_as_the_rules_say_on_postgres() {
    check_games(Sql::Postgres, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_game_ends_as_the_rules_say_on_mariadb() {
    check_games(Sql::Mariadb, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_game_in_sixteen_shards_ends_as_the_rules_say_on_postgres() {
    check_games(Sql::Postgres, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_game_in_sixteen_shards_ends_as_the_rules_say_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_games(sql, 16).await;
    }
}

async fn check_games(sql: Sql, shards: u16) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let apis =
        futures::join!(Api::start(&deployment), Api::start(&deployment), Api::start(&deployment));
    let apis = [apis.0, apis.1, apis.2];
    check_in_any_order(&apis, shards).await;
    check_in_order(&apis, shards).await;
}

/// Nothing is rejected, so the order does not matter: all batches of all boards at once, through
/// all processes.
async fn check_in_any_order(apis: &[Api], shards: u16) {
    let mut rng = seeded();
    let games = every_game(&mut rng, shards, Range::Wide, EVENTS);
    let mut work = vec![];
    for game in &games {
        create_board(&apis[0], &game.board).await;
        work.extend(batches(&mut rng, &game.events).into_iter().map(|batch| (&game.board, batch)));
    }
    work.shuffle(&mut rng);
    let sent = stream::iter(work.iter().enumerate())
        .map(async |(number, (board, batch))| {
            (&board.slug, submit_events(&apis[number % apis.len()], board, batch).await)
        })
        .buffer_unordered(SENDERS);
    let answers: Vec<_> = sent.collect().await;
    for (number, game) in games.iter().enumerate() {
        let mut oracle = Oracle::new(game.board.clone());
        let expected: Vec<Verdict> = game.events.iter().map(|event| oracle.submit(event)).collect();
        let told =
            answers.iter().filter(|(slug, _)| **slug == game.board.slug).flat_map(|(_, told)| told);
        let mut told: Vec<Verdict> = told.copied().collect();
        let count = |verdicts: &[Verdict]| {
            verdicts.iter().filter(|verdict| **verdict == Verdict::Duplicate).count()
        };
        assert_eq!(count(&told), count(&expected), "duplicates of {}", game.board.slug);
        told.retain(|verdict| *verdict == Verdict::Applied);
        assert_eq!(told.len(), oracle.accepted().len(), "accepted by {}", game.board.slug);
        check_board(&apis[number % apis.len()], &oracle).await;
    }
}

/// Some are rejected, which depends on earlier events: one batch of a board at a time, through any
/// process.
async fn check_in_order(apis: &[Api], shards: u16) {
    let mut rng = seeded();
    let games = every_game(&mut rng, shards, Range::Narrow, EVENTS);
    let mut rejected = 0;
    let work: Vec<_> = games
        .into_iter()
        .map(|game| {
            let batches = batches(&mut rng, &game.events);
            let mut oracle = Oracle::new(game.board);
            let verdicts: Vec<Vec<Verdict>> = batches
                .iter()
                .map(|batch| batch.iter().map(|event| oracle.submit(event)).collect())
                .collect();
            rejected +=
                verdicts.iter().flatten().filter(|verdict| **verdict == Verdict::Rejected).count();
            (oracle, batches, verdicts)
        })
        .collect();
    assert!(rejected > 100, "a game that rejects {rejected} tests little");
    stream::iter(work)
        .for_each_concurrent(BOARDS, async |(oracle, batches, verdicts)| {
            create_board(&apis[0], &oracle.board).await;
            for (number, (batch, expected)) in batches.iter().zip(verdicts).enumerate() {
                let told = submit_events(&apis[number % apis.len()], &oracle.board, batch).await;
                assert_eq!(told, expected, "{batch:?} to {:?}", oracle.board);
            }
            check_board(&apis[0], &oracle).await;
        })
        .await;
}
