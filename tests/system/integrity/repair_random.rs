//! Random corruption, of many kinds and in many places of random boards at once: all of it is found
//! and repaired, and everything is as before.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::json;

use tests::api::Api;
use tests::api::submission::{create_board, submit_events};
use tests::boards::corruption::CorruptedBoard;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::reshard::reshard;
use tests::model::game::{Game, Range, every_game, seeded};

/// The number of times that the boards are corrupted.
const ROUNDS: usize = 3;

#[tokio::test]
async fn random_damage_is_found_and_repaired_on_sqlite() {
    check(Sql::Sqlite, &[4]).await;
}

#[tokio::test]
async fn random_damage_of_boards_that_moved_is_found_and_repaired_on_sqlite() {
    check(Sql::Sqlite, &[4, 1, 8]).await;
}

#[tokio::test]
async fn random_damage_of_boards_that_moved_is_found_and_repaired_on_postgres() {
    check(Sql::Postgres, &[1, 4]).await;
}

#[tokio::test]
async fn random_damage_of_boards_that_moved_is_found_and_repaired_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check(sql, &[1, 4]).await;
    }
}

#[tokio::test]
async fn random_damage_is_found_and_repaired_on_postgres() {
    check(Sql::Postgres, &[1]).await;
}

#[tokio::test]
async fn random_damage_is_found_and_repaired_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check(sql, &[1]).await;
    }
}

/// Checks boards that have had these numbers of shards.
async fn check(sql: Sql, shards: &[u16]) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = every_game(&mut rng, shards[0], Range::Wide, 30);
    if shards.len() > 1 {
        games.truncate(6);
    }
    for Game { board, events } in &games {
        create_board(&api, board).await;
        let mut parts = events.chunks(events.len().div_ceil(shards.len()));
        for (place, &shards) in shards.iter().enumerate() {
            if place > 0 {
                reshard(&deployment, &board.slug, shards);
            }
            submit_events(&api, board, parts.next().unwrap()).await;
        }
    }
    let mut board = CorruptedBoard::of(deployment, api).await;
    assert_eq!(board.run(&["diff"]).0, 0);
    let whole = board.picture().await;
    for _ in 0..ROUNDS {
        let mut done = vec![];
        for _ in 0..rng.random_range(1..12) {
            done.extend(spoil_redis(&mut rng, &mut board).await);
        }
        // Not the rows of members whose entries of "all" in Redis are corrupted: history would seem
        // to stand alone.
        if done.is_empty() || rng.random_bool(0.5) {
            done.extend(spoil_rows(&mut rng, &mut board, &done).await);
        }
        let (code, found) = board.run(&["diff", "--repair"]);
        assert_eq!(code, 0, "{done:?}: {found}");
        board.is_as(&whole).await;
        let (code, found) = board.run(&["diff"]);
        assert_eq!((code, &found["findings"]), (0, &json!([])), "{done:?}");
    }
}

/// Corrupts an entry, a key or a list; returns what it did.
async fn spoil_redis(rng: &mut StdRng, board: &mut CorruptedBoard) -> Vec<String> {
    let mut keys: Vec<String> = board.redis(&["KEYS", "laurel:*:z:*"]).await;
    keys.sort();
    let key = keys.choose(rng).unwrap().clone();
    let entries: Vec<(String, f64)> = board.redis(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await;
    let (member, double) = entries.choose(rng).unwrap().clone();
    let what = rng.random_range(0..8);
    match what {
        0 => {
            let () = board.redis(&["ZREM", &key, &member]).await;
        }
        1 => board.set(&key, f64::from_bits(double.to_bits() + 1), &member).await,
        2 => board.set(&key, double * 1.0000001, &member).await,
        3 => {
            let () = board.redis(&["ZADD", &key, "-3.5", &member]).await;
        }
        4 => board.set(&key, double, "a phantom").await,
        5 => {
            let () = board.redis(&["UNLINK", &key]).await;
        }
        6 => {
            let stray = format!("{key}:stray");
            let () = board.redis(&["ZADD", &stray, "1", &member]).await;
            // The stray key is among the keys from here on, and no other entry is taken from it.
            return vec![format!("a stray key {stray}")];
        }
        _ => {
            // The list of its periods, if there is one.
            let (list, _) = key.rsplit_once(':').unwrap();
            let list = list.replacen(":z:", ":periods:", 1);
            let () = board.redis(&["UNLINK", &list]).await;
        }
    }
    vec![format!("{what} {key} {member}")]
}

/// Corrupts the rows of a member that is whole so far.
async fn spoil_rows(rng: &mut StdRng, board: &mut CorruptedBoard, done: &[String]) -> Vec<String> {
    let members: Vec<String> =
        board.deployment.column("SELECT DISTINCT member FROM standing ORDER BY member").await;
    let is_free = |member: &&String| {
        !member.contains('\'')
            && !done
                .iter()
                .any(|done| done.ends_with(&format!(" {member}")) || done.starts_with('5'))
    };
    let free: Vec<&String> = members.iter().filter(is_free).collect();
    let Some(member) = free.choose(rng) else {
        return vec![];
    };
    let statement = match rng.random_range(0..3) {
        0 => format!("UPDATE standing SET score = score + 1 WHERE member = '{member}'"),
        1 => format!("UPDATE standing SET rank_key = rank_key + 1 WHERE member = '{member}'"),
        _ => format!("DELETE FROM standing WHERE member = '{member}'"),
    };
    board.spoil(&[&statement]).await;
    vec![statement]
}
