//! The limits of sockets: their number, their operations, and readers that are too slow.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::submission::submit;
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const COSTLY: &str = "{ boards(first: 1000) { nodes { slug title } } }";
const TOP: &str = "subscription { top(board: \"b\") { nodes { rank } } }";

async fn api_with(settings: &[(&str, &str)]) -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with_settings(&deployment, settings).await;
    api.create_board(json!({ "slug": "b", "policy": "LATEST" })).await;
    api
}

/// The status by which a socket is refused; 101 if it is not.
async fn status(api: &Api, headers: &[(&'static str, &str)]) -> u16 {
    match Subscriber::open(api, headers).await {
        Ok(_) => 101,
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn an_address_has_so_many_sockets_and_all_have_so_many() {
    let api = api_with(&[("LAUREL_SOCKETS_MAX", "3"), ("LAUREL_ADDRESS_SOCKETS_MAX", "2")]).await;
    let first = Subscriber::connect(&api, None).await;
    let _second = Subscriber::connect(&api, None).await;
    assert_eq!(status(&api, &[]).await, 429);
    let events = reqwest::Client::new()
        .post(format!("{}/graphql", api.url()))
        .header("accept", "text/event-stream")
        .json(&json!({ "query": TOP }));
    assert_eq!(events.send().await.unwrap().status(), 429);
    let _third = Subscriber::connect_to(api.url(), None, 2).await;
    drop(first);
    until("a place is free", async || {
        (metrics_of(&api).await["laurel_sockets{transport=\"websocket\"}"] == 2.0).then_some(())
    })
    .await;
    let _fourth = Subscriber::connect_to(api.url(), None, 3).await;
    assert_eq!(status(&api, &[]).await, 503);
    let metrics = metrics_of(&api).await;
    assert_eq!(metrics["laurel_sockets_refused_total{reason=\"address\"}"], 2.0);
    assert_eq!(metrics["laurel_sockets_refused_total{reason=\"all\"}"], 1.0);
    // Requests go on: sockets count apart.
    assert_eq!(api.data("{ boards { totalCount } }", json!({})).await["boards"]["totalCount"], 1);
}

#[tokio::test]
async fn event_streams_leave_half_of_the_connections_to_requests() {
    let api = api_with(&[("LAUREL_ADDRESS_CONNECTIONS_MAX", "8")]).await;
    let client = reqwest::Client::new();
    let open = async || {
        let events = client.post(format!("{}/graphql", api.url()));
        let events = events.header("accept", "text/event-stream");
        events.json(&json!({ "query": TOP })).send().await.unwrap()
    };
    let mut streams = vec![];
    for _ in 0..4 {
        streams.push(open().await);
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    assert_eq!(open().await.status(), 429);
    assert_eq!(api.data("{ boards { totalCount } }", json!({})).await["boards"]["totalCount"], 1);
    drop(streams);
    until("a place is free", async || (open().await.status() == 200).then_some(())).await;
}

#[tokio::test]
async fn a_socket_has_so_many_operations_under_way() {
    let api = api_with(&[("LAUREL_SOCKET_SUBSCRIPTIONS_MAX", "2")]).await;
    let mut socket = Subscriber::connect(&api, None).await;
    for id in ["1", "2"] {
        socket.subscribe(id, TOP, json!({})).await;
        socket.data(id).await;
    }
    socket.subscribe("3", TOP, json!({})).await;
    let refused = socket.next().await;
    assert_eq!((&refused["type"], &refused["id"]), (&json!("error"), &json!("3")));
    assert_eq!(refused["payload"][0]["extensions"]["code"], "LIMIT_EXCEEDED");
    socket.send(json!({ "type": "complete", "id": "1" })).await;
    socket.subscribe("3", TOP, json!({})).await;
    socket.data("3").await;
}

#[tokio::test]
async fn a_page_of_another_origin_opens_no_socket() {
    let api = api_with(&[("LAUREL_CORS_ORIGINS", "https://game.example")]).await;
    let own = api.url().to_owned();
    for (origin, expected) in [
        ("https://game.example", 101),
        (own.as_str(), 101),
        ("https://evil.example", 403),
        ("http://game.example", 403),
        ("null", 403),
    ] {
        assert_eq!(status(&api, &[("origin", origin)]).await, expected, "{origin}");
    }
    assert_eq!(metrics_of(&api).await["laurel_sockets_refused_total{reason=\"origin\"}"], 3.0);
    let older = [("sec-websocket-protocol", "graphql-ws")];
    assert_eq!(status(&api, &older).await, 400);
    let both = [("sec-websocket-protocol", "graphql-ws, graphql-transport-ws")];
    assert_eq!(status(&api, &both).await, 101);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_closed_and_others_go_on() {
    let api = api_with(&[("LAUREL_WRITE_TIMEOUT_MS", "300")]).await;
    let entries: Vec<Value> = (0..1000)
        .map(|n| json!({ "member": format!("{n}{}", "m".repeat(100)), "score": n }))
        .collect();
    submit(&api, "b", json!(entries)).await;
    let long =
        "subscription { top(board: \"b\", first: 1000) { nodes { rank score member { key } } } }";
    let mut slow = Subscriber::connect_with_small_buffer(&api).await;
    slow.subscribe("1", long, json!({})).await;
    let mut other = Subscriber::connect(&api, None).await;
    other
        .subscribe(
            "1",
            "subscription { top(board: \"b\", first: 1) { nodes { score } } }",
            json!({}),
        )
        .await;
    other.data("1").await;
    let mut score = 1000;
    until("the slow reader is closed", async || {
        score += 1;
        submit(&api, "b", json!([{ "member": "ann", "score": score }])).await;
        assert!(other.next_within(Duration::from_secs(10)).await.is_some());
        let closed = metrics_of(&api).await["laurel_sockets_closed_total{reason=\"slow\"}"];
        (closed == 1.0).then_some(())
    })
    .await;
    println!("closed after {} pushes", score - 1000);
    assert_eq!(slow.closed().await, 4413);
    submit(&api, "b", json!([{ "member": "ann", "score": 5000 }])).await;
    assert_eq!(other.data("1").await["top"]["nodes"][0]["score"], "5000");
}

#[tokio::test]
async fn a_client_beyond_its_rate_gets_fewer_pushes_and_the_last_one() {
    let settings =
        [("LAUREL_COST_MAX", "10000"), ("LAUREL_READ_RATE", "200"), ("LAUREL_READ_BURST", "10000")];
    let api = api_with(&settings).await;
    let token = api.deployment().new_token(&["--scope", "read"]).await;
    let mut socket = Subscriber::connect(&api, Some(&token)).await;
    let query = "subscription { top(board: \"b\") { nodes { score } } }";
    socket.subscribe("1", query, json!({})).await;
    socket.data("1").await;
    let costly = "{ boards(first: 100) { nodes { windows { name } } } }";
    while !api.ask(Some(&token), costly, json!({})).await.codes().contains(&"RATE_LIMITED") {}
    let (began, mut score) = (Instant::now(), 0);
    while score < 30 {
        score += 1;
        // Others have points of their own, and spend them, too.
        tokio::time::sleep(Duration::from_millis(100)).await;
        submit(&api, "b", json!([{ "member": "ann", "score": score }])).await;
    }
    let (mut pushes, last) = (1, json!(score.to_string()));
    while socket.data("1").await["top"]["nodes"][0]["score"] != last {
        pushes += 1;
    }
    // A push takes some 200 points with its part of the execution: a few come in a second.
    let at_most = 3 + 3 * began.elapsed().as_secs();
    println!("{score} submissions, {pushes} pushes in {:?}", began.elapsed());
    assert!(pushes <= at_most, "{pushes} pushes: expected at most {at_most}");
    // The server executes nothing that no client pays for.
    let executions = metrics_of(&api).await["laurel_live_executions_total"];
    assert!(executions <= (pushes + 3) as f64, "{executions} executions, {pushes} pushes");
    socket.subscribe("2", query, json!({})).await;
    while !api.ask(Some(&token), costly, json!({})).await.codes().contains(&"RATE_LIMITED") {}
    socket.subscribe("3", query, json!({})).await;
    let refused = loop {
        let message = socket.next().await;
        if message["id"] == "3" {
            break message;
        }
    };
    assert_eq!(refused["payload"][0]["extensions"]["code"], "RATE_LIMITED", "{refused}");
}

#[tokio::test]
async fn executions_that_bring_nothing_new_are_paid_for_too() {
    let settings =
        [("LAUREL_COST_MAX", "10000"), ("LAUREL_READ_RATE", "100"), ("LAUREL_READ_BURST", "10000")];
    let api = api_with(&settings).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 0 }])).await;
    let token = api.deployment().new_token(&["--scope", "read"]).await;
    let mut socket = Subscriber::connect(&api, Some(&token)).await;
    let same: String = (10..99).map(|of| format!("a{of}: rankOf(score: \"9000{of}\") ")).collect();
    let top = format!("top(board: \"b\", first: 1) {{ nodes {{ standings {{ {same} }} }} }}");
    let query = format!("subscription {{ {top} }}");
    socket.subscribe("1", &query, json!({})).await;
    socket.data("1").await;
    let executions = async || metrics_of(&api).await["laurel_live_executions_total"];
    let mut score = 0;
    let mut submit_once = async || {
        score += 1;
        submit(&api, "b", json!([{ "member": "ann", "score": score }])).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
    };
    let before = executions().await;
    until("the client cannot pay", async || {
        let known = executions().await;
        for _ in 0..5 {
            submit_once().await;
        }
        (executions().await == known).then_some(())
    })
    .await;
    let paid = executions().await - before;
    println!("{paid} executions were paid for");
    assert_eq!(socket.next_within(Duration::from_millis(10)).await, None, "nothing was new");
}

#[tokio::test]
async fn reads_of_what_clients_follow_are_paid_for() {
    let settings =
        [("LAUREL_COST_MAX", "10000"), ("LAUREL_READ_RATE", "100"), ("LAUREL_READ_BURST", "10000")];
    let api = api_with(&settings).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1000 }])).await;
    let token = api.deployment().new_token(&["--scope", "read"]).await;
    let mut socket = Subscriber::connect(&api, Some(&token)).await;
    // Each of them is another subscription to one page.
    for no in 0..20 {
        let query = format!(
            "subscription {{ top(board: \"b\", first: 1) {{ nodes {{ a{no}: score }} }} }}"
        );
        socket.subscribe(&no.to_string(), &query, json!({})).await;
        socket.data(&no.to_string()).await;
    }
    let reads = async || metrics_of(&api).await["laurel_live_reads_total"];
    let mut score = 0;
    until("nothing is read for a client that cannot pay", async || {
        let known = reads().await;
        for _ in 0..5 {
            score = (score + 1) % 900;
            submit(&api, "b", json!([{ "member": "bob", "score": score }])).await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        (reads().await == known).then_some(())
    })
    .await;
    println!("{} reads were paid for", reads().await);
    assert!(api.ask(Some(&token), COSTLY, json!({})).await.codes().contains(&"RATE_LIMITED"));
}

#[tokio::test]
async fn a_client_that_reads_nothing_keeps_no_queries_waiting() {
    // Room for two light requests.
    let settings = [("LAUREL_COST_UNDER_WAY_MAX", "20000"), ("LAUREL_QUERY_TIMEOUT_MS", "5000")];
    let api = api_with(&settings).await;
    let entries: Vec<Value> =
        (0..1000).map(|n| json!({ "member": format!("{n:0>128}"), "score": n })).collect();
    submit(&api, "b", json!(entries)).await;
    let mut socket = Subscriber::connect_with_small_buffer(&api).await;
    // In all more than the buffers of a connection.
    for number in 0..400 {
        let page = format!("top(first: 500, offset: {number}) {{ nodes {{ member {{ key }} }} }}");
        let query = format!("{{ board(slug: \"b\") {{ standings {{ {page} }} }} }}");
        socket.subscribe(&number.to_string(), &query, json!({})).await;
        if number % 20 == 19 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let size = "{ board(slug: \"b\") { standings { size } } }";
    for _ in 0..20 {
        let asked = api.ask(None, size, json!({})).await;
        assert_eq!(asked.body["data"]["board"]["standings"]["size"], 1000, "{:?}", asked.body);
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_ends_its_subscription() {
    let api = api_with(&[("LAUREL_PUSH_BYTES_MAX", "1024")]).await;
    let mut socket = Subscriber::connect(&api, None).await;
    socket.subscribe("1", "subscription { top(board: \"b\", first: 100) { nodes { rank score member { key } } } }", json!({})).await;
    socket.data("1").await;
    let entries: Vec<Value> =
        (0..100).map(|n| json!({ "member": format!("member {n}"), "score": n })).collect();
    submit(&api, "b", json!(entries)).await;
    let end = socket.next().await;
    assert_eq!(end["type"], "error", "{end}");
    assert_eq!(end["payload"][0]["extensions"]["code"], "LIMIT_EXCEEDED");
}

#[tokio::test]
async fn an_answer_of_a_subscription_costs_so_much_at_most() {
    let api = api_with(&[("LAUREL_PUSH_COST_MAX", "1000")]).await;
    let mut subscriber = Subscriber::connect(&api, None).await;
    let ask = |fields: &str| {
        format!("subscription {{ top(board: \"b\", first: 100) {{ nodes {{ {fields} }} }} }}")
    };
    subscriber.subscribe("one", &ask("rank"), json!({})).await;
    let answer = subscriber.next().await;
    assert_eq!(answer["type"], "next", "{answer}");
    // Its text costs too much, or what it turns out to cost.
    let wide: String = (0..20).map(|number| format!("a{number}: rank ")).collect();
    let deep = "standings { size } member { entry(board: \"b\") { rank } }";
    for (id, fields) in [("wide", wide.as_str()), ("deep", deep)] {
        subscriber.subscribe(id, &ask(fields), json!({})).await;
        let refused = subscriber.next().await;
        assert_eq!((&refused["id"], &refused["type"]), (&json!(id), &json!("error")), "{refused}");
        assert_eq!(refused["payload"][0]["extensions"]["code"], "LIMIT_EXCEEDED", "{refused}");
    }
}
