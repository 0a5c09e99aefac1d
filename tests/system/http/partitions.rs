//! The partitions, as an administrator sees them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const PARTITIONS: &str = "
    query($unwell: Boolean!, $first: Int, $after: String) {
        partitions(unwell: $unwell, first: $first, after: $after) {
            nodes { number state commitsBehind secondsBehind stuckBy error }
            pageInfo { hasNextPage endCursor }
        }
    }";

async fn page(api: &Api, unwell: bool, first: usize, after: Value) -> Value {
    let variables = json!({ "unwell": unwell, "first": first, "after": after });
    api.data(PARTITIONS, variables).await["partitions"].take()
}

#[tokio::test]
async fn each_partition_tells_its_state_and_how_far_sql_is_behind() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    api.stop().await;
    // SQL gets nothing.
    let api = Api::start_with(&deployment, &["--no-workers"]).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    let behind = until("a partition is behind", async || {
        let nodes = page(&api, false, 1000, Value::Null).await["nodes"].take();
        let behind = |node: &&Value| node["commitsBehind"] == 1;
        nodes.as_array().unwrap().iter().find(behind).cloned()
    })
    .await;
    assert_eq!((&behind["state"], &behind["error"]), (&json!("LEVEL"), &Value::Null), "{behind}");
    let stuck = until("it is stuck", async || {
        let nodes = page(&api, true, 10, Value::Null).await["nodes"].take();
        nodes.as_array().unwrap().first().cloned()
    })
    .await;
    assert_eq!(stuck["number"], behind["number"]);
    assert_eq!(stuck["stuckBy"], "PERSISTER");
    assert!(stuck["secondsBehind"].as_f64().unwrap() >= 10.0, "{stuck}");
    let (mut numbers, mut after) = (BTreeSet::new(), Value::Null);
    loop {
        let page = page(&api, false, 5, after).await;
        for node in page["nodes"].as_array().unwrap() {
            assert!(numbers.insert(node["number"].as_u64().unwrap()), "{page}");
        }
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        after = page["pageInfo"]["endCursor"].clone();
    }
    assert_eq!(numbers, (0..16).collect());
}
