//! Sealed periods leave Redis for SQL, and read as they did.

use serde_json::json;

use tests::api::Api;
use tests::api::listing::check_standings;
use tests::api::submission::submit_events;
use tests::boards::regional::{random_games, regional, snapshot};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::jobs::seal::{check_sizes, keys_left, retain, wait_until_sealed};
use tests::model::game::seeded;
use tests::model::oracle::Oracle;

async fn check_equal(sql: Sql, shards: u16) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    for game in random_games(&mut rng, shards, 5) {
        let members = regional(&api, &game).await;
        submit_events(&api, &game.board, &game.events).await;
        let mut oracle = Oracle::new(game.board.clone());
        game.events.iter().for_each(|event| {
            oracle.submit(event);
        });
        let live = snapshot(&api, &oracle, &members).await;
        assert!(live.iter().all(|(from, _)| from[1] == false));
        retain(&api, &game.board, 0).await;
        wait_until_sealed(&api, &game.board).await;
        assert_eq!(keys_left(&deployment).await, [""; 0]);
        let sealed = snapshot(&api, &oracle, &members).await;
        assert_eq!(live.len(), sealed.len());
        for ((_, live), (from, sealed)) in live.iter().zip(&sealed) {
            assert_eq!(*from, json!(["ARCHIVE", true]));
            assert_eq!(live, sealed, "{:?}", game.board);
        }
        check_standings(&api, &oracle).await;
        // A higher retention does not bring sealed periods back.
        retain(&api, &game.board, 1_000_000).await;
        assert_eq!(snapshot(&api, &oracle, &members).await, sealed);
        check_sizes(&deployment).await;
    }
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sealed_reads_as_it_did_on_sqlite() {
    check_equal(Sql::Sqlite, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sealed_reads_as_it_did_in_four_shards_on_postgres() {
    check_equal(Sql::Postgres, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sealed_reads_as_it_did_in_four_shards_on_mariadb() {
    check_equal(Sql::Mariadb, 4).await;
}
