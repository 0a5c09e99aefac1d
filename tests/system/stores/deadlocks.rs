//! Transactions of others that lock what a persister locks, in another order.

use std::time::Duration;

use entity::sql::begin;
use sea_orm::ConnectionTrait;
use serde_json::json;
use tokio::time::{sleep, timeout};

use tests::api::Api;
use tests::api::moderation::{ban, lift};
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;

/// The times that the persister's transaction is to be ended.
const ENDED: usize = 3;

/// The most rounds: the database may end the other transaction.
const ROUNDS_MAX: usize = 20;

/// The longest time until the persister waits for the other transaction.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The transactions that have locked rows of `log_cursor` and wait for `standing`.
const WAITING: &str = "SELECT count(*) FROM pg_locks held JOIN pg_locks wanted USING (pid)
    WHERE held.relation = 'log_cursor'::regclass AND held.mode = 'RowExclusiveLock' AND held.granted
    AND wanted.relation = 'standing'::regclass AND NOT wanted.granted";

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
        let other = begin(&db).await.unwrap();
        other.execute_unprepared("LOCK TABLE standing IN EXCLUSIVE MODE").await.unwrap();
        let banning = async {
            ban(&api, "ann", Some("b")).await;
            lift(&api, "ann", Some("b")).await;
        };
        let locking = async {
            timeout(WAIT_MAX, persister_waits(&deployment)).await.expect("the persister waits");
            // The persister began to wait earlier, so its connection looks for a deadlock first.
            // This one goes on only if the persister lets go of its rows.
            let locked = other.execute_unprepared("SELECT * FROM log_cursor FOR UPDATE").await;
            other.rollback().await.unwrap();
            locked.is_ok()
        };
        let ((), went_first) = tokio::join!(banning, locking);
        ended += usize::from(went_first);
        if ended == ENDED {
            break;
        }
    }
    assert_eq!(ended, ENDED, "the persister lost too few deadlocks");
    db.close().await.unwrap();
    check_diff(&deployment);
}

async fn persister_waits(deployment: &Deployment) {
    while deployment.number(WAITING).await == 0 {
        sleep(Duration::from_millis(10)).await;
    }
}
