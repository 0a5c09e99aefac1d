//! The protocol graphql-transport-ws: its messages, and the codes by which a socket is closed.

use std::time::{Duration, Instant};

use serde_json::json;

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::signal;

const TOP: &str = "subscription { top(board: \"b\") { nodes { rank } } }";

async fn api_with(settings: &[(&str, &str)]) -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with_settings(&deployment, settings).await;
    api.create_board(json!({ "slug": "b" })).await;
    api
}

#[tokio::test]
async fn a_message_out_of_order_closes_the_socket_with_its_code() {
    let api = api_with(&[]).await;
    let init = r#"{"type":"connection_init"}"#;
    let subscribe = json!({ "type": "subscribe", "id": "1", "payload": { "query": TOP } });
    let subscribe = subscribe.to_string();
    let long = format!("{{\"type\":\"ping\",\"payload\":{{\"a\":\"{}\"}}}}", "x".repeat(65 << 10));
    for (messages, code) in [
        (&["no JSON"][..], 4400),
        (&[init, r#"{"type":"start","id":"1","payload":{"query":"{ a }"}}"#], 4400),
        (&[init, r#"{"type":"subscribe","id":"1"}"#], 4400),
        (&[&subscribe], 4401),
        (&[r#"{"type":"complete","id":"1"}"#], 4401),
        (&[init, init], 4429),
        (&[init, "ack", &subscribe, &subscribe], 4409),
        (&[init, &long], 1009),
    ] {
        let mut socket = Subscriber::open(&api, &[]).await.unwrap();
        for message in messages {
            match *message {
                "ack" => assert_eq!(socket.next().await["type"], "connection_ack"),
                message => socket.send_text(message).await,
            }
        }
        assert_eq!(socket.closed().await, code, "{messages:?}");
    }
    let metrics = metrics_of(&api).await;
    assert_eq!(metrics["laurel_sockets_closed_total{reason=\"message\"}"], 3.0);
    assert_eq!(metrics["laurel_sockets_closed_total{reason=\"early\"}"], 2.0);
}

#[tokio::test]
async fn a_ping_is_answered_and_an_id_is_free_again_after_its_operation() {
    let api = api_with(&[]).await;
    let mut socket = Subscriber::connect(&api, None).await;
    socket.send(json!({ "type": "ping" })).await;
    assert_eq!(socket.next().await, json!({ "type": "pong" }));
    for _ in 0..2 {
        socket.subscribe("1", "{ boards { nodes { slug } } }", json!({})).await;
        assert_eq!(socket.data("1").await["boards"]["nodes"][0]["slug"], "b");
        assert_eq!(socket.next().await, json!({ "type": "complete", "id": "1" }));
    }
}

#[tokio::test]
async fn an_id_is_free_as_soon_as_its_operation_was_ended_or_refused() {
    let api = api_with(&[]).await;
    let mut socket = Subscriber::connect(&api, None).await;
    let slug = async |socket: &mut Subscriber| {
        socket.data("1").await["boards"]["nodes"][0]["slug"].as_str() == Some("b")
    };
    for _ in 0..50 {
        socket.subscribe("1", "{ wrong }", json!({})).await;
        assert_eq!(socket.next().await["type"], "error");
        socket.subscribe("1", TOP, json!({})).await;
        assert!(socket.data("1").await["top"].is_object());
        socket.send(json!({ "type": "complete", "id": "1" })).await;
        // The second one takes the place of the first, which is ended before it has begun.
        socket.subscribe("1", TOP, json!({})).await;
        socket.send(json!({ "type": "complete", "id": "1" })).await;
        socket.subscribe("1", "{ boards { nodes { slug } } }", json!({})).await;
        assert!(slug(&mut socket).await, "an answer of an operation that was ended");
        assert_eq!(socket.next().await, json!({ "type": "complete", "id": "1" }));
    }
    socket.subscribe("1", TOP, json!({})).await;
    socket.subscribe("1", TOP, json!({})).await;
    assert_eq!(socket.closed().await, 4409);
}

#[tokio::test]
async fn a_socket_has_its_times() {
    let api = api_with(&[
        ("LAUREL_SOCKET_INIT_TIMEOUT_MS", "100"),
        ("LAUREL_SOCKET_PING_MS", "300"),
        ("LAUREL_SOCKET_LIFETIME_SECONDS", "3"),
    ])
    .await;
    let mut late = Subscriber::open(&api, &[]).await.unwrap();
    assert_eq!(late.closed().await, 4408);
    let began = Instant::now();
    let mut living = Subscriber::connect(&api, None).await;
    let mut silent = Subscriber::connect(&api, None).await;
    // The one answers pings while it waits; the other reads nothing, and learns why it is closed.
    assert_eq!(living.next_within(Duration::from_millis(1200)).await, None);
    assert_eq!(silent.closed().await, 4408);
    assert_eq!(living.closed().await, 1001);
    assert!(began.elapsed() >= Duration::from_secs(3));
    let metrics = metrics_of(&api).await;
    for reason in ["init_timeout", "silent", "lifetime"] {
        let name = format!("laurel_sockets_closed_total{{reason=\"{reason}\"}}");
        assert_eq!(metrics[&name], 1.0, "{reason}");
    }
}

#[tokio::test]
async fn a_server_that_stops_closes_its_sockets_in_time() {
    let api = api_with(&[]).await;
    let mut sockets = vec![];
    for _ in 0..5 {
        let mut socket = Subscriber::connect(&api, None).await;
        socket.subscribe("1", TOP, json!({})).await;
        socket.data("1").await;
        sockets.push(socket);
    }
    let events = reqwest::Client::new()
        .post(format!("{}/graphql", api.url()))
        .header("accept", "text/event-stream")
        .json(&json!({ "query": TOP }))
        .send()
        .await
        .unwrap();
    // One that does not even answer the close.
    let _deaf = Subscriber::connect(&api, None).await;
    let began = Instant::now();
    signal("TERM", api.pid());
    for socket in &mut sockets {
        assert_eq!(socket.closed().await, 1001);
    }
    assert!(events.text().await.unwrap().starts_with("event: next\n"));
    assert!(api.wait_until_stopped().await.success());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
