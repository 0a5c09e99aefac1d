//! Processes whose clocks differ: leases are judged by SQL's.

use engine::job::{self, Begun};
use entity::board;
use entity::board::reshard::Reshard;
use entity::deployment::clock::Clock;
use serde_json::json;

use tests::api::Api;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};

/// How far the clock of one process is ahead, in milliseconds.
const AHEAD_MS: i64 = 3_600_000;

#[tokio::test]
async fn a_process_whose_clock_is_ahead_takes_no_lease_of_another_one() {
    for sql in [Sql::Sqlite, Sql::Postgres] {
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
