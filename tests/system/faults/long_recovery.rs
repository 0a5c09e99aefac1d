//! A recovery that takes longer than its callers wait.

use std::time::{Duration, Instant};

use ranking::id::PartitionNo;
use tokio::time::timeout;

use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::rolling::stores;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};

const ALL: PartitionNo = PartitionNo(0);

/// Far less than a recovery takes.
const PATIENCE: Duration = Duration::from_millis(1);

/// Longer than the lease of a recovery whose process is gone.
const LONGEST: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_recovery_goes_on_when_its_caller_waits_no_longer() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let board = summing_board(&stores, "b", &["daily", "7d"]).await;
    let scores = (0..100).map(|number| point(&board, &format!("m{number}"), None)).collect();
    submit_at(&stores, scores, now_ms()).await.unwrap();
    stores.partition(ALL).settle().await.unwrap();
    let () = deployment.ask_redis(&["FLUSHALL"]).await;
    let end = Instant::now() + LONGEST;
    while stores.store.heads_of(&[ALL]).await.unwrap()[0].is_err() {
        assert!(Instant::now() < end, "the partition is not recovered");
        let _ = timeout(PATIENCE, stores.partition(ALL).recover()).await;
    }
}
