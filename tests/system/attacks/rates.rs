//! Clients that ask for more than their rate: they are told when to come again, and others are
//! served.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{Client, RequestBuilder, Response, StatusCode, header};
use serde_json::{Value, json};
use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::subscriber::Subscriber;
use tests::attack::boards;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_SCORES;

/// A client may read for 10,000 points at once, and then for 500 a second.
const FEW_READS: [(&str, &str); 3] =
    [("LAUREL_COST_MAX", "10000"), ("LAUREL_READ_BURST", "10000"), ("LAUREL_READ_RATE", "500")];

/// A query for about 3,000 points, all of them told by its text.
const COSTLY: &str = "{ boards(first: 1000) { nodes { slug title } } }";

/// Costly queries of one client: those beyond the burst take more than half a minute of the rate.
const QUERIES: usize = 10;

/// The longest `Retry-After` that the server may give for one of them.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A client at 127.0.0.`host`.
fn client_at(host: u8) -> Client {
    Client::builder().local_address(std::net::IpAddr::from([127, 0, 0, host])).build().unwrap()
}

fn asks(api: &Api, client: &Client, query: &str) -> RequestBuilder {
    client.post(format!("{}/graphql", api.url())).json(&json!({ "query": query }))
}

/// Asks for more than a client may read, each request made by `with`; returns the answers that
/// refuse one.
async fn exhaust(
    api: &Api,
    client: &Client,
    with: impl Fn(usize, RequestBuilder) -> RequestBuilder,
) -> Vec<Response> {
    let asking = (0..QUERIES).map(|number| with(number, asks(api, client, COSTLY)).send());
    let answers = join_all(asking).await.into_iter().map(Result::unwrap);
    answers.filter(|answer| answer.status() != StatusCode::OK).collect()
}

/// Checks that an answer refuses what is beyond a rate; returns the time that it tells.
async fn check_limited(answer: Response) -> Duration {
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    let wait = answer.headers()[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    let body: Value = answer.json().await.unwrap();
    let error = &body["errors"][0];
    assert_eq!(error["extensions"]["code"], "RATE_LIMITED", "{body}");
    assert!(error["message"].as_str().unwrap().contains(&format!("{wait} s")), "{body}");
    Duration::from_secs(wait)
}

/// The requests that the metrics count as refused for a reason.
async fn refused_requests(api: &Api, reason: &str) -> usize {
    let name = format!("laurel_requests_refused_total{{reason=\"{reason}\"}}");
    metrics_of(api).await[&name] as usize
}

async fn is_served(request: RequestBuilder) -> bool {
    request.send().await.unwrap().status() == StatusCode::OK
}

#[tokio::test]
async fn a_client_beyond_its_rate_of_reads_comes_again_when_it_was_told_to() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start_with_settings(&deployment, &FEW_READS).await;
    let (greedy, other) = (client_at(2), client_at(3));
    let refused = exhaust(&api, &greedy, |_, request| request).await;
    assert!(!refused.is_empty() && refused.len() < QUERIES, "{} are refused", refused.len());
    assert_eq!(refused_requests(&api, "reads").await, refused.len());
    let mut wait = Duration::ZERO;
    for answer in refused {
        wait = wait.max(check_limited(answer).await);
    }
    assert!(wait >= Duration::from_secs(1) && wait <= WAIT_MAX, "{wait:?}");
    assert!(is_served(asks(&api, &other, COSTLY)).await, "another address is served");
    let with_token = asks(&api, &greedy, COSTLY).bearer_auth(api.token());
    assert!(is_served(with_token).await, "a token of that address has a rate of its own");
    tokio::time::sleep(wait).await;
    assert!(is_served(asks(&api, &greedy, COSTLY)).await, "refused after the time it was told");
}

#[tokio::test]
async fn pages_and_their_files_are_beyond_a_rate_too_and_the_health_is_not() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start_with_settings(&deployment, &FEW_READS).await;
    let (greedy, other) = (client_at(2), client_at(3));
    let get = |client: &Client, path: &str| client.get(format!("{}{path}", api.url()));
    // A page takes 200 of 10,000 points.
    let pages = (0..100).map(|number| get(&greedy, ["/", "/graphiql"][number % 2]).send());
    let answers = join_all(pages).await.into_iter().map(Result::unwrap);
    let (served, refused): (Vec<_>, Vec<_>) =
        answers.partition(|answer| answer.status() == StatusCode::OK);
    assert!(served.len() >= 40 && refused.len() >= 20, "{} are refused", refused.len());
    for answer in refused {
        check_limited(answer).await;
    }
    assert!(is_served(get(&greedy, "/healthz")).await && is_served(get(&other, "/")).await);
}

#[tokio::test]
async fn requests_that_are_refused_unread_are_paid_for() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with_settings(&deployment, &FEW_READS).await;
    let (greedy, other) = (client_at(2), client_at(3));
    // Each takes 200 of 10,000 points.
    for _ in 0..60 {
        let text = greedy.post(format!("{}/graphql", api.url())).body("{__typename}");
        assert_eq!(text.send().await.unwrap().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    check_limited(asks(&api, &greedy, "{__typename}").send().await.unwrap()).await;
    assert!(is_served(asks(&api, &other, "{__typename}")).await);
}

#[tokio::test]
async fn a_document_that_is_refused_is_paid_for() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start_with_settings(&deployment, &FEW_READS).await;
    let client = client_at(2);
    let types = [
        "Board",
        "Member",
        "Standings",
        "Entry",
        "ScoreEvent",
        "Job",
        "Partition",
        "IntegrityRun",
        "Finding",
        "BoardWindow",
        "Period",
        "FriendEntry",
        "AccessToken",
        "QuarantinedScore",
        "AuditEntry",
        "MemberReport",
        "ErasureReceipt",
        "Webhook",
    ];
    let on: String = types.iter().map(|of| format!("...on {of}{{k:__typename}}")).collect();
    let nodes: String = (0..90).map(|no| format!("a{no}:node(id:\"x\"){{...g}}")).collect();
    let faulty = "z:__typename z:node(id:\"x\"){id}";
    let query = format!("{{{nodes}{faulty}}} fragment g on Node{{{on} k:__typename}}");
    let mut codes = vec![];
    for _ in 0..3 {
        let answer: Value = asks(&api, &client, &query).send().await.unwrap().json().await.unwrap();
        codes.push(answer["errors"][0]["extensions"]["code"].as_str().unwrap().to_owned());
    }
    // To compare its fields takes some 9,000 points, though one of them fits no other.
    assert_eq!(codes[0], "BAD_USER_INPUT");
    assert_eq!(codes[2], "RATE_LIMITED", "{codes:?}");
}

#[tokio::test]
async fn an_operation_that_a_socket_ends_is_paid_for() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let settings = [("LAUREL_READ_BURST", "200000"), ("LAUREL_READ_RATE", "1000")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    api.create_board(json!({ "slug": "tie", "shards": 16, "tieBreak": "MEMBER" })).await;
    boards::fill(&deployment, "tie").await;
    let percentiles: String =
        (10..99).map(|no| format!("a{no}:scoreFor(percentile:{no}.5) ")).collect();
    let query = format!("{{board(slug:\"tie\"){{standings{{{percentiles}}}}}}}");
    let mut socket = Subscriber::connect_to(api.url(), None, 2).await;
    let mut rounds = 0;
    while is_served(asks(&api, &client_at(2), "{__typename}")).await {
        rounds += 1;
        // Its text costs some hundred points, and the burst has room for 400 such texts.
        assert!(rounds < 60, "what was begun is not paid for");
        socket.subscribe(&rounds.to_string(), &query, json!({})).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        socket.send(json!({ "type": "complete", "id": rounds.to_string() })).await;
    }
    println!("{rounds} operations");
}

#[tokio::test]
async fn scores_beyond_the_rate_of_writes_are_refused_whole() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let settings = [("LAUREL_WRITE_BURST", "1000"), ("LAUREL_WRITE_RATE", "1")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    api.create_board(json!({ "slug": "b" })).await;
    let submit = async |batch: usize, count: usize| {
        let score = |n| json!({ "member": format!("m{batch}-{n}"), "score": n });
        let scores: Vec<Value> = (0..count).map(score).collect();
        let variables = json!({ "board": "b", "scores": scores, "ack": "APPLIED" });
        let answer = api.ask(Some(api.token()), SUBMIT_SCORES, variables).await;
        answer.codes().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(submit(0, 600).await, [""; 0]);
    assert_eq!(submit(1, 600).await, ["RATE_LIMITED"]);
    assert_eq!(refused_requests(&api, "changes").await, 1);
    let size = api.data("{ board(slug: \"b\") { standings { size } } }", json!({})).await;
    assert_eq!(size["board"]["standings"]["size"], 600, "none of the refused scores counts");
    assert_eq!(submit(2, 1).await, [""; 0]);
}

#[tokio::test]
async fn clients_behind_a_proxy_have_rates_of_their_own_if_the_proxy_is_trusted() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let settings = [&FEW_READS[..], &[("LAUREL_TRUSTED_PROXIES", "127.0.0.2")]].concat();
    let api = Api::start_with_settings(&deployment, &settings).await;
    let forwarded = |address: String| {
        move |request: RequestBuilder| request.header("X-Forwarded-For", address.clone())
    };
    let (proxy, stranger) = (client_at(2), client_at(3));
    let of_greedy = forwarded("203.0.113.1".to_owned());
    assert!(!exhaust(&api, &proxy, |_, request| of_greedy(request)).await.is_empty());
    let of_other = forwarded("203.0.113.2".to_owned())(asks(&api, &proxy, COSTLY));
    assert!(is_served(of_other).await, "another client of the proxy is served");
    // A stranger that names another client each time is one client all the same.
    let named = |number| forwarded(format!("203.0.113.{}", 10 + number));
    let refused = exhaust(&api, &stranger, |number, request| named(number)(request)).await;
    assert!(!refused.is_empty(), "a header of a stranger is believed");
}

#[tokio::test]
async fn failing_tokens_of_an_address_are_checked_later_and_good_ones_are_served() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let settings = [("LAUREL_FAILED_TOKENS_RATE", "3")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    let client = client_at(2);
    let guess = async |number: usize| {
        let began = Instant::now();
        let request = asks(&api, &client, "{ __typename }");
        let answer = request.bearer_auth(format!("guess-{number}")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        began.elapsed()
    };
    for number in 0..3 {
        guess(number).await;
    }
    for number in 3..5 {
        let took = guess(number).await;
        assert!(took >= Duration::from_millis(500), "guess {number} is checked in {took:?}");
    }
    assert!(is_served(asks(&api, &client, "{ __typename }").bearer_auth(api.token())).await);
}
