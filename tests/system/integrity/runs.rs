//! Runs of the diff and their findings, over GraphQL.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::connection::Connection;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::run;

const FINDINGS: &str = "
    query($id: ID!, $first: Int, $after: String) { integrityRun(id: $id) {
        id board { slug } startedAt finishedAt checked found repaired
        findings(first: $first, after: $after) {
            totalCount pageInfo { hasNextPage hasPreviousPage endCursor }
            nodes {
                kind place note member window period segment history sql redis repaired
                board { slug }
            }
        }
    } }";

/// Boards with these slugs and decimals.
async fn boards(sql: Sql, boards: &[(&str, i64)]) -> Api {
    let api = Api::start(&Deployment::new(sql, Redis::Private).await).await;
    for (slug, decimals) in boards {
        let input = json!({
            "slug": slug, "decimals": decimals, "maxScore": 1000, "segmentBy": ["region"],
        });
        api.create_board(input).await;
        let score = |number: i64| json!({ "member": format!("m{number}"), "score": number });
        submit_durably(&api, slug, (1..=5).map(score).collect()).await;
    }
    api
}

/// The keys of a board's all-time standings.
async fn keys(redis: &mut redis::aio::MultiplexedConnection, board_no: i64) -> Vec<String> {
    redis::cmd("KEYS")
        .arg(format!("laurel:*:z:{board_no}.1::all:all"))
        .query_async(redis)
        .await
        .unwrap()
}

async fn lose(deployment: &Deployment, board_no: i64, member: &str) {
    let mut redis = deployment.redis().await;
    let mut lost = 0;
    for key in keys(&mut redis, board_no).await {
        let mut command = redis::cmd("ZREM");
        let command = command.arg(key).arg(member);
        lost += command.query_async::<i64>(&mut redis).await.unwrap();
    }
    assert_eq!(lost, 1, "{member} of {board_no}");
}

#[tokio::test]
async fn a_run_says_what_it_found_in_the_boards_decimals() {
    for sql in Sql::all() {
        let api = boards(sql, &[("whole", 0), ("cents", 2)]).await;
        let deployment = api.deployment();
        assert_eq!(run(deployment, &["diff"]).0, 0);
        for (board_no, member) in [(1, "m3"), (2, "m4"), (2, "m5")] {
            lose(deployment, board_no, member).await;
        }
        let (code, told, _) = run(deployment, &["diff"]);
        assert_eq!((code, &told["run"]), (3, &json!(2)));

        let data = api.data(FINDINGS, json!({ "id": "integrityRun:2" })).await;
        let found = &data["integrityRun"];
        assert_eq!(found["id"], "integrityRun:2");
        assert_eq!(
            [&found["board"], &found["checked"], &found["found"], &found["repaired"]],
            [&Value::Null, &json!(10), &json!(3), &json!(0)]
        );
        assert!(found["finishedAt"].as_str() >= found["startedAt"].as_str());
        let finding = |board: &str, member: &str, score: &str| {
            json!({
                "kind": "MISSING", "place": "ENTRY", "note": null, "member": member,
                "window": "all", "period": "all", "segment": null, "history": score, "sql": score,
                "redis": null, "repaired": false, "board": { "slug": board },
            })
        };
        // Findings are ordered by slug.
        let expected = json!([
            finding("cents", "m4", "4.00"),
            finding("cents", "m5", "5.00"),
            finding("whole", "m3", "3"),
        ]);
        assert_eq!(found["findings"]["nodes"], expected);
        assert_eq!(found["findings"]["totalCount"], 3);

        // A run is found by its number alone, as the diff prints it.
        let walked = Connection {
            text: FINDINGS,
            variables: json!({ "id": "2" }),
            pointer: "/integrityRun/findings",
        };
        let walked = walked.forward(&api, 2).await;
        assert_eq!(json!(walked), expected);

        // A key of another type is named with its problem.
        let mut redis = deployment.redis().await;
        let key = keys(&mut redis, 1).await.remove(0);
        let set = redis::cmd("SET").arg(&key).arg("x").to_owned();
        let () = set.query_async(&mut redis).await.unwrap();
        assert_eq!(run(deployment, &["diff", "--board", "whole"]).0, 3);
        let data = api.data(FINDINGS, json!({ "id": "3" })).await;
        let nodes = data["integrityRun"]["findings"]["nodes"].as_array();
        let of_key =
            nodes.unwrap().iter().filter(|node| node["place"] == "KEY").collect::<Vec<_>>();
        assert_eq!(of_key.len(), 1, "{nodes:?}");
        assert_eq!(
            [&of_key[0]["kind"], &of_key[0]["note"]],
            ["PHANTOM", "a key that is not a sorted set"]
        );
    }
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_by_board() {
    let api = boards(Sql::any(), &[("a", 0), ("b", 0)]).await;
    let deployment = api.deployment();
    for arguments in
        [&["diff"][..], &["diff", "--board", "b"], &["diff", "--board", "a"], &["diff"]]
    {
        assert_eq!(run(deployment, arguments).0, 0);
    }
    let list = "
        query($board: String, $first: Int, $after: String) {
            integrityRuns(board: $board, first: $first, after: $after) {
                totalCount pageInfo { hasNextPage endCursor } nodes { id found board { slug } }
            }
        }";
    let listed = async |variables: Value| {
        let data = api.data(list, variables).await;
        let nodes = data["integrityRuns"]["nodes"].as_array().unwrap().iter();
        let ids: Vec<Value> = nodes.map(|run| run["id"].clone()).collect();
        (json!(ids), data["integrityRuns"]["totalCount"].clone())
    };
    let id = |number: i64| json!(format!("integrityRun:{number}"));
    assert_eq!(listed(json!({})).await, (json!([id(4), id(3), id(2), id(1)]), json!(4)));
    assert_eq!(listed(json!({ "board": "b" })).await, (json!([id(2)]), json!(1)));
    let first = api.data(list, json!({ "first": 2 })).await;
    let cursor = &first["integrityRuns"]["pageInfo"]["endCursor"];
    assert_eq!(
        listed(json!({ "first": 2, "after": cursor })).await,
        (json!([id(2), id(1)]), json!(4))
    );
    let bare = api.ask(Some(api.token()), list, json!({ "after": "3" })).await;
    assert_eq!(bare.codes(), ["BAD_USER_INPUT"], "a page cursor is opaque");
    let node = "
        { node(id: \"integrityRun:2\") {
            id ... on IntegrityRun { board { slug } findings { totalCount } }
        } }";
    let node = api.data(node, json!({})).await;
    assert_eq!(node["node"]["board"]["slug"], "b");
    assert_eq!(node["node"]["findings"]["totalCount"], 0);
    for (id, expected) in [("integrityRun:9", "null"), ("9", "null")] {
        let data = api.data(FINDINGS, json!({ "id": id })).await;
        assert_eq!(data["integrityRun"].to_string(), expected);
    }
    for id in ["board:a.1", "", "x"] {
        let refused = api.ask(Some(api.token()), FINDINGS, json!({ "id": id })).await;
        assert_eq!(refused.codes(), ["BAD_USER_INPUT"], "{id}");
    }
}
