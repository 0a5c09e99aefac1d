//! Refused reads and requests: those that are invalid, cost too much, or are not GraphQL over HTTP.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use tests::api::refusal::check;
use tests::attack::request::Attack;
use tests::boards::race::race;

#[tokio::test]
async fn a_read_that_means_nothing_is_refused() {
    let (_deployment, api) = race().await;
    let top = async |arguments: &str, code: &str, says: &str| {
        let text = format!(
            "{{ board(slug: \"race\") {{ standings {{ top({arguments}) {{ nodes {{ rank }} }} }} }} }}"
        );
        check(&api, &text, json!({}), code, says).await;
    };
    top("first: 1001", "LIMIT_EXCEEDED", "1000").await;
    top("first: 2000000000", "LIMIT_EXCEEDED", "1000").await;
    top("first: -1", "BAD_USER_INPUT", "0 to 1000").await;
    top("first: 1, last: 1", "BAD_USER_INPUT", "not both").await;
    top("last: 1, offset: 1", "BAD_USER_INPUT", "offset").await;
    top("offset: -1", "BAD_USER_INPUT", "0 or more").await;
    top("after: \"x\"", "BAD_USER_INPUT", "page cursor").await;
    let standings = async |of: &str, code: &str, says: &str| {
        let text =
            format!("{{ board(slug: \"race\") {{ standings(of: {{ {of} }}) {{ size }} }} }}");
        check(&api, &text, json!({}), code, says).await;
    };
    standings("window: \"hourly\"", "WINDOW_NOT_FOUND", "all, daily").await;
    standings("window: \"fortnightly\"", "WINDOW_NOT_FOUND", "all, daily").await;
    standings("window: \"daily\", period: \"2025-13-01\"", "BAD_USER_INPUT", "such as").await;
    standings(
        "window: \"daily\", period: \"2025-09-03\", at: \"2025-09-03T00:00:00Z\"",
        "BAD_USER_INPUT",
        "expected one of them",
    )
    .await;
    standings("segment: \"region:eu\"", "BAD_USER_INPUT", "segment").await;
    let keys: Vec<String> = (0..1001).map(|number| number.to_string()).collect();
    let ranks = "
        query($keys: [String!]!) { board(slug: \"race\") { standings {
            entries(members: $keys) { rank }
        } } }";
    check(&api, ranks, json!({ "keys": keys }), "LIMIT_EXCEEDED", "1000").await;
    check(
        &api,
        "query($keys: [String!]!) { members(keys: $keys) { key } }",
        json!({ "keys": keys }),
        "LIMIT_EXCEEDED",
        "1000",
    )
    .await;
    check(&api, "{ node(id: \"what\") { id } }", json!({}), "BAD_USER_INPUT", "member:u42").await;
    check(&api, "{ nothing }", json!({}), "BAD_USER_INPUT", "nothing").await;
    check(&api, "{ board(", json!({}), "BAD_USER_INPUT", "").await;
}

#[tokio::test]
async fn a_page_cursor_of_another_list_is_refused() {
    let (_deployment, api) = race().await;
    api.create_board(json!({ "slug": "other", "windows": [{ "name": "daily" }] })).await;
    let text = "
        query($slug: String!, $window: String!, $after: String) { board(slug: $slug) {
            standings(of: { window: $window }) { top(after: $after) {
                pageInfo { endCursor } nodes { rank }
            } }
        } }";
    let page = api.data(text, json!({ "slug": "race", "window": "all" })).await;
    let cursor = &page["board"]["standings"]["top"]["pageInfo"]["endCursor"];
    for (slug, window) in [("other", "all"), ("race", "daily")] {
        let variables = json!({ "slug": slug, "window": window, "after": cursor });
        check(&api, text, variables, "BAD_USER_INPUT", "another list").await;
    }
}

#[tokio::test]
async fn http_that_is_not_graphql_is_refused_with_its_status() {
    let (_deployment, api) = race().await;
    let client = reqwest::Client::new();
    let url = format!("{}/graphql", api.url());
    // The query string is spelled out, as reqwest has the feature for it off.
    let get = async |query: &str| client.get(format!("{url}?{query}")).send().await.unwrap();
    let mutation = "query=mutation%7BupsertMembers(input:%7Bmembers:%5B%7Bkey:%22a%22%7D%5D%7D)%7Bmembers%7Bkey%7D%7D%7D";
    let answer = get(mutation).await;
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.headers()["allow"], "POST");
    assert_eq!(get("query=%7Bviewer%7Bscopes%7D%7D").await.status(), StatusCode::OK);
    assert_eq!(get("").await.status(), StatusCode::BAD_REQUEST);
    let post = async |content_type: &str, body: String| {
        let request = client.post(&url).header("content-type", content_type).body(body);
        request.send().await.unwrap()
    };
    let body = json!({ "query": "{ viewer { scopes } }" }).to_string();
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/graphql"] {
        let answer = post(content_type, body.clone()).await;
        assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{content_type}");
    }
    assert_eq!(post("application/json; charset=utf-8", body).await.status(), StatusCode::OK);
    // A body that says it is compressed is not inflated, and a multipart one is not read.
    let mut squeezed = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
    std::io::Write::write_all(&mut squeezed, &vec![b' '; 16 << 20]).unwrap();
    let squeezed = squeezed.finish().unwrap();
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let request = headers
        .into_iter()
        .fold(client.post(&url), |request, (name, value)| request.header(name, value));
    let answer = request.body(squeezed).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let parts = "--x\r\ncontent-disposition: form-data; name=\"operations\"\r\n\r\n{}\r\n--x--";
    let answer = post("multipart/form-data; boundary=x", parts.to_owned()).await;
    assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    for broken in ["", "[]", "{", "{\"query\": 1}", "{\"query\": \"\"}"] {
        let answer = post("application/json", broken.to_owned()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{broken}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{broken}");
    }
    // A request is not refused once it is carried out, as no coding of its answer would do.
    for codings in ["*;q=0", "identity;q=0", "identity;q=0, gzip"] {
        let request = client.post(&url).header("content-type", "application/json");
        let request =
            request.header("accept-encoding", codings).body("{\"query\":\"{__typename}\"}");
        assert_eq!(request.send().await.unwrap().status(), StatusCode::OK, "{codings}");
    }
    // A body that is announced and never sent is refused unread.
    let mut stream = TcpStream::connect(api.url().trim_start_matches("http://")).await.unwrap();
    let head = "POST /graphql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        content-length: 3000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 413");
}

#[tokio::test]
async fn a_costly_query_is_refused_before_it_runs() {
    let (_deployment, api) = race().await;
    let deep =
        "{ boards(first: 1000) { nodes { standings { top(first: 1000) { nodes { rank } } } } } }";
    check(&api, deep, json!({}), "LIMIT_EXCEEDED", "20000").await;
    // Deeper than the server allows, and deeper than its parser does.
    for (pairs, says) in [(28, "nested deeper"), (40, "")] {
        let levels = (0..pairs)
            .fold("slug".to_owned(), |levels, _| format!("standings {{ board {{ {levels} }} }}"));
        let text = format!("{{ board(slug: \"race\") {{ {levels} }} }}");
        check(&api, &text, json!({}), "LIMIT_EXCEEDED", says).await;
    }
}

#[tokio::test]
async fn fragments_that_double_are_refused_in_no_time() {
    let (_deployment, api) = race().await;
    let mut bomb = "{ ...f0 }".to_owned();
    for level in 0..60 {
        let next = level + 1;
        bomb.push_str(&format!(" fragment f{level} on Query {{ ...f{next} ...f{next} }}"));
    }
    bomb.push_str(" fragment f60 on Query { __typename }");
    let circle = "{ ...a } fragment a on Query { ...b } fragment b on Query { ...a }";
    let began = Instant::now();
    check(&api, &bomb, json!({}), "LIMIT_EXCEEDED", "").await;
    check(&api, circle, json!({}), "BAD_USER_INPUT", "spreads itself").await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_page_for_operators_costs_what_it_reads() {
    let (_deployment, api) = race().await;
    let client = reqwest::Client::new();
    for page in ["jobs", "integrityRuns"] {
        let points = async |first: usize| {
            let text = format!("{{ {page}(first: {first}) {{ pageInfo {{ hasNextPage }} }} }}");
            let asked = Attack::query("a page for operators", &text).as_admin();
            let reply = asked.send(&client, api.url(), api.token()).await.unwrap();
            reply.points().unwrap_or_else(|| panic!("{}", reply.shown()))
        };
        assert!(points(1000).await > points(1).await + 5000, "{page}");
    }
}
