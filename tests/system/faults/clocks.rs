//! Clocks that differ: those of processes, where leases are judged by SQL's, and those of
//! partitions.

use engine::history::checkpoint::{self, Due};
use engine::job::{self, Begun};
use entity::board;
use entity::board::reshard::Reshard;
use entity::deployment::clock::Clock;
use ranking::id::PartitionNo;
use redis::AsyncCommands;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::rolling::stores;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::reshard::reshard;

/// How far the clock of one process is ahead, in milliseconds.
const AHEAD_MS: i64 = 3_600_000;

#[tokio::test]
async fn a_process_whose_clock_is_ahead_takes_no_lease_of_another_one() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b" })).await;
        let stores = deployment.open_stores().await;
        let db = &stores.db;
        let Begun::Running(running) =
            job::begin(db, &Clock::default(), entity::job::IMPORT, None).await.unwrap()
        else {
            panic!("no other job is running");
        };
        let row = board::of_slug(db, "b").await.unwrap().unwrap();
        let reshard = Reshard::begin(db, &row, 4).await.unwrap().unwrap();

        stores.clock.set(now_ms() + AHEAD_MS);
        let begun = job::begin(db, &stores.clock, entity::job::IMPORT, None).await.unwrap();
        assert!(matches!(begun, Begun::Taken(_)), "{begun:?}");
        job::end_dead(db, stores.clock.now_ms()).await.unwrap();
        engine::reshard::look_after(&stores).await.unwrap();
        assert!(reshard.is_still(db, row.no).await.unwrap());
        running.end(Ok("done")).await.unwrap();
        assert_eq!(deployment.number("SELECT COUNT(*) FROM job WHERE state = 'DONE'").await, 1);
        assert!(reshard.end(db, row.no).await.unwrap());
        stores.close().await;
    }
}

#[tokio::test]
async fn a_process_whose_clock_is_ahead_keeps_no_other_one_from_signing() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let board = summing_board(&stores, "b", &[]).await;
    let partition = stores.partition(PartitionNo(0));
    let signed = async || {
        submit_at(&stores, vec![point(&board, "ann", None)], now_ms()).await.unwrap();
        partition.settle().await.unwrap();
        checkpoint::make(&stores, Due::Daily).await.unwrap();
        entity::history::checkpoint::last(&stores.db, partition.no).await.unwrap().unwrap()
    };
    stores.clock.set(now_ms() + 10 * DAY_MS);
    let first = signed().await;
    assert!(first.created_at_ms.abs_diff(now_ms()) < AHEAD_MS.unsigned_abs(), "{first:?}");
    assert_eq!(signed().await.seq, first.seq, "none is due");
    for days in [-1, 10] {
        let aged = format!("UPDATE checkpoint SET created_at_ms = {}", now_ms() + days * DAY_MS);
        stores.db.execute_unprepared(&aged).await.unwrap();
        let before = entity::history::checkpoint::last(&stores.db, partition.no).await.unwrap();
        assert!(signed().await.seq > before.unwrap().seq, "{days} days");
    }
    stores.close().await;
}

#[tokio::test]
async fn event_ids_move_to_partitions_whose_clocks_are_behind() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": 1 })).await;
    let scores = |numbers: std::ops::Range<u32>| -> Value {
        numbers
            .map(|no| json!({ "member": format!("m{no}"), "score": 1, "eventId": no.to_string() }))
            .collect()
    };
    assert_eq!(submit_durably(&api, "b", scores(0..1)).await["accepted"], 1);
    // As if the clock of Redis had been a day ahead for a while.
    let mut redis = deployment.redis().await;
    let heads: Vec<String> = redis.keys("laurel:*:head").await.unwrap();
    for head in heads {
        let text: String = redis.get(&head).await.unwrap();
        let parts: Vec<&str> = text.split(' ').collect();
        let [seq, commit, layout, clock, rest @ ..] = &parts[..] else { panic!("{text}") };
        if *seq != "0" {
            let clock = clock.parse::<i64>().unwrap() + 24 * AHEAD_MS;
            let text = format!("{seq} {commit} {layout} {clock} {}", rest.join(" "));
            let () = redis.set(&head, text).await.unwrap();
        }
    }
    assert_eq!(submit_durably(&api, "b", scores(1..20)).await["accepted"], 19);
    reshard(&deployment, "b", 16);
    assert_eq!(submit_durably(&api, "b", scores(1..20)).await["duplicates"], 19);
    // Recovery loads them from SQL.
    deployment.flush_redis().await;
    assert_eq!(submit_durably(&api, "b", scores(1..20)).await["duplicates"], 19);
}
