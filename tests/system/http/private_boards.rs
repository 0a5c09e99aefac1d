//! Private boards: a client without a token is answered as if they did not exist.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};

/// Reads of a board, whose slug is put in the place of `#`.
const READS: [&str; 7] = [
    "{ board(slug: \"#\") { title standings { size } } }",
    "{ node(id: \"board:#.1\") { id } }",
    "{ node(id: \"standings:#.1:all:all:\") { id } }",
    "{ node(id: \"entry:#.1:all:all::ann\") { id } }",
    "{ member(key: \"ann\") { entry(board: \"#\") { score } } }",
    "{ member(key: \"ann\") { entries(boards: [\"#\"]) { score } } }",
    "{ member(key: \"ann\") { events(board: \"#\") { totalCount nodes { id } } } }",
];

/// The answer to a read of a board, without the slug.
async fn read(api: &Api, token: Option<&str>, text: &str, slug: &str) -> String {
    let answer = api.ask(token, &text.replace('#', slug), json!({})).await;
    format!("{} {}", answer.status, answer.body).replace(slug, "#")
}

#[tokio::test]
async fn no_read_tells_a_private_board_from_none() {
    let api = Api::start(&Deployment::new(Sql::any(), Redis::Private).await).await;
    api.create_board(json!({ "slug": "secret", "visibility": "PRIVATE" })).await;
    submit_durably(&api, "secret", json!([{ "member": "ann", "score": 7 }])).await;
    for text in READS {
        let seen = read(&api, Some(api.token()), text, "secret").await;
        assert_ne!(seen, read(&api, Some(api.token()), text, "absent").await, "{text}");
        let seen = read(&api, None, text, "secret").await;
        assert_eq!(seen, read(&api, None, text, "absent").await, "{text}");
    }
    let text = "{ member(key: \"ann\") { events(board: \"secret\") { nodes { id } } } }";
    let event = api.data(text, json!({})).await["member"]["events"]["nodes"][0]["id"].take();
    let text = "query($id: ID!) { node(id: $id) { id } }";
    assert_eq!(api.data(text, json!({ "id": event })).await["node"]["id"], event);
    let hidden = api.ask(None, text, json!({ "id": event })).await;
    assert_eq!(hidden.body["data"]["node"], Value::Null);
    let listed = api.ask(None, "{ boards { totalCount nodes { slug } } }", json!({})).await;
    assert_eq!(listed.body["data"]["boards"], json!({ "totalCount": 0, "nodes": [] }));
}
