//! Documents of sockets and event streams: the checks of queries hold for them.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};

/// Documents that are refused, each with the code of its error.
const REFUSED: &[(&str, &str)] = &[
    ("subscription {", "BAD_USER_INPUT"),
    ("subscription { none }", "BAD_USER_INPUT"),
    ("subscription { top(board: \"b\") }", "BAD_USER_INPUT"),
    ("subscription { top { nodes { rank } } }", "BAD_USER_INPUT"),
    ("subscription { top(board: \"b\", first: -1) { nodes { rank } } }", "BAD_USER_INPUT"),
    ("subscription { top(board: \"b\", first: 1001) { nodes { rank } } }", "LIMIT_EXCEEDED"),
    (
        "subscription { top(board: \"b\", of: { window: \"daily\" }) { nodes { rank } } }",
        "WINDOW_NOT_FOUND",
    ),
    ("subscription { top(board: \"absent\") { nodes { rank } } }", "NOT_FOUND"),
    ("subscription { entry(board: \"b\", member: \"\") { rank } }", "BAD_USER_INPUT"),
    ("subscription { __typename }", "BAD_USER_INPUT"),
    (
        "subscription { top(board: \"b\") { nodes { rank } } entry(board: \"b\", member: \"a\") { rank } }",
        "BAD_USER_INPUT",
    ),
    ("mutation { deleteBoard(slug: \"b\") { deletedBoardId } }", "BAD_USER_INPUT"),
    (
        "subscription { top(board: \"b\", first: 1000) { nodes { standings { top(first: 1000) { nodes { rank } } } } } }",
        "LIMIT_EXCEEDED",
    ),
    ("{ __schema { types { name } } }", "FORBIDDEN"),
];

async fn api() -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with_settings(&deployment, &[("LAUREL_INTROSPECTION", "off")]).await;
    api.create_board(json!({ "slug": "b" })).await;
    api
}

/// The events of an answer: their names and data.
fn events(text: &str) -> Vec<(String, Value)> {
    let events = text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
    let read = events.map(|event| {
        let (name, data) = event.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap().to_owned();
        let data = data.strip_prefix("data:").unwrap().trim();
        (name, if data.is_empty() { Value::Null } else { serde_json::from_str(data).unwrap() })
    });
    read.collect()
}

#[tokio::test]
async fn a_document_that_a_query_may_not_be_is_refused_on_sockets_and_streams() {
    let api = api().await;
    let mut socket = Subscriber::connect(&api, Some(api.token())).await;
    for (query, code) in REFUSED {
        socket.subscribe("1", query, json!({})).await;
        let refused = socket.next().await;
        assert_eq!((&refused["type"], &refused["id"]), (&json!("error"), &json!("1")), "{query}");
        assert_eq!(refused["payload"][0]["extensions"]["code"], *code, "{query}: {refused}");
        let answer = reqwest::Client::new()
            .post(format!("{}/graphql", api.url()))
            .header("accept", "text/event-stream")
            .bearer_auth(api.token())
            .json(&json!({ "query": query }))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200, "{query}");
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let events = events(&answer.text().await.unwrap());
        let errors = json!({ "errors": refused["payload"] });
        let expected = [("next".to_owned(), errors), ("complete".to_owned(), Value::Null)];
        assert_eq!(events, expected, "{query}");
    }
    assert_eq!(api.data("{ board(slug: \"b\") { slug } }", json!({})).await["board"]["slug"], "b");
}

#[tokio::test]
async fn a_subscription_that_asks_for_one_answer_is_refused() {
    let api = api().await;
    let query = "subscription { top(board: \"b\") { nodes { rank } } }";
    let answer = api.ask(None, query, json!({})).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
    assert!(answer.message().contains("text/event-stream"), "{}", answer.message());
}

#[tokio::test]
async fn an_event_stream_is_asked_for_by_get_too_and_forms_cannot_send_one() {
    let api = api().await;
    let client = reqwest::Client::new();
    let ask = |query: &str| {
        let address = format!("{}/graphql", api.url());
        let address = reqwest::Url::parse_with_params(&address, [("query", query)]).unwrap();
        client.get(address).header("accept", "text/event-stream")
    };
    let answer = ask("{ boards { nodes { slug } } }").send().await.unwrap();
    let text = answer.text().await.unwrap();
    assert_eq!(events(&text)[0].1["data"]["boards"]["nodes"][0]["slug"], "b");
    let wrong = ask("{ boards { totalCount } }").bearer_auth("wrong").send().await.unwrap();
    assert_eq!(wrong.status(), 401);
    let form = client
        .post(format!("{}/graphql", api.url()))
        .header("accept", "text/event-stream")
        .header("content-type", "text/plain")
        .body("{\"query\":\"{ boards { totalCount } }\"}");
    assert_eq!(form.send().await.unwrap().status(), 415);
}

#[tokio::test]
async fn events_come_where_they_are_preferred_to_json() {
    let api = api().await;
    let scores = "scores: [{ member: \"ann\", score: 1 }]";
    let mutation =
        format!("mutation {{ submitScores(input: {{ board: \"b\", {scores} }}) {{ accepted }} }}");
    // The first one is urql's.
    for (accept, comes) in [
        (
            "application/graphql-response+json, application/graphql+json, application/json, \
             text/event-stream, multipart/mixed",
            "application/graphql-response+json",
        ),
        ("text/event-stream, application/json", "application/json"),
        ("text/event-stream;q=0.5, application/json;q=0.9", "application/json"),
        ("text/event-stream, application/json;q=0.9", "text/event-stream"),
        ("text/event-stream, */*", "text/event-stream"),
        ("*/*", "application/json"),
    ] {
        let answer = reqwest::Client::new()
            .post(format!("{}/graphql", api.url()))
            .header("accept", accept)
            .bearer_auth(api.token())
            .json(&json!({ "query": mutation }))
            .send()
            .await
            .unwrap();
        let media_type = answer.headers()["content-type"].to_str().unwrap().to_owned();
        let text = answer.text().await.unwrap();
        assert!(media_type.starts_with(comes), "{accept}: {media_type}");
        assert_eq!(
            text.contains("\"accepted\":1"),
            comes != "text/event-stream",
            "{accept}: {text}"
        );
    }
}
