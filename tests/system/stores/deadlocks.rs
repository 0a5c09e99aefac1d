//! Transactions of others that lock what a persister locks, in another order.

use std::time::Duration;

use entity::sql::begin;
use sea_orm::ConnectionTrait;
use serde_json::json;
use tokio::time::sleep;

use tests::api::Api;
use tests::api::moderation::{ban, lift};
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;

/// The rounds in which the persister's transaction is to be ended.
const ENDED: usize = 3;

/// The most rounds: the database may end the other transaction.
const ROUNDS_MAX: usize = 50;

/// The deadlocks of this database, as its statistics have them.
const DEADLOCKS: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persister_that_loses_a_deadlock_tries_again_at_once() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_durably(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    api.stop().await;
    // The bans persist what they write themselves.
    let api = Api::start_with(&deployment, &["--no-workers"]).await;
    let db = deployment.sql().await;
    let mut ended = 0;
    for _ in 0..ROUNDS_MAX {
        let before = deployment.number(DEADLOCKS).await;
        let other = begin(&db).await.unwrap();
        other.execute_unprepared("LOCK TABLE standing IN EXCLUSIVE MODE").await.unwrap();
        let banning = async {
            ban(&api, "ann", Some("b")).await;
            lift(&api, "ann", Some("b")).await;
        };
        let locking = async {
            // Less than the time after which the persister's connection looks for a deadlock.
            sleep(Duration::from_millis(100)).await;
            let locked = other.execute_unprepared("SELECT * FROM log_cursor FOR UPDATE").await;
            other.rollback().await.unwrap();
            locked.is_ok()
        };
        let ((), went_first) = tokio::join!(banning, locking);
        ended += usize::from(went_first && deployment.number(DEADLOCKS).await > before);
        if ended == ENDED {
            break;
        }
    }
    assert_eq!(ended, ENDED, "the persister lost too few deadlocks");
    db.close().await.unwrap();
    check_diff(&deployment);
}
