//! Event ids and clocks: an id counts once whatever a process' clock says, and as long as the clock
//! of Redis says.

use engine::deployment::Deployment as Stores;
use engine::history::archive;
use entity::board;
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::submission::Verdict;

use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::rolling::stores;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};

const ALL: PartitionNo = PartitionNo(0);

/// Submits an event through a process whose clock is so many milliseconds ahead.
async fn submit(stores: &Stores, board: &Board, event_id: &str, ahead_ms: i64) -> Verdict {
    let event = vec![point(board, "ann", Some(event_id))];
    submit_at(stores, event, now_ms() + ahead_ms).await.unwrap().remove(0)
}

async fn clock_ms(stores: &Stores) -> i64 {
    stores.store.heads().await.unwrap()[0].as_ref().unwrap().clock_ms
}

#[tokio::test]
async fn an_event_sent_again_through_a_process_whose_clock_is_days_off_counts_once() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let board = summing_board(&stores, "b", &[]).await;
    let days = [-2, -1, 0, 1, 2];
    for first in days {
        let id = format!("first {first}");
        let verdict = submit(&stores, &board, &id, first * DAY_MS).await;
        assert!(matches!(verdict, Verdict::Accepted { .. }), "{id}: {verdict:?}");
    }
    for is_flushed in [false, true] {
        if is_flushed {
            stores.partition(ALL).settle().await.unwrap();
            deployment.flush_redis().await;
        }
        for (first, again) in days.into_iter().flat_map(|first| days.map(|again| (first, again))) {
            let verdict = submit(&stores, &board, &format!("first {first}"), again * DAY_MS).await;
            let is_duplicate = matches!(verdict, Verdict::Duplicate { .. });
            assert!(is_duplicate, "{first} and {again} days, {is_flushed}: {verdict:?}");
        }
    }
    stores.close().await;
}

#[tokio::test]
async fn a_job_whose_clock_is_ahead_archives_no_event_whose_id_counts() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let board = summing_board(&stores, "b", &[]).await;
    let verdict = submit(&stores, &board, "e", 0).await;
    assert!(matches!(verdict, Verdict::Accepted { .. }), "{verdict:?}");
    let row = board::of_slug(&stores.db, "b").await.unwrap().unwrap();
    for days in [0, 400] {
        stores.clock.set(now_ms() + days * DAY_MS);
        let planned = archive::plan(&stores, &row, i64::MAX).await.unwrap();
        let why = planned.unwrap_err();
        assert!(why.contains("dedup window"), "{days} days ahead: {why}");
    }
    stores.close().await;
}

#[tokio::test]
async fn the_clock_of_event_ids_follows_redis_and_never_moves_back() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let board = summing_board(&stores, "b", &[]).await;
    let verdict = submit(&stores, &board, "e", 100 * DAY_MS).await;
    assert!(matches!(verdict, Verdict::Accepted { .. }), "{verdict:?}");
    let began_ms = clock_ms(&stores).await;
    assert!(began_ms.abs_diff(now_ms()) < 60_000, "{began_ms}");

    // As if the former master's clock had been ahead.
    let mut redis = deployment.redis().await;
    let key = stores.store.keys().head(ALL);
    let mut put_ahead = async |ms: i64| {
        let read: String = redis::cmd("GET").arg(&key).query_async(&mut redis).await.unwrap();
        let text = read.replace(&clock_ms(&stores).await.to_string(), &(began_ms + ms).to_string());
        let () = redis::cmd("SET").arg(&key).arg(text).query_async(&mut redis).await.unwrap();
    };
    put_ahead(DAY_MS).await;
    let verdict = submit(&stores, &board, "e", 0).await;
    assert!(matches!(verdict, Verdict::Duplicate { .. }), "within the window: {verdict:?}");
    put_ahead(stores.dedup.kept_ms() + 1).await;
    let verdict = submit(&stores, &board, "e", 0).await;
    assert!(matches!(verdict, Verdict::Accepted { .. }), "behind the window: {verdict:?}");
    assert_eq!(clock_ms(&stores).await, began_ms + stores.dedup.kept_ms() + 1);
    // The clock stands until that of Redis has come as far, and recovery keeps it.
    let is_known = submit(&stores, &board, "e", 0).await;
    assert!(matches!(is_known, Verdict::Duplicate { .. }), "{is_known:?}");
    stores.partition(ALL).settle().await.unwrap();
    deployment.flush_redis().await;
    let is_known = submit(&stores, &board, "e", 0).await;
    assert!(matches!(is_known, Verdict::Duplicate { .. }), "{is_known:?}");
    assert_eq!(clock_ms(&stores).await, began_ms + stores.dedup.kept_ms() + 1);
    stores.close().await;
}
