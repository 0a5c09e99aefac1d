//! Tokens of sockets and event streams: where they come from, what they show, and their end.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};

const SECRET: &str = "subscription { top(board: \"secret\") { nodes { score } } }";

const VIEWER: &str = "{ viewer { scopes } }";

async fn api_with(settings: &[(&str, &str)]) -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with_settings(&deployment, settings).await;
    api.create_board(json!({ "slug": "secret", "visibility": "PRIVATE" })).await;
    submit(&api, "secret", json!([{ "member": "ann", "score": 7 }])).await;
    api
}

/// The first message of an operation on a socket that sends this in `connection_init`.
async fn asked(api: &Api, header: Option<&str>, payload: Value, query: &str) -> Value {
    let header = header.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = header.iter().map(|value| ("authorization", value.as_str())).collect();
    let mut socket = Subscriber::open(api, &headers).await.unwrap();
    socket.send(json!({ "type": "connection_init", "payload": payload })).await;
    assert_eq!(socket.next().await["type"], "connection_ack");
    socket.subscribe("1", query, json!({})).await;
    socket.next().await["payload"].take()
}

#[tokio::test]
async fn a_token_comes_in_connection_init_or_in_the_header_of_the_upgrade() {
    let api = api_with(&[]).await;
    let token = api.deployment().new_token(&["--scope", "read"]).await;
    let viewer = json!({ "data": { "viewer": { "scopes": ["READ"] } } });
    for payload in
        [json!({ "token": token }), json!({ "Authorization": format!("Bearer {token}") })]
    {
        assert_eq!(asked(&api, None, payload, VIEWER).await, viewer);
    }
    assert_eq!(asked(&api, Some(&token), json!({}), VIEWER).await, viewer);
    let admin = json!({ "token": api.token() });
    let scopes = asked(&api, Some(&token), admin, VIEWER).await["data"]["viewer"]["scopes"].take();
    assert_eq!(scopes, json!(["READ", "SUBMIT", "FRIENDS", "MODERATE", "ADMIN"]));
    let none = asked(&api, None, json!({}), VIEWER).await;
    assert_eq!(none, json!({ "data": { "viewer": null } }));
}

#[tokio::test]
async fn a_wrong_token_closes_the_socket_and_a_missing_one_where_reads_need_it() {
    let api = api_with(&[]).await;
    for payload in
        [json!({ "token": "wrong" }), json!({ "token": 1 }), json!({ "Authorization": "x" })]
    {
        let mut socket = Subscriber::open(&api, &[]).await.unwrap();
        socket.send(json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(socket.closed().await, 4403, "{payload}");
    }
    assert!(Subscriber::open(&api, &[("authorization", "Bearer wrong")]).await.is_err());
    let closed = api_with(&[("LAUREL_PUBLIC_READS", "false")]).await;
    let mut socket = Subscriber::open(&closed, &[]).await.unwrap();
    socket.send(json!({ "type": "connection_init" })).await;
    assert_eq!(socket.closed().await, 4403);
    let seen = asked(&closed, None, json!({ "token": closed.token() }), SECRET).await;
    assert_eq!(seen["data"]["top"]["nodes"][0]["score"], "7");
}

#[tokio::test]
async fn a_private_board_is_pushed_to_its_tokens_only() {
    let api = api_with(&[]).await;
    let token = api.deployment().new_token(&["--scope", "read", "--boards", "secret"]).await;
    let mut member = Subscriber::connect(&api, Some(&token)).await;
    member.subscribe("1", SECRET, json!({})).await;
    assert_eq!(member.data("1").await["top"]["nodes"][0]["score"], "7");
    // The same document without a token shares nothing with it.
    let other = api.deployment().new_token(&["--scope", "read"]).await;
    let mut other = Subscriber::connect(&api, Some(&other)).await;
    other.subscribe("1", SECRET, json!({})).await;
    assert_eq!(other.next().await["type"], "error");
    let mut anyone = Subscriber::connect(&api, None).await;
    for (id, query) in [("1", SECRET.to_owned()), ("2", SECRET.replace("secret", "absent"))] {
        anyone.subscribe(id, &query, json!({})).await;
        let refused = anyone.next().await;
        assert_eq!(refused["type"], "error", "{refused}");
        let text = refused["payload"].to_string().replace("absent", "secret");
        assert!(text.contains("NOT_FOUND") && text.contains("no board"), "{text}");
    }
    submit(&api, "secret", json!([{ "member": "bob", "score": 9 }])).await;
    assert_eq!(member.data("1").await["top"]["nodes"][0]["score"], "9");
    assert_eq!(anyone.next_within(std::time::Duration::from_millis(500)).await, None);
}

#[tokio::test]
async fn a_token_that_expires_closes_its_socket_and_ends_its_stream() {
    let api = api_with(&[]).await;
    let token = api.deployment().new_token(&["--scope", "admin", "--expires", "3s"]).await;
    let mut socket = Subscriber::connect(&api, Some(&token)).await;
    socket.subscribe("1", SECRET, json!({})).await;
    socket.data("1").await;
    let events = reqwest::Client::new()
        .post(format!("{}/graphql", api.url()))
        .header("accept", "text/event-stream")
        .bearer_auth(&token)
        .json(&json!({ "query": SECRET }))
        .send()
        .await
        .unwrap();
    assert_eq!(socket.closed().await, 4403);
    let text = events.text().await.unwrap();
    assert!(text.contains("\"score\":\"7\"") && text.contains("UNAUTHENTICATED"), "{text}");
    assert!(text.ends_with("event: complete\ndata:\n\n"), "{text}");
}
