//! Connections: their limits, and the hosts and origins that may ask.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HOST, HeaderMap, HeaderName,
    IF_NONE_MATCH, ORIGIN, REFERRER_POLICY, SERVER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use reqwest::{Client, Method, StatusCode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::attack::request::aliases;
use tests::boards::race::race;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program;
use tests::wait::{PATIENCE, until};

/// The begin of a request that never ends.
const HALF: &[u8] = b"POST /graphql HTTP/1.1\r\nHost: localhost\r\nX-a: ";

async fn deployment() -> Arc<Deployment> {
    Deployment::new(Sql::any(), Redis::Own).await
}

fn address(api: &Api) -> SocketAddr {
    api.url().split_once("//").unwrap().1.parse().unwrap()
}

/// A connection from an address of loopback, `127.0.0.<host>`.
async fn connect_from(host: u8, api: &Api) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
    socket.connect(address(api)).await.unwrap()
}

/// All that the server sends before it closes the connection.
async fn rest_of(stream: &mut TcpStream) -> String {
    let mut bytes = vec![];
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A server that closes with bytes unread resets the connection.
    let _ = read.expect("the server closes the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A program that may open 1,024 files.
fn program_of_few_files(deployment: &Deployment) -> String {
    let script = deployment.path("few-files");
    let built = program::api();
    let built = built.get_program().to_str().unwrap();
    std::fs::write(&script, format!("#!/bin/sh\nulimit -n 1024\nexec '{built}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// Lets this process open as many files as it may.
fn open_many_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

#[tokio::test]
async fn idle_connections_keep_no_one_out() {
    open_many_files();
    let deployment = deployment().await;
    let token = deployment.admin_token().await.to_owned();
    let program = program_of_few_files(&deployment);
    let limits = ["--address-connections-max", "64"];
    let api = Api::spawn_program(&deployment, &program, &limits, token).await;
    api.wait_until_ready().await;
    let mut idle = vec![];
    for number in 0..1100_u16 {
        let host = 2 + u8::try_from(number / 60).unwrap();
        let mut stream = connect_from(host, &api).await;
        let _ = stream.write_all(HALF).await;
        idle.push(stream);
    }
    let client = Client::builder().pool_max_idle_per_host(0).timeout(PATIENCE).build().unwrap();
    for _ in 0..20 {
        for path in ["/healthz", "/graphql?query=%7B__typename%7D"] {
            let began = Instant::now();
            let answer = client.get(format!("{}{path}", api.url())).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            assert!(began.elapsed() < Duration::from_secs(2), "{path}: {:?}", began.elapsed());
        }
    }
    let measured = metrics_of(&api).await;
    let closed = ["room", "headers"]
        .map(|reason| measured[&format!("laurel_connections_closed_total{{reason=\"{reason}\"}}")]);
    assert!(closed.iter().sum::<f64>() >= 200.0, "{closed:?}");
    assert!(measured["laurel_connections"] <= 896.0);
    assert_eq!(measured["laurel_connections_refused_total{reason=\"system\"}"], 0.0);
}

#[tokio::test]
async fn an_address_has_so_many_connections_and_another_has_its_own() {
    let api = Api::start_with(&deployment().await, &["--address-connections-max", "4"]).await;
    let mut held = vec![];
    for _ in 0..4 {
        held.push(connect_from(9, &api).await);
    }
    let mut fifth = connect_from(9, &api).await;
    assert_eq!(rest_of(&mut fifth).await, "");
    let mut other = connect_from(10, &api).await;
    other.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
    assert!(rest_of(&mut other).await.contains(" 200 OK"));
    let refused = "laurel_connections_refused_total{reason=\"address\"}";
    until("the fifth is counted", async || (metrics_of(&api).await[refused] >= 1.0).then_some(()))
        .await;
}

#[tokio::test]
async fn a_client_that_is_slow_to_ask_is_closed() {
    let times = ["--header-timeout-ms", "400", "--idle-timeout-ms", "400"];
    let api = Api::start_with(&deployment().await, &times).await;
    let mut half = connect_from(1, &api).await;
    half.write_all(HALF).await.unwrap();
    assert_eq!(rest_of(&mut half).await, "");
    let mut silent = connect_from(1, &api).await;
    assert_eq!(rest_of(&mut silent).await, "");
    let mut idle = connect_from(1, &api).await;
    idle.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(rest_of(&mut idle).await.starts_with("HTTP/1.1 200 OK"));
    let measured = metrics_of(&api).await;
    assert!(measured["laurel_connections_closed_total{reason=\"headers\"}"] >= 2.0);
    assert!(measured["laurel_connections_closed_total{reason=\"idle\"}"] >= 1.0);
}

#[tokio::test]
async fn a_slow_body_is_given_up() {
    let api = Api::start_with(&deployment().await, &["--body-timeout-ms", "600"]).await;
    for rest in ["", " "] {
        let mut stream = connect_from(1, &api).await;
        let head = "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Content-Length: 1000\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let dripping = tokio::spawn(async move {
            while !rest.is_empty() && write.write_all(rest.as_bytes()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            write
        });
        let mut bytes = vec![];
        let _ = timeout(PATIENCE, read.read_to_end(&mut bytes)).await.unwrap();
        let answer = String::from_utf8_lossy(&bytes).into_owned();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("LIMIT_EXCEEDED"), "{answer}");
        drop(dripping.await.unwrap());
    }
}

#[tokio::test]
async fn a_client_that_takes_no_answer_is_closed() {
    let api = Api::start_with(&deployment().await, &["--write-timeout-ms", "500"]).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address(&api)).await.unwrap();
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let requests = request("/") + &request("/metrics").repeat(1000);
    stream.write_all(requests.as_bytes()).await.unwrap();
    let closed = "laurel_connections_closed_total{reason=\"write\"}";
    until("the connection is closed", async || {
        (metrics_of(&api).await[closed] >= 1.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn headers_have_a_size_and_a_number() {
    let api = Api::start(&deployment().await).await;
    let long = format!("X-a: {}\r\n", "a".repeat(33 << 10));
    for headers in [long, "X-a: b\r\n".repeat(64)] {
        let mut stream = connect_from(1, &api).await;
        let text =
            format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        // The server may close before it has read all.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 431");
    }
    let mut stream = connect_from(1, &api).await;
    let few = "X-a: b\r\n".repeat(60);
    let text = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{few}Connection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    assert!(rest_of(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn pages_of_allowed_origins_may_ask() {
    let origins = ["--cors-origins", "https://game.example,http://localhost:3000"];
    let api = Api::start_with(&deployment().await, &origins).await;
    let url = format!("{}/graphql", api.url());
    let preflight = async |origin: &str| {
        let request = Client::new().request(Method::OPTIONS, &url).header(ORIGIN, origin);
        let request = request
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type");
        request.send().await.unwrap().headers().clone()
    };
    let allowed = preflight("https://game.example").await;
    assert_eq!(allowed["access-control-allow-origin"], "https://game.example");
    assert!(allowed["access-control-allow-methods"].to_str().unwrap().contains("POST"));
    assert!(allowed["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    assert!(!allowed.contains_key("access-control-allow-credentials"));
    let refused = preflight("https://evil.example").await;
    assert!(!refused.contains_key("access-control-allow-origin"), "{refused:?}");
    let request = Client::new().post(&url).header(ORIGIN, "http://localhost:3000");
    let answer = request.json(&json!({ "query": "{ __typename }" })).send().await.unwrap();
    assert_eq!(answer.headers()["access-control-allow-origin"], "http://localhost:3000");
    let varies = |name: &str| {
        let mut varies = answer.headers().get_all(VARY).iter();
        varies.any(|vary| vary.to_str().unwrap().contains(name))
    };
    assert!(varies("origin") && varies("authorization"));
    let (_deployment, closed) = race().await;
    let request = Client::new().get(closed.url()).header(ORIGIN, "https://game.example");
    let answer = request.send().await.unwrap();
    assert!(!answer.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn a_host_that_is_not_this_server_is_refused() {
    let deployment = deployment().await;
    let (none, named): ([&str; 0], _) = ([], ["--allowed-hosts", "scores.example"]);
    for (arguments, own) in [(&none[..], "localhost:1"), (&named[..], "scores.example:443")] {
        let token = deployment.admin_token().await.to_owned();
        let api = Api::spawn(&deployment, arguments, token).await;
        api.wait_until_ready().await;
        for (host, status) in [(own, 200), ("evil.example", 421)] {
            let url = format!("{}/graphql?query=%7B__typename%7D", api.url());
            let answer = Client::new().get(url).header(HOST, host).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{host}");
            let body: Value = answer.json().await.unwrap();
            assert_eq!(body["errors"].is_array(), status == 421, "{body}");
        }
        api.stop().await;
    }
}

#[tokio::test]
async fn every_answer_is_guarded() {
    let (_deployment, api) = race().await;
    for path in ["/", "/admin", "/graphiql", "/graphql", "/healthz", "/metrics", "/none"] {
        let answer = reqwest::get(format!("{}{path}", api.url())).await.unwrap();
        let headers = answer.headers();
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        assert_eq!(headers[REFERRER_POLICY], "no-referrer", "{path}");
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!headers.contains_key(SERVER), "{path}");
    }
}

#[tokio::test]
async fn long_answers_are_compressed_and_their_tags_weak() {
    let (_deployment, api) = race().await;
    let fields =
        (0..40).map(|number| format!("a{number}:board(slug:%22race%22)%7Bid%20slug%20title%7D"));
    let long = format!("query=%7B{}%7D", fields.collect::<Vec<_>>().join(","));
    let get = async |query: &str, headers: &[(HeaderName, &str)]| {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        let headers: HeaderMap = headers.collect();
        let url = format!("{}/graphql?{query}", api.url());
        Client::new().get(url).headers(headers).send().await.unwrap()
    };
    let gzip = (ACCEPT_ENCODING, "br, gzip");
    let plain = get(&long, &[]).await;
    assert!(!plain.headers().contains_key(CONTENT_ENCODING));
    let varies = |headers: &HeaderMap| {
        let mut varies = headers.get_all(VARY).iter();
        varies.any(|vary| vary.to_str().unwrap().contains("accept-encoding"))
    };
    assert!(varies(plain.headers()));
    let packed = get(&long, std::slice::from_ref(&gzip)).await;
    assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
    assert!(varies(packed.headers()));
    let tag = packed.headers()[ETAG].to_str().unwrap().to_owned();
    let strong = plain.headers()[ETAG].to_str().unwrap();
    assert_eq!(tag, format!("W/{strong}"));
    let known = get(&long, &[gzip.clone(), (IF_NONE_MATCH, tag.as_str())]).await;
    assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
    let length = plain.bytes().await.unwrap().len();
    assert!(length > 1024 && packed.bytes().await.unwrap().len() < length / 2, "{length}");
    let short = get("query=%7B__typename%7D", &[gzip]).await;
    assert!(!short.headers().contains_key(CONTENT_ENCODING));
    // The longest ones are sent as they are: each would be compressed at a stretch.
    let keys: Vec<String> = (0..1000).map(|number| format!("{number:0128}")).collect();
    let members: Vec<Value> = keys.iter().map(|key| json!({ "key": key })).collect();
    api.upsert_members(members).await;
    for (copies, is_packed) in [(6, true), (12, false)] {
        let query =
            format!("query($k:[String!]!){{members(keys:$k){{{}}}}}", aliases(copies, "key"));
        let body = json!({ "query": query, "variables": { "k": keys } });
        let asked = Client::new().post(format!("{}/graphql", api.url())).json(&body);
        let answer = asked.header(ACCEPT_ENCODING, "gzip").send().await.unwrap();
        assert_eq!(answer.headers().contains_key(CONTENT_ENCODING), is_packed, "{copies}");
        assert_eq!(answer.status(), StatusCode::OK);
        let length = answer.bytes().await.unwrap().len();
        assert_eq!(length < 128_000, is_packed, "{length} bytes");
    }
}

#[tokio::test]
async fn operations_may_have_an_address_of_their_own() {
    let own = ["--operations-listen", "127.0.0.1:0"];
    let deployment = deployment().await;
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn(&deployment, &own, token).await;
    let printed = api.printed();
    let line = printed.lines().find(|line| line.contains("metrics")).unwrap();
    let url = line.split_whitespace().nth(1).unwrap().strip_suffix("/metrics").unwrap();
    assert!(!url.starts_with(api.url()), "{printed}");
    for path in ["/healthz", "/metrics", "/readyz"] {
        let main = reqwest::get(format!("{}{path}", api.url())).await.unwrap();
        assert_eq!(main.status(), StatusCode::NOT_FOUND, "{path}");
        until("operations answer", async || {
            let answer = reqwest::get(format!("{url}{path}")).await.unwrap();
            (answer.status() == StatusCode::OK).then_some(())
        })
        .await;
    }
    let graphql = reqwest::get(format!("{url}/graphql?query=%7B__typename%7D")).await.unwrap();
    assert_eq!(graphql.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_stop_ends_whatever_clients_do() {
    let api = Api::start(&deployment().await).await;
    let mut half = connect_from(1, &api).await;
    half.write_all(HALF).await.unwrap();
    let mut slow = connect_from(1, &api).await;
    let head = "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Content-Length: 400000\r\n\r\n";
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.write_all(&[b' '; 100_000]).await.unwrap();
    let _idle = connect_from(1, &api).await;
    let began = Instant::now();
    api.stop().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
