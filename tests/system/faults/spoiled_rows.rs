//! Rows of SQL that were edited by hand so that they cannot be read: they harm their board alone.

use entity::standings::standing;
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::standings_id::StandingsId;
use ranking::submission::Verdict;
use sea_orm::{ConnectionTrait, EntityTrait};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::rolling::stores;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;

const ALL: PartitionNo = PartitionNo(0);

/// A number that is no rank key.
const NO_KEY: i64 = i64::MAX;

#[tokio::test]
async fn a_row_that_cannot_be_read_keeps_no_partition_closed() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let mut boards = vec![];
    for slug in ["sound", "standing", "segments", "time", "rules"] {
        let board = summing_board(&stores, slug, &["daily"]).await;
        let scores = ["ann", "bob"].map(|member| point(&board, member, Some("first")));
        submit_at(&stores, scores.into(), now_ms()).await.unwrap();
        boards.push(board);
    }
    let [sound, row, segments, time, rules] = &boards[..] else { unreachable!() };
    stores.partition(ALL).settle().await.unwrap();
    let entry = async |board: &Board, member: &str| -> Option<String> {
        let id = StandingsId::all_time(board, String::new());
        let key = stores.store.keys().standings(ALL, &id);
        deployment.ask_redis(&["ZSCORE", &key, member]).await
    };
    let mut before = vec![];
    for board in &boards {
        before.push((entry(board, "ann").await, entry(board, "bob").await));
    }

    for statement in [
        format!(
            "UPDATE standing SET rank_key = {NO_KEY} WHERE member = 'ann' AND board_no = {}",
            row.no
        ),
        format!("UPDATE score_event SET segments = 'x' WHERE board_no = {}", segments.no),
        format!("UPDATE score_event SET at_ms = {NO_KEY} WHERE board_no = {}", time.no),
        format!("UPDATE board SET windows = 'x' WHERE no = {}", rules.no),
    ] {
        assert!(stores.db.execute_unprepared(&statement).await.unwrap().rows_affected() > 0);
    }
    deployment.flush_redis().await;
    stores.partition(ALL).recover().await.unwrap();
    for (board, before) in boards.iter().zip(before) {
        let now = (entry(board, "ann").await, entry(board, "bob").await);
        let expected = if board.no == rules.no { (None, None) } else { before };
        assert_eq!(now, expected, "board {}", board.no);
    }
    for board in [sound, row, segments, time] {
        let again = vec![point(board, "ann", Some("second")), point(board, "cid", None)];
        for verdict in submit_at(&stores, again, now_ms()).await.unwrap() {
            assert!(matches!(verdict, Verdict::Accepted { .. }), "{verdict:?}");
        }
    }
    let retry = vec![point(sound, "ann", Some("first"))];
    let told = submit_at(&stores, retry, now_ms()).await.unwrap();
    assert!(matches!(told[0], Verdict::Duplicate { .. }), "{told:?}");

    // The next event of the member folds its row from history.
    stores.partition(ALL).settle().await.unwrap();
    let mended = standing::Entity::find_by_id((row.no.0, String::new(), "ann".to_owned()));
    let mended = mended.one(&stores.db).await.unwrap().unwrap();
    assert_eq!(mended.score, 2);
    assert_ne!(mended.rank_key, NO_KEY);
    stores.close().await;
}

#[tokio::test]
async fn a_standing_that_cannot_be_read_is_named_and_rebuilt_after_redis_was_emptied() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        let score = |member: &str, id: &str| -> Value {
            json!([{ "member": member, "score": 1, "eventId": id }])
        };
        for slug in ["b", "other"] {
            api.create_board(json!({ "slug": slug, "shards": 1, "policy": "SUM" })).await;
            submit_durably(&api, slug, score("ann", "first")).await;
        }
        let db = deployment.sql().await;
        let spoil = format!(
            "UPDATE standing SET rank_key = {NO_KEY} WHERE member = 'ann' \
                AND board_no = (SELECT no FROM board WHERE slug = 'b')"
        );
        assert_eq!(db.execute_unprepared(&spoil).await.unwrap().rows_affected(), 1);
        db.close().await.unwrap();
        deployment.flush_redis().await;
        for slug in ["other", "b"] {
            let told = submit(&api, slug, score("bob", "second")).await;
            assert_eq!(told["accepted"], 1, "{told}");
        }
        let ask = "{ board(slug: \"b\") { standings { entry(member: \"ann\") { score } } } }";
        let read = api.data(ask, json!({})).await;
        assert_eq!(read["board"]["standings"]["entry"]["score"], "1");
        assert_eq!(deployment.analytics(&["diff"]).status.code(), Some(3));
        figures(&deployment, &["rebuild", "--board", "b"]);
        check_diff(&deployment);
    }
}
