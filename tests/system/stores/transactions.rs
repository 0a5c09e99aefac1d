//! Transactions whose caller has gone, or that wait for others.

use std::time::Duration;

use engine::settings::SqlSettings;
use entity::sql::begin;
use sea_orm::ConnectionTrait;
use tokio::task::yield_now;
use tokio::time::sleep;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};

/// The connections to this database that are inside a transaction and do nothing.
const OPEN: &str = "SELECT COUNT(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%'";

#[tokio::test]
async fn a_begin_that_is_dropped_leaves_no_transaction_open() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
    let settings = SqlSettings { sql_connections: 1, ..deployment.settings().sql };
    let db = settings.create().await.unwrap();
    for number in 0..50 {
        // Each is dropped at another moment: before it has a connection, amid BEGIN, after it.
        let mut beginning = Box::pin(begin(&db));
        for _ in 0..=number % 10 {
            if futures::poll!(beginning.as_mut()).is_ready() {
                break;
            }
            yield_now().await;
        }
    }
    // The one connection is free after all of them, and its transaction is a new one.
    begin(&db).await.unwrap().rollback().await.unwrap();
    assert_eq!(deployment.number(OPEN).await, 0);
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_sqlite_that_reads_before_it_writes_waits_for_another_writer() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    Api::start(&deployment).await.stop().await;
    let [first, second] = [deployment.sql().await, deployment.sql().await];
    const WRITE: &str = "UPDATE log_cursor SET seq = seq";
    let writing = begin(&first).await.unwrap();
    writing.execute_unprepared(WRITE).await.unwrap();
    let reading = tokio::spawn(async move {
        let transaction = begin(&second).await?;
        transaction.execute_unprepared("SELECT * FROM log_cursor").await?;
        transaction.execute_unprepared(WRITE).await?;
        transaction.commit().await?;
        second.close().await
    });
    // Time for the other one to fail.
    sleep(Duration::from_millis(300)).await;
    writing.commit().await.unwrap();
    reading.await.unwrap().unwrap();
    first.close().await.unwrap();
}
