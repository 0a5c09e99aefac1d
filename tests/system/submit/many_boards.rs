//! A batch of scores for very many boards, as a queue hands them to one commit.

use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::PartitionNo;
use ranking::submission::Verdict;

use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::rolling::stores;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};

const ALL: PartitionNo = PartitionNo(0);

const WINDOWS: [&str; 8] =
    ["hourly", "daily", "weekly", "monthly", "quarterly", "yearly", "2h", "2d"];

/// As many as a commit takes. With those of their windows, their marks are more than a script of
/// Redis can hand to one command.
const BOARDS: usize = COMMIT_EVENTS_MAX;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_takes_scores_of_more_boards_than_a_script_can_ask_for_at_once() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    // Marks are looked up only where there are some.
    let marks = stores.store.keys().board_marks(ALL);
    let mut mark = redis::cmd("HSET");
    mark.arg(marks).arg("1000000").arg("deleted");
    let _: i64 = mark.query_async(&mut deployment.redis().await).await.unwrap();
    let mut batch = vec![];
    for number in 0..BOARDS {
        let board = summing_board(&stores, &format!("b{number}"), &WINDOWS).await;
        batch.push(point(&board, "ann", Some("e")));
    }
    let verdicts = submit_at(&stores, batch.clone(), now_ms()).await.unwrap();
    let places: Vec<u64> = verdicts
        .iter()
        .map(|verdict| match verdict {
            Verdict::Accepted { seq, .. } => *seq,
            other => panic!("{other:?}"),
        })
        .collect();
    // A batch that Redis refuses is halved; this one is a commit.
    assert!(places.iter().all(|seq| *seq == places[0]), "{places:?}");
    let again = submit_at(&stores, batch, now_ms()).await.unwrap();
    assert!(again.iter().all(|verdict| matches!(verdict, Verdict::Duplicate { .. })));
    stores.close().await;
}
