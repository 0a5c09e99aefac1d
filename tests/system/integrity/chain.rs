//! The chain of commits: history that was altered by hand is named, whatever agrees with it.

use std::fs;

use entity::archive::archive_file;
use entity::history::commit;
use sea_orm::{ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};

use tests::api::submission::submit_durably;
use tests::boards::corruption::CorruptedBoard;
use tests::deployment::Sql;
use tests::jobs::analytics::run;
use tests::jobs::archive::archived;
use tests::jobs::diff::{check_diff, finding_set, findings};

/// The kinds and places of findings, each once.
fn kinds<'a>(found: &'a Value) -> Vec<(&'a str, &'a str)> {
    let all = found["findings"].as_array().unwrap().iter();
    let text =
        |value: &'a Value| (value["kind"].as_str().unwrap(), value["place"].as_str().unwrap());
    let mut kinds: Vec<_> = all.map(text).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[tokio::test]
async fn an_event_that_was_altered_in_all_stores_alike_is_named() {
    for sql in Sql::all() {
        let board = CorruptedBoard::new(sql, 2).await;
        assert_eq!(board.run(&["diff"]).0, 0);
        board
            .spoil(&["UPDATE score_event SET score = score + 1 WHERE member = 'm30' AND at_ms = \
                (SELECT MIN(at_ms) FROM score_event WHERE member = 'm30')"])
            .await;
        // SQL and Redis follow the altered history.
        board.run(&["diff", "--repair", "--against", "history"]);
        for arguments in [&["diff"][..], &["diff", "--full"]] {
            let (code, found) = board.run(arguments);
            let expected = finding_set(&[("ALTERED", "EVENT", "m30")]);
            assert_eq!((code, findings(&found)), (3, expected), "{found}");
        }
        // Without an effect on any standings: another event id. A digest proves standings only.
        board.spoil(&["UPDATE score_event SET event_id = 'x' WHERE member = 'm31'"]).await;
        let (_, found) = board.run(&["diff", "--full"]);
        let expected = finding_set(&[("ALTERED", "EVENT", "m30"), ("ALTERED", "EVENT", "m31")]);
        assert_eq!(findings(&found), expected, "{found}");
    }
}

#[tokio::test]
async fn an_altered_commit_is_named() {
    for sql in Sql::all() {
        let board = CorruptedBoard::new(sql, 2).await;
        let (later, earlier) = (
            "UPDATE \"commit\" SET accepted_at_ms = accepted_at_ms + 1 WHERE seq = 2",
            "UPDATE \"commit\" SET accepted_at_ms = accepted_at_ms - 1 WHERE seq = 2",
        );
        board.spoil(&[later]).await;
        let (code, found) = board.run(&["diff", "--full"]);
        assert_eq!((code, kinds(&found)), (3, vec![("ALTERED", "COMMIT")]), "{found}");
        board.spoil(&[earlier]).await;
        assert_eq!(board.run(&["diff"]).0, 0);
        // Even with an id that its content gives, it does not lead on to the next one.
        board.spoil(&[later]).await;
        let db = board.deployment.sql().await;
        for mut row in commit::Entity::find().all(&db).await.unwrap() {
            row.id = row.computed_id().unwrap();
            let (partition, seq) = (Set(row.partition), Set(row.seq));
            let row = commit::ActiveModel { partition, seq, id: Set(row.id), ..Default::default() };
            commit::Entity::update(row).exec_without_returning(&db).await.unwrap();
        }
        db.close().await.unwrap();
        let (code, found) = board.run(&["diff", "--full"]);
        assert_eq!((code, kinds(&found)), (3, vec![("ALTERED", "COMMIT")]), "{found}");
    }
}

#[tokio::test]
async fn a_file_that_was_exchanged_with_its_checksum_is_named() {
    // The same scores, played twice: the files differ in nothing that a fold looks at.
    let (deployment, _api) = archived(Sql::any()).await;
    let (other, _other_api) = archived(Sql::any()).await;
    check_diff(&deployment);
    let (db, other_db) = (deployment.sql().await, other.sql().await);
    for file in archive_file::Entity::find().all(&other_db).await.unwrap() {
        let path = other.archive_dir().join(&file.path);
        fs::copy(path, deployment.archive_dir().join(&file.path)).unwrap();
        let exchanged = archive_file::ActiveModel {
            path: Set(file.path),
            bytes: Set(file.bytes),
            sha256: Set(file.sha256),
            ..Default::default()
        };
        archive_file::Entity::update(exchanged).exec_without_returning(&db).await.unwrap();
    }
    db.close().await.unwrap();
    other_db.close().await.unwrap();
    let (code, found, error) = run(&deployment, &["diff"]);
    assert_eq!(code, 3, "{found}{error}");
    assert!(kinds(&found).contains(&("ALTERED", "EVENT")), "{found}");
}

#[tokio::test]
async fn events_of_a_deleted_board_are_gone_and_not_missing() {
    let board = CorruptedBoard::new(Sql::any(), 2).await;
    board.api.create_board(json!({ "slug": "other", "shards": 2 })).await;
    let score = |member: i64| json!({ "member": format!("m{member}"), "score": member });
    submit_durably(&board.api, "other", (0..100).map(score).collect()).await;
    board.api.delete_board("other").await;
    let gone = "SELECT CAST(SUM(gone) AS BIGINT) FROM \"commit\"";
    tests::wait::until("the events of the board are gone", async || {
        (board.deployment.number(gone).await == 100).then_some(())
    })
    .await;
    let (code, found) = board.run(&["diff", "--full"]);
    assert_eq!(code, 0, "{found}");
}

#[tokio::test]
async fn an_event_that_was_deleted_and_counted_as_gone_is_named() {
    for sql in Sql::all() {
        let board = CorruptedBoard::new(sql, 2).await;
        let of_event = "SELECT MIN(seq) FROM score_event WHERE member = 'm30'";
        let partition = "SELECT MIN(\"partition\") FROM score_event WHERE member = 'm30'";
        board
            .spoil(&[
                &format!(
                    "UPDATE \"commit\" SET gone = gone + 1 \
                        WHERE seq = ({of_event}) AND \"partition\" = ({partition})"
                ),
                &format!("DELETE FROM score_event WHERE member = 'm30' AND seq = ({of_event})"),
            ])
            .await;
        let (code, found) = board.run(&["diff", "--full"]);
        assert_eq!(code, 3, "{found}");
        assert!(kinds(&found).contains(&("MISSING", "COMMIT")), "{found}");
    }
}

#[tokio::test]
async fn a_history_that_lost_its_end_is_named() {
    let board = CorruptedBoard::new(Sql::any(), 2).await;
    board.deployment.api_output(&["checkpoint"]).await;
    assert_eq!(board.run(&["diff"]).0, 0);
    // As if commits that were checked, or signed, were there no more.
    for table in ["integrity_chain", "checkpoint"] {
        board.spoil(&[&format!("UPDATE {table} SET seq = seq + 1000")]).await;
        for arguments in [&["diff"][..], &["diff", "--full"]] {
            let (code, found) = board.run(arguments);
            assert_eq!(code, 3, "{table}: {found}");
            assert!(kinds(&found).contains(&("MISSING", "COMMIT")), "{table}: {found}");
        }
        board.spoil(&[&format!("UPDATE {table} SET seq = seq - 1000")]).await;
        assert_eq!(board.run(&["diff"]).0, 0);
    }
}

#[tokio::test]
async fn a_checkpoint_of_another_commit_or_deployment_is_named() {
    let board = CorruptedBoard::new(Sql::any(), 2).await;
    let other = CorruptedBoard::new(Sql::any(), 2).await;
    for deployment in [&board.deployment, &other.deployment] {
        deployment.api_output(&["checkpoint"]).await;
    }
    let theirs: String = other
        .deployment
        .column::<String>("SELECT statement FROM checkpoint ORDER BY \"partition\" LIMIT 1")
        .await
        .remove(0);
    let exchanged = format!("UPDATE checkpoint SET statement = '{theirs}'");
    board.spoil(&[&exchanged]).await;
    let (code, found) = board.run(&["diff", "--full"]);
    assert_eq!((code, kinds(&found)), (3, vec![("ALTERED", "COMMIT")]), "{found}");
}
