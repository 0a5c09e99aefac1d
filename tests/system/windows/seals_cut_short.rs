//! Seals that are cut short: readers never notice, and late events land where they belong.

use std::sync::Arc;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::Value;

use tests::api::Api;
use tests::api::listing::check_standings;
use tests::api::submission::submit_events;
use tests::boards::regional::{random_games, regional, snapshot};
use tests::deployment::{Deployment, Redis, Sql, settle};
use tests::jobs::diff::check_diff;
use tests::jobs::seal::{keys_left, retain, wait_until_sealed};
use tests::model::game::{Game, seeded};
use tests::model::history::{Amended, History, Item};
use tests::model::oracle::Oracle;
use tests::wait::until;

/// Starts a process without background work.
async fn without_workers(deployment: &Arc<Deployment>) -> Api {
    // The first one makes the partitions level.
    drop(Api::start(deployment).await);
    Api::start_with(deployment, &["--no-workers"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_that_is_cut_short_is_taken_up_and_readers_never_see_it() {
    for (sql, shards) in Sql::all_with([4, 1]) {
        let mut rng = seeded();
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = without_workers(&deployment).await;
        let stores = deployment.open_stores().await;
        for game in random_games(&mut rng, shards, 2) {
            cut_short(&mut rng, &api, &stores, game).await;
        }
        stores.close().await;
        check_diff(&deployment);
    }
}

/// Empties Redis once SQL has everything, and waits until it is loaded again: a recovery that is
/// cut short would keep readers waiting.
async fn flush(api: &Api, stores: &engine::deployment::Deployment) {
    settle(stores).await;
    api.deployment().flush_redis().await;
    settle(stores).await;
}

/// Seals a board in many attempts, most of which are cut short, beside readers; Redis is emptied
/// now and then.
async fn cut_short(
    rng: &mut StdRng,
    api: &Api,
    stores: &engine::deployment::Deployment,
    game: Game,
) {
    let members = regional(api, &game).await;
    let (early, late) = game.events.split_at(45);
    submit_events(api, &game.board, early).await;
    settle(stores).await;
    let mut oracle = Oracle::new(game.board.clone());
    early.iter().for_each(|event| {
        oracle.submit(event);
    });
    let without_source = |said: Vec<(Value, Value)>| -> Vec<Value> {
        said.into_iter().map(|(_, said)| said).collect()
    };
    let live = without_source(snapshot(api, &oracle, &members).await);
    retain(api, &game.board, 0).await;
    let (stop, mut cuts) = (std::sync::atomic::AtomicBool::new(false), 0);
    let reading = async {
        let mut reads = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) || reads == 0 {
            let now = without_source(snapshot(api, &oracle, &members).await);
            assert_eq!(now, live, "{:?}", game.board);
            reads += 1;
        }
        reads
    };
    let sealing = async {
        let mut patience_us = 300;
        loop {
            let patience = std::time::Duration::from_micros(rng.random_range(0..patience_us));
            let sealed = engine::seal::seal(stores, stores.clock.now_ms());
            match tokio::time::timeout(patience, sealed).await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) => assert!(error.is_transient(), "{error}"),
                Err(_) => {
                    cuts += 1;
                    patience_us += patience_us / 4;
                }
            }
            if rng.random_bool(0.1) {
                flush(api, stores).await;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let (reads, ()) = futures::join!(reading, sealing);
    println!("{}: {cuts} cuts, {reads} reads", game.board.slug);
    wait_until_sealed(api, &game.board).await;
    submit_events(api, &game.board, late).await;
    settle(stores).await;
    late.iter().for_each(|event| {
        oracle.submit(event);
    });
    check_standings(api, &oracle).await;
    assert_eq!(keys_left(api.deployment()).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_late_while_a_seal_is_cut_short_is_in_the_end_where_it_belongs() {
    let mut rng = seeded();
    for (sql, shards) in Sql::all_with([2, 4]) {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = without_workers(&deployment).await;
        let stores = deployment.open_stores().await;
        for game in random_games(&mut rng, shards, 4) {
            late_in_between(&mut rng, &api, &stores, game).await;
        }
        stores.close().await;
        check_diff(&deployment);
    }
}

/// Submits scores, removals and voids between attempts to seal that are cut short.
async fn late_in_between(
    rng: &mut StdRng,
    api: &Api,
    stores: &engine::deployment::Deployment,
    game: Game,
) {
    let slug = &game.board.slug;
    tests::api::submission::create_board(api, &game.board).await;
    let mut history = History::new(game.board.clone());
    for (number, batch) in game.events.chunks(6).enumerate() {
        if number == 3 {
            retain(api, &game.board, 0).await;
        }
        let told = submit_events(api, &game.board, batch).await;
        let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
        assert_eq!(told, expected);
        let mut patience_us = 2000;
        for _ in 0..3 {
            let sealed = engine::seal::seal(stores, stores.clock.now_ms());
            let patience = std::time::Duration::from_micros(rng.random_range(0..patience_us));
            if let Ok(Err(error)) = tokio::time::timeout(patience, sealed).await {
                assert!(error.is_transient(), "{error}");
            }
            patience_us *= 4;
            let numbers: Vec<usize> = (0..history.items().len()).collect();
            let &number = numbers.choose(rng).unwrap();
            let member = history.member(number).to_owned();
            if rng.random_bool(0.4) {
                let expected = history.remove(&member);
                let removed = tests::api::amendment::remove(api, slug, &member).await;
                assert_eq!(removed["removed"] == true, expected == Amended::Done);
            } else if !matches!(history.items()[number], Item::Void(_)) {
                settle(stores).await;
                let seen = tests::api::amendment::events(api, slug, &member).await;
                let of_member = history.of_member(&member);
                let index = of_member.iter().position(|other| *other == number).unwrap();
                let id = seen[index]["id"].as_str().unwrap();
                let expected = history.void(number);
                let answer = tests::api::amendment::void(api, id).await;
                assert_eq!(answer.codes(), [""; 0], "{}", answer.body);
                let voided = answer.body["data"]["voidEvent"]["voided"] == true;
                assert_eq!(voided, expected == Amended::Done);
            }
            if rng.random_bool(0.1) {
                flush(api, stores).await;
            }
        }
    }
    until("the board is sealed", async || {
        engine::seal::seal(stores, stores.clock.now_ms()).await.ok()
    })
    .await;
    wait_until_sealed(api, &game.board).await;
    settle(stores).await;
    tests::api::playthrough::check(api, &history).await;
}
