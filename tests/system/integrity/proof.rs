//! Proofs: the diff does not fold a board without events since the last diff; and it works beside
//! writers.

use serde_json::{Value, json};

use tests::api::submission::{submit, submit_durably};
use tests::boards::corruption::CorruptedBoard;
use tests::deployment::{Deployment, Sql};
use tests::jobs::diff::{finding_set, findings};

#[tokio::test]
async fn a_board_without_events_since_is_proven_clean_without_its_history() {
    let mut board = CorruptedBoard::new(Sql::any(), 4).await;
    let proven = |found: &Value| {
        (found["proven"]["by_digest"].clone(), found["proven"]["by_history"].clone())
    };
    let (_, found) = board.run(&["diff"]);
    assert_eq!(proven(&found), (json!(0), json!(4)), "{found}");
    let (_, found) = board.run(&["diff"]);
    assert_eq!(proven(&found), (json!(4), json!(0)), "{found}");
    assert_eq!(found["checked"], 40 + 3 * 40 + 3 * 40);
    let (_, found) = board.run(&["diff", "--full"]);
    assert_eq!(proven(&found), (json!(0), json!(4)), "{found}");
    // Another board in the same partitions changes nothing; an event of this board changes only its
    // own partition.
    board.api.create_board(json!({ "slug": "other", "shards": 16 })).await;
    let score = |member: i64| json!({ "member": format!("o{member}"), "score": member });
    submit_durably(&board.api, "other", (0..100).map(score).collect()).await;
    let (_, found) = board.run(&["diff", "--board", "b"]);
    assert_eq!(proven(&found), (json!(4), json!(0)), "{found}");
    submit_durably(&board.api, "b", json!([{ "member": "m01", "score": 1 }])).await;
    let (_, found) = board.run(&["diff", "--board", "b"]);
    assert_eq!(proven(&found), (json!(3), json!(1)), "{found}");
    // The diff sees corruption without an event, in any place.
    let (key, double) = board.entry("m05", "daily:2026-02-10").await;
    board.set(&key, f64::from_bits(double.to_bits() + 1), "m05").await;
    let (code, found) = board.run(&["diff", "--board", "b"]);
    assert_eq!((code, proven(&found)), (3, (json!(3), json!(0))), "{found}");
    board.set(&key, double, "m05").await;
    let (code, found) = board.run(&["diff", "--board", "b"]);
    assert_eq!((code, proven(&found)), (0, (json!(4), json!(0))), "{found}");
    for (spoil, mend) in [
        (
            "UPDATE standing SET rank_key = rank_key + 1 WHERE member = 'm21'",
            "UPDATE standing SET rank_key = rank_key - 1 WHERE member = 'm21'",
        ),
        (
            "UPDATE score_event SET at_ms = at_ms + 86400000 WHERE member = 'm21'",
            "UPDATE score_event SET at_ms = at_ms - 86400000 WHERE member = 'm21'",
        ),
        (
            "UPDATE score_event SET score = 1000 - score WHERE member = 'm21'",
            "UPDATE score_event SET score = 1000 - score WHERE member = 'm21'",
        ),
    ] {
        board.spoil(&[spoil]).await;
        assert_eq!(board.run(&["diff", "--board", "b"]).0, 3, "{spoil}");
        board.spoil(&[mend]).await;
        assert_eq!(board.run(&["diff", "--board", "b"]).0, 0);
    }
}

#[tokio::test]
async fn redis_is_compared_with_the_rows_of_standings_alone() {
    let mut board = CorruptedBoard::new(Sql::any(), 2).await;
    let whole = board.picture().await;
    let (key, _) = board.entry("m05", "all:all").await;
    let (day, double) = board.entry("m06", "daily:2026-02-11").await;
    let () = board.redis(&["ZREM", &key, "m05"]).await;
    board.set(&key, 1.5, "m07").await;
    board.set(&day, f64::from_bits(double.to_bits() + 1), "m06").await;
    let (code, found) = board.run(&["diff", "--against", "standings"]);
    assert_eq!((code, found["checked"].as_i64()), (3, Some(40)), "{found}");
    let kinds = [("MISSING", "ENTRY", "m05"), ("WRONG_SCORE", "ENTRY", "m07")];
    assert_eq!(findings(&found), finding_set(&kinds), "{found}");
    let (code, found) = board.run(&["diff", "--against", "standings", "--repair"]);
    assert_eq!((code, findings(&found)), (0, finding_set(&kinds)), "{found}");
    board.repairs(&[("WRONG_TIE_BREAK", "ENTRY", "m06")], &whole).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_beside_writers_restores_corrupted_entries() {
    let mut board = CorruptedBoard::new(Sql::any(), 2).await;
    let score = |member: i64| json!({ "member": format!("q{member}"), "score": member });
    board.api.create_board(json!({ "slug": "quiet", "shards": 16 })).await;
    submit_durably(&board.api, "quiet", (0..100).map(score).collect()).await;
    let (key, _) = board.entry("m00", "all:all").await;
    let (month, double) = board.entry("m01", "monthly:2026-01").await;
    let deployment = board.deployment.clone();
    let write = async || {
        for batch in 0..300 {
            let score = |member: i64| {
                json!({
                    "member": format!("m{member:02}"), "score": batch % 7,
                    "at": format!("2026-0{}-1{}T12:00:00Z", 1 + batch % 3, member % 5),
                })
            };
            submit(&board.api, "b", (2..40).map(score).collect()).await;
        }
    };
    let mut other = deployment.redis().await;
    let mut spoil = async || {
        let mut runs = vec![];
        for _ in 0..3 {
            let () = redis::cmd("ZREM").arg(&key).arg("m00").query_async(&mut other).await.unwrap();
            let () = redis::cmd("ZADD")
                .arg(&month)
                .arg(format!("{:.16e}", f64::from_bits(double.to_bits() + 1)))
                .arg("m01")
                .query_async(&mut other)
                .await
                .unwrap();
            runs.push(run(&deployment, &["diff", "--json", "--repair"]).await);
        }
        runs
    };
    let ((), runs) = futures::join!(write(), spoil());
    for (code, found) in runs {
        assert_eq!(
            (code, findings(&found)),
            (0, finding_set(&[("MISSING", "ENTRY", "m00"), ("WRONG_TIE_BREAK", "ENTRY", "m01")])),
            "{found}"
        );
        assert!(
            found["proven"]["by_digest"].as_i64().unwrap()
                + found["proven"]["by_history"].as_i64().unwrap()
                >= 14,
            "{found}"
        );
    }
    assert_eq!(board.run(&["diff"]).0, 0);
}

/// Runs a diff without blocking the tasks beside it; returns its exit status and its findings.
async fn run(deployment: &Deployment, arguments: &[&str]) -> (i32, Value) {
    let mut command = deployment.analytics_command(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap();
    assert!(code != 1 && code != 2, "{arguments:?}: {error}");
    (code, serde_json::from_slice(&output.stdout).unwrap_or_default())
}
