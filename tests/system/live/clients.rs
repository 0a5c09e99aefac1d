//! Clients that others have written: npm's graphql-ws and graphql-sse.

use serde_json::json;

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::node;

async fn api_with_board() -> Api {
    let api = Api::start(&Deployment::new(Sql::any(), Redis::Own).await).await;
    api.create_board(json!({ "slug": "b", "policy": "BEST" })).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    api
}

#[tokio::test]
async fn npm_s_graphql_ws_and_graphql_sse_subscribe() {
    let api = api_with_board().await;
    let seen = node::run("live.js", &["both", api.url(), api.url(), api.token(), "0"]).await;
    let scores = json!(["1", "2", "3"]);
    assert_eq!(seen["ws"], scores, "{seen}");
    assert_eq!(seen["sse"], scores, "{seen}");
    assert_eq!(seen["query"], json!(["READ", "SUBMIT", "FRIENDS", "MODERATE", "ADMIN"]), "{seen}");
    assert_eq!(seen["wrongToken"], 4403, "{seen}");
    assert_eq!(seen["refused"], "NOT_FOUND", "{seen}");
}

#[tokio::test]
async fn a_subscriber_of_a_process_that_is_killed_goes_on_at_another_one() {
    let api = api_with_board().await;
    let other = Api::start(api.deployment()).await;
    let pid = api.pid().to_string();
    let seen = node::run("live.js", &["killed", api.url(), other.url(), api.token(), &pid]).await;
    assert_eq!(seen["scores"], json!(["1", "2", "2", "3"]), "{seen}");
}
