//! The log of requests: their ids, and the slow ones.

use reqwest::Response;
use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_SCORES;
use tests::wait::until;

async fn submit(api: &Api, id: &str) -> Response {
    let scores = json!([{ "member": "mia-77", "score": 5 }]);
    let variables = json!({ "board": "b", "scores": scores, "ack": "DURABLE" });
    let request = reqwest::Client::new()
        .post(format!("{}/graphql", api.url()))
        .bearer_auth(api.token())
        .header("X-Request-Id", id)
        .json(&json!({ "query": SUBMIT_SCORES, "variables": variables }));
    request.send().await.unwrap()
}

#[tokio::test]
async fn a_slow_request_is_logged_under_its_id_without_what_it_names() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let settings = [("LAUREL_SLOW_REQUEST_MS", "1"), ("LAUREL_LOG_FORMAT", "json")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    api.create_board(json!({ "slug": "b" })).await;
    let answer = submit(&api, "edge/4f1c-1").await;
    assert_eq!(answer.headers()["x-request-id"], "edge/4f1c-1");
    let line: Value = until("the request is logged", async || {
        let log = api.log();
        let line = log.lines().find(|line| line.contains("edge/4f1c-1"))?;
        Some(serde_json::from_str(line).unwrap())
    })
    .await;
    assert_eq!(line["span"]["id"], "edge/4f1c-1", "{line}");
    let told = &line["fields"];
    assert_eq!((&told["message"], &told["kind"]), (&json!("a slow request"), &json!("mutation")));
    assert_eq!(told["fields"], "submitScores", "{line}");
    assert!(told["ms"].as_u64() >= Some(1) && told["points"].as_u64() >= Some(1), "{line}");
    // An id of other characters is passed over, and no line names a member.
    let answer = submit(&api, "a b").await;
    assert!(answer.status().is_success() && answer.headers().get("x-request-id").is_none());
    assert!(!api.log().contains("mia-77"), "{}", api.log());
}
