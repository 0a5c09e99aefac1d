//! Boards that are deleted: with all they had, through crashes, and for good.

use entity::sql::begin;
use redis::AsyncCommands;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, void};
use tests::api::submission::{submit, submit_durably};
use tests::boards::deletion::{
    board_no, check_gone, check_marks, create, fill, filled, keys, wait_until_purged,
};
use tests::deployment::{Redis, Sql};
use tests::documents::{DELETE_BOARD, NODE};
use tests::jobs::diff::check_diff;
use tests::servers::program::signal;
use tests::wait::until;

const TOP: &str = "
    query($after: String) { board(slug: \"b\") { standings {
        size
        top(first: 2, after: $after) { pageInfo { endCursor } nodes { id score member { key } } }
    } } }";

#[tokio::test]
async fn a_deleted_board_leaves_nothing_and_its_slug_is_free() {
    for sql in Sql::all() {
        let (deployment, api) = filled(sql, Redis::Private).await;
        let no = board_no(&deployment).await;
        assert!(!keys(&deployment, no).await.is_empty());
        let top = api.data(TOP, json!({})).await["board"]["standings"]["top"].take();
        let cursor = &top["pageInfo"]["endCursor"];
        let event = events(&api, "b", "m7").await[0]["id"].as_str().unwrap().to_owned();
        api.delete_board("b").await;
        check_gone(&deployment, no).await;
        let ids = [
            json!(format!("board:b.{no}")),
            json!(format!("standings:b.{no}:all:all:")),
            json!(format!("window:b.{no}:daily")),
            json!(format!("period:b.{no}:all:all")),
            top["nodes"][0]["id"].clone(),
            json!(event),
        ];
        for id in &ids {
            assert_eq!(api.data(NODE, json!({ "id": id })).await["node"], Value::Null, "{id}");
        }
        let text = "
            {
                board(slug: \"b\") { id }
                member(key: \"m7\") {
                    key events(board: \"b\") { totalCount } entry(board: \"b\") { rank }
                }
                boards { totalCount }
            }";
        let expected = json!({
            "board": null, "member": { "key": "m7", "events": null, "entry": null },
            "boards": { "totalCount": 0 },
        });
        assert_eq!(api.data(text, json!({})).await, expected);
        assert_eq!(void(&api, &event).await.codes(), ["NOT_FOUND"]);
        let variables = json!({ "slug": "b" });
        for refused in [
            DELETE_BOARD,
            "
                mutation {
                    submitScores(input: { board: \"b\", scores: [{ member: \"m7\", score: 1 }] }) {
                        accepted
                    }
                }",
        ] {
            assert_eq!(
                api.ask(Some(api.token()), refused, variables.clone()).await.codes(),
                ["NOT_FOUND"]
            );
        }

        create(&api).await;
        let data = api.data(TOP, json!({})).await;
        assert_eq!(data["board"]["standings"]["size"], 0);
        assert_eq!(events(&api, "b", "m7").await, [Value::Null; 0]);
        let old = api.ask(Some(api.token()), TOP, json!({ "after": cursor })).await;
        assert_eq!(old.codes(), ["BAD_USER_INPUT"]);
        // The new board of the slug has other ids.
        for id in &ids {
            assert_eq!(api.data(NODE, json!({ "id": id })).await["node"], Value::Null, "{id}");
        }
        assert_eq!(void(&api, &event).await.codes(), ["NOT_FOUND"]);
        // An event id of the old board is new to this one.
        let score = json!([{ "member": "m7", "score": 70, "eventId": "e" }]);
        assert_eq!(submit_durably(&api, "b", score).await["accepted"], 1);
        let data = api.data(TOP, json!({})).await;
        assert_eq!(data["board"]["standings"]["top"]["nodes"][0]["score"], "70");
        check_gone(&deployment, no).await;
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn a_board_is_deleted_by_an_admin_alone() {
    let (deployment, api) = filled(Sql::any(), Redis::Private).await;
    let submits = deployment.new_token(&["--scope", "submit"]).await;
    let variables = json!({ "slug": "b" });
    assert_eq!(api.ask(None, DELETE_BOARD, variables.clone()).await.codes(), ["UNAUTHENTICATED"]);
    assert_eq!(api.ask(Some(&submits), DELETE_BOARD, variables).await.codes(), ["FORBIDDEN"]);
    for slug in ["none", "", "No Slug", "~1", "%"] {
        let answer = api.ask(Some(api.token()), DELETE_BOARD, json!({ "slug": slug })).await;
        assert_eq!(answer.codes(), ["NOT_FOUND"], "{slug}");
    }
    assert_eq!(api.data(TOP, json!({})).await["board"]["standings"]["size"], 100);
}

#[tokio::test]
async fn a_board_that_two_delete_at_once_is_deleted_once() {
    let (deployment, api) = filled(Sql::Postgres, Redis::Private).await;
    let other = Api::start(&deployment).await;
    for _ in 0..3 {
        let answers = futures::join!(
            api.ask(Some(api.token()), DELETE_BOARD, json!({ "slug": "b" })),
            other.ask(Some(other.token()), DELETE_BOARD, json!({ "slug": "b" })),
        );
        let mut codes = [answers.0.codes(), answers.1.codes()];
        codes.sort_unstable();
        assert_eq!(codes, [vec![], vec!["NOT_FOUND"]]);
        fill(&api, 20).await;
    }
    assert_eq!(api.data(TOP, json!({})).await["board"]["standings"]["size"], 20);
}

#[tokio::test]
async fn a_deleted_board_takes_no_other_with_it() {
    let (deployment, api) = filled(Sql::any(), Redis::Private).await;
    // Numbers that begin with the digits of the deleted one.
    for number in 0..12 {
        let slug = format!("c{number}");
        api.create_board(json!({ "slug": slug, "shards": 4, "windows": [{ "name": "daily" }] }))
            .await;
        submit_durably(
            &api,
            &slug,
            json!([{ "member": "m1", "score": 1 }, { "member": "m2", "score": 1 }]),
        )
        .await;
    }
    api.delete_board("b").await;
    for number in 0..12 {
        let text = "
            query($slug: String!) { board(slug: $slug) {
                standings(of: { window: \"daily\" }) { size } periods(window: \"daily\") { totalCount }
            } }";
        let data = api.data(text, json!({ "slug": format!("c{number}") })).await;
        assert_eq!(
            data["board"],
            json!({ "standings": { "size": 2 }, "periods": { "totalCount": 1 } }),
            "{number}"
        );
    }
    check_diff(&deployment);
}

/// Sends a request to a process that is killed before it answers.
async fn delete_in_vain(api: &Api) {
    let _ = api.try_ask(Some(api.token()), DELETE_BOARD, json!({ "slug": "b" })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_cut_short_before_any_partition_knows_is_finished() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    let no = board_no(&deployment).await;
    let redis_pid = deployment.redis_pid().await;
    signal("STOP", redis_pid);
    let kill = async || {
        until("the board is marked", async || {
            let marked = format!(
                "SELECT CAST(COUNT(*) AS BIGINT) FROM board WHERE no = {no} \
                AND deleted_at_ms IS NOT NULL"
            );
            (deployment.number(&marked).await == 1).then_some(())
        })
        .await;
        signal("KILL", api.pid());
    };
    futures::join!(delete_in_vain(&api), kill());
    signal("CONT", redis_pid);
    let count = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM score_event WHERE board_no = {no}");
    assert_eq!(deployment.number(&count).await, 100);
    let api = Api::start(&deployment).await;
    assert_eq!(api.data(TOP, json!({})).await["board"], Value::Null);
    // The slug is free although the old board's data is still there.
    fill(&api, 10).await;
    wait_until_purged(&deployment, no).await;
    check_gone(&deployment, no).await;
    assert_eq!(api.data(TOP, json!({})).await["board"]["standings"]["size"], 10);
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_cut_short_amid_its_rows_is_finished_on_postgres() {
    let (deployment, api) = filled(Sql::Postgres, Redis::Own).await;
    let no = board_no(&deployment).await;
    // While the history is locked, only standings are deleted.
    let db = deployment.sql().await;
    let held = begin(&db).await.unwrap();
    held.execute_unprepared("LOCK TABLE score_event IN SHARE MODE").await.unwrap();
    let kill = async || {
        until("the standings are gone", async || {
            let count =
                format!("SELECT CAST(COUNT(*) AS BIGINT) FROM standing WHERE board_no = {no}");
            (deployment.number(&count).await == 0).then_some(())
        })
        .await;
        signal("KILL", api.pid());
    };
    futures::join!(delete_in_vain(&api), kill());
    held.rollback().await.unwrap();
    assert!(!keys(&deployment, no).await.is_empty());
    deployment.flush_redis().await;
    let api = Api::start(&deployment).await;
    fill(&api, 10).await;
    wait_until_purged(&deployment, no).await;
    check_gone(&deployment, no).await;
    check_diff(&deployment);
}

#[tokio::test]
async fn an_emptied_redis_learns_again_which_boards_were_deleted() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    let no = board_no(&deployment).await;
    api.delete_board("b").await;
    fill(&api, 10).await;
    deployment.flush_redis().await;
    let score = |number: i64| json!({ "member": format!("m{number}"), "score": 1 });
    let scores: Vec<Value> = (1..=10).map(score).collect();
    assert_eq!(submit(&api, "b", json!(scores)).await["accepted"], 10);
    until("every partition is recovered", async || {
        let mut redis = deployment.redis().await;
        let keys: Vec<String> = redis.keys("laurel:*:gen").await.unwrap();
        (keys.len() == 16).then_some(())
    })
    .await;
    check_marks(&deployment, &[no]).await;
    check_gone(&deployment, no).await;
}
