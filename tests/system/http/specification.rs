//! GraphQL over HTTP, by its specification: the working group's audit, and what it leaves out.

use reqwest::header::{ACCEPT, ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::node;

const GRAPHQL: &str = "application/graphql-response+json; charset=utf-8";

const JSON: &str = "application/json; charset=utf-8";

async fn api() -> Api {
    Api::start(&Deployment::new(Sql::any(), Redis::Private).await).await
}

fn post(api: &Api, body: &Value) -> RequestBuilder {
    let request = Client::new().post(format!("{}/graphql", api.url()));
    request.json(body)
}

#[tokio::test]
async fn every_audit_of_the_specification_passes() {
    let api = api().await;
    let audits = node::run("audit.js", &[&format!("{}/graphql", api.url())]).await;
    let audits = audits.as_array().unwrap();
    assert_eq!(audits.len(), 61, "as many as this version of graphql-http has");
    let failed: Vec<_> = audits.iter().filter(|audit| audit["status"] != "ok").collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[tokio::test]
async fn the_client_chooses_the_media_type() {
    let api = api().await;
    let valid = json!({ "query": "{ __typename }" });
    for (accept, media_type) in [
        (GRAPHQL, Some(GRAPHQL)),
        ("application/graphql-response+json, application/json;q=0.9", Some(GRAPHQL)),
        ("application/json, application/graphql-response+json", Some(GRAPHQL)),
        ("application/json, application/graphql-response+json;q=0.9", Some(JSON)),
        ("application/json", Some(JSON)),
        ("APPLICATION/JSON", Some(JSON)),
        ("*/*", Some(JSON)),
        ("application/*;q=0.1", Some(JSON)),
        ("text/html, */*;q=0.8", Some(JSON)),
        ("application/json;q=0.1, */*", Some(GRAPHQL)),
        ("application/json;q=0, application/*", Some(GRAPHQL)),
        ("application/graphql-response+json;q=0, */*", Some(JSON)),
        ("text/html", None),
        ("application/json;q=0", None),
        ("image/*, text/*;q=0.5", None),
    ] {
        let answer = post(&api, &valid).header(ACCEPT, accept).send().await.unwrap();
        let (status, expected) = match media_type {
            Some(media_type) => (StatusCode::OK, media_type),
            None => (StatusCode::NOT_ACCEPTABLE, JSON),
        };
        assert_eq!(answer.status(), status, "{accept}");
        assert_eq!(answer.headers()[CONTENT_TYPE], expected, "{accept}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_executed_has_no_data_and_the_status_of_its_media_type() {
    let api = api().await;
    let nested = format!("{{ boards {}", "{ nodes ".repeat(60)) + &"}".repeat(61);
    for request in [
        json!({ "query": "{" }),
        json!({ "query": "{ unknown }" }),
        json!({ "query": "query($id: ID!) { node(id: $id) { id } }" }),
        json!({ "query": "query($id: ID!) { node(id: $id) { id } }", "variables": { "id": [] } }),
        json!({ "query": "query($n: Int! = 1) { boards(first: $n) { totalCount } }", "variables": { "n": null } }),
        json!({ "query": "query A { __typename } query B { __typename }" }),
        json!({ "query": "query A { __typename }", "operationName": "B" }),
        json!({ "query": nested }),
    ] {
        for (accept, status) in [(GRAPHQL, StatusCode::BAD_REQUEST), (JSON, StatusCode::OK)] {
            let answer = post(&api, &request).header(ACCEPT, accept).send().await.unwrap();
            assert_eq!(answer.status(), status, "{request} as {accept}");
            let body: Value = answer.json().await.unwrap();
            assert!(body["errors"].is_array() && body.get("data").is_none(), "{body}");
        }
    }
    // An error in a field is not an error of the request.
    let field =
        json!({ "query": "mutation { createBoard(input: { slug: \"x\" }) { board { id } } }" });
    for accept in [GRAPHQL, JSON] {
        let answer = post(&api, &field).header(ACCEPT, accept).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["data"], json!({ "createBoard": null }), "{body}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused_in_either_media_type() {
    let api = api().await;
    for (body, says) in [
        ("", "not JSON"),
        ("{ \"query\"", "not JSON"),
        ("[{ \"query\": \"{ __typename }\" }]", "object"),
        ("{}", "query"),
        ("{ \"query\": [\"{ __typename }\"] }", "query"),
        ("{ \"query\": \"{ __typename }\", \"operationName\": 1 }", "operationName"),
        ("{ \"query\": \"{ __typename }\", \"variables\": \"{}\" }", "variables"),
        ("{ \"query\": \"{ __typename }\", \"extensions\": [] }", "extensions"),
    ] {
        for accept in [GRAPHQL, JSON] {
            let request = Client::new()
                .post(format!("{}/graphql", api.url()))
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, accept)
                .body(body);
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{body}");
            assert_eq!(answer.headers()[CONTENT_TYPE], accept);
            let answer: Value = answer.json().await.unwrap();
            let message = answer["errors"][0]["message"].as_str().unwrap();
            assert!(message.contains(says), "{body}: {message}");
        }
    }
    let body = "{ \"query\": \"{ __typename }\" }";
    for (content_type, status) in [
        ("application/json;charset=UTF-8", StatusCode::OK),
        ("application/json; charset=\"utf-8\"", StatusCode::OK),
        ("application/json; charset=utf-16", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("application/jsonp", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("multipart/form-data; boundary=x", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        let request = Client::new()
            .post(format!("{}/graphql", api.url()))
            .header(CONTENT_TYPE, content_type)
            .body(body);
        assert_eq!(request.send().await.unwrap().status(), status, "{content_type}");
    }
    let nameless = Client::new().post(format!("{}/graphql", api.url())).body(body);
    let status = nameless.send().await.unwrap().status();
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let put = Client::new().put(format!("{}/graphql", api.url())).body(body);
    let answer = put.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(answer.headers().contains_key(ALLOW));
}

#[tokio::test]
async fn an_address_carries_the_same_parameters() {
    let api = api().await;
    let named = "query=query%20A(%24n:String!)%7B__type(name:%24n)%7Bname%7D%7D%20mutation%20B%7B__typename%7D";
    for (parameters, status) in [
        ("query=%7B__typename%7D", StatusCode::OK),
        ("query=%7B__typename%7D&operationName=&variables=&extensions=", StatusCode::OK),
        ("query=%7B__typename%7D&variables=null&extensions=null", StatusCode::OK),
        ("query=%7B__typename%7D&extensions=%7B%22a%22:1%7D&more=1", StatusCode::OK),
        (&format!("{named}&operationName=A&variables=%7B%22n%22:%22ID%22%7D"), StatusCode::OK),
        (&format!("{named}&operationName=B"), StatusCode::METHOD_NOT_ALLOWED),
        ("query=", StatusCode::BAD_REQUEST),
        ("query=%7B__typename%7D&variables=%5B%5D", StatusCode::BAD_REQUEST),
        ("query=%7B__typename%7D&variables=%7B", StatusCode::BAD_REQUEST),
        ("query=%7B__typename%7D&extensions=1", StatusCode::BAD_REQUEST),
        ("query=%7B__typename%7D&query=%7B__typename%7D", StatusCode::BAD_REQUEST),
    ] {
        let url = format!("{}/graphql?{parameters}", api.url());
        let request = Client::new().get(url).header(ACCEPT, GRAPHQL);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{parameters}");
        assert_eq!(answer.headers()[CONTENT_TYPE], GRAPHQL);
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body.get("errors").is_none(), status == StatusCode::OK, "{body}");
    }
}

#[tokio::test]
async fn a_token_that_is_none_is_answered_as_http_has_it() {
    let api = api().await;
    let request = post(&api, &json!({ "query": "{ __typename }" })).bearer_auth("none");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(answer.headers()[WWW_AUTHENTICATE], "Bearer");
}

#[tokio::test]
async fn a_stranger_learns_in_words_where_to_go_and_where_a_query_breaks_off() {
    let api = api().await;
    let nowhere = reqwest::get(format!("{}/nowhere", api.url())).await.unwrap();
    assert_eq!(nowhere.status(), StatusCode::NOT_FOUND);
    assert!(nowhere.text().await.unwrap().contains("GraphQL is at /graphql"));
    for query in ["{ __typename } }", "{ __typename", "mutation {"] {
        let answer = api.ask(None, query, json!({})).await;
        let message = answer.message();
        assert!(message.starts_with("invalid query: expected "), "{message}");
        assert!(!message.contains('_') && !message.contains("EOI"), "{message}");
    }
}
