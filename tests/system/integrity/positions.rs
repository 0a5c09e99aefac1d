//! Positions in sources that Redis has otherwise than SQL: found, and put right by SQL.

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_FROM_SOURCE;
use tests::jobs::analytics::run;
use tests::jobs::diff::{check_diff, finding_set, findings};

/// The field of the source's partition.
const FIELD: &str = "3:scores";

/// Submits a score of each of 40 members, each from a message of its own; returns the statuses.
async fn submit(api: &Api) -> Vec<Value> {
    let score = |offset: u32| {
        let position = json!({ "partition": 3, "offset": offset.to_string() });
        json!({ "member": format!("m{offset}"), "score": 1, "position": position })
    };
    let scores: Vec<Value> = (0..40).map(score).collect();
    let source = json!({ "name": "scores" });
    let input = json!({ "board": "b", "scores": scores, "source": source, "ack": "DURABLE" });
    let data = api.data(SUBMIT_FROM_SOURCE, json!({ "input": input })).await;
    let results = data["submitScores"]["results"].as_array().unwrap();
    results.iter().map(|result| result["status"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_redis_has_otherwise_is_found_and_put_right() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b", "policy": "SUM", "shards": 2 })).await;
        assert!(submit(&api).await.iter().all(|status| status == "APPLIED"));
        check_diff(&deployment);
        let contents = deployment.redis_contents().await;
        let keys = contents.iter().map(|(key, _)| key).filter(|key| key.contains(":positions:"));
        let keys: Vec<&String> = keys.collect();
        assert_eq!(keys.len(), 2, "{keys:?}");
        let position = async |key: &str| -> Option<String> {
            deployment.ask_redis(&["HGET", key, FIELD]).await
        };
        let before = (position(keys[0]).await, position(keys[1]).await);
        let _: i64 = deployment.ask_redis(&["HSET", keys[0], FIELD, "1.0"]).await;
        let _: i64 = deployment.ask_redis(&["HDEL", keys[1], FIELD]).await;
        let (code, found, _) = run(&deployment, &["diff"]);
        let expected = finding_set(&[("ALTERED", "KEY", "*"), ("MISSING", "KEY", "*")]);
        assert_eq!((code, findings(&found)), (3, expected), "{found}");
        assert!(found.to_string().contains(FIELD), "{found}");
        let (code, found, _) = run(&deployment, &["diff", "--repair"]);
        assert_eq!((code, &found["repaired"]), (0, &json!(2)), "{found}");
        assert_eq!((position(keys[0]).await, position(keys[1]).await), before);
        let counts: i64 = deployment.ask_redis(&["HGET", keys[1], "count"]).await;
        assert_eq!(counts, 1);
        assert!(submit(&api).await.iter().all(|status| status == "DUPLICATE"));
        check_diff(&deployment);
    }
}
