//! Transactions whose caller has gone.

use engine::settings::SqlSettings;
use entity::sql::begin;
use tokio::task::yield_now;

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
