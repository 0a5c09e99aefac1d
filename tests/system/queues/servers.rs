//! The server that scores go to: another one at its address, the way there, and its tokens.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Kind, Queue, Sent};
use tests::servers::program;
use tests::servers::proxy::Proxy;
use tests::wait::until;

use super::operations::Operations;

/// An answer of another server: status, media type, and body.
type Foreign = (u16, &'static str, &'static str);

const HTML: (&str, &str) = ("text/html", "<html>no</html>");

const MISDIRECTED: &str =
    r#"{"errors":[{"message":"invalid Host","extensions":{"code":"BAD_USER_INPUT"}}]}"#;

const OTHER_GRAPHQL: &str = r#"{"errors":[{"message":"Cannot query field \"submitScores\"","extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}"#;

/// As a server of Laurel that does not know the mutation, or an argument of it.
const OTHER_LAUREL: &str = r#"{"errors":[{"message":"Unknown field \"submitScores\"","extensions":{"code":"BAD_USER_INPUT"}}]}"#;

const ANSWERS: [(Foreign, &str); 9] = [
    ((421, "application/json", MISDIRECTED), "421 Misdirected Request"),
    ((400, HTML.0, HTML.1), "400 Bad Request of type text/html"),
    ((404, HTML.0, HTML.1), "404 Not Found"),
    ((405, HTML.0, ""), "405 Method Not Allowed"),
    ((413, HTML.0, HTML.1), "413 Payload Too Large"),
    ((302, HTML.0, HTML.1), "302 Found of type text/html, to https://***@login.example/?***"),
    ((200, HTML.0, HTML.1), "200 OK of type text/html"),
    ((200, "application/json", OTHER_GRAPHQL), "Cannot query field"),
    ((200, "application/json", OTHER_LAUREL), "Unknown field"),
];

/// Starts a server that answers everything alike; returns its port.
async fn start(answer: Arc<Mutex<Foreign>>) -> u16 {
    let router = Router::new().fallback(async move || {
        let (status, kind, body) = *answer.lock().unwrap();
        let location = "https://u:cret@login.example/?token=cret";
        (StatusCode::from_u16(status).unwrap(), [(CONTENT_TYPE, kind), (LOCATION, location)], body)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    port
}

fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

fn score(member: &str) -> Sent {
    json!({ "board": "b", "member": member, "score": 1 }).to_string().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_about_scores_leaves_them_in_the_queue() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM" })).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let answer = Arc::new(Mutex::new(ANSWERS[0].0));
    let foreign = start(answer.clone()).await;
    // At its start the program ends, and says why.
    for (told, said) in ANSWERS {
        *answer.lock().unwrap() = told;
        let to = format!("http://127.0.0.1:{foreign}");
        let output = queue.ingest(&deployment, &to, api.token()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}: {error}");
        assert!(error.contains(said) && error.contains("expected the address of"), "{error}");
        assert!(!error.contains("cret"), "{error}");
    }
    // Later it waits.
    let proxy = Proxy::before(port_of(api.url())).await;
    let to = format!("http://127.0.0.1:{}", proxy.port());
    let mut command = queue.ingest(&deployment, &to, api.token());
    let operations = Operations::of(&mut command);
    let ingest = Ingest::start(&deployment, command);
    queue.publish(&[score("ann")]).await;
    operations.until_settled(1).await;
    for (index, (told, said)) in ANSWERS.into_iter().enumerate() {
        *answer.lock().unwrap() = told;
        proxy.lead_to(foreign);
        queue.publish(&[score("ann")]).await;
        let why = operations.until_paused(said).await;
        assert!(why.contains("LAUREL_INGEST_TO http://127.0.0.1:") && !why.contains("cret"));
        assert!(ingest.log().contains(said), "{}", ingest.log());
        proxy.lead_to(port_of(api.url()));
        operations.until_settled(index + 2).await;
    }
    assert_eq!(queue.letters().await, []);
    let top = "{ board(slug: \"b\") { standings { top { nodes { score } } } } }";
    let data = api.data(top, json!({})).await;
    let all = (ANSWERS.len() + 1).to_string();
    assert_eq!(data["board"]["standings"]["top"]["nodes"], json!([{ "score": all }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_to_the_server_is_protected_and_no_password_of_it_is_shown() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let run = |to: &str, allowed: &str, log: &str| {
        let mut command = program::command(program::INGEST);
        command.args(["--from", &queue.url(), "--once"]).env("LAUREL_INGEST_TO", to);
        command.env("LAUREL_ALLOW_CLEARTEXT", allowed).env("LAUREL_LOG", log);
        command
    };
    let check = |to: &str, allowed: &str, said: &str| {
        let output = run(to, allowed, "trace").output().unwrap();
        let (out, error) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{to}: {error}");
        assert!(error.contains(said), "{to}: {error}");
        assert!(!format!("{out}{error}").contains("cret"), "{to}: {error}");
    };
    for host in ["10.0.0.5", "laurel.example:8000", "[2001:db8::1]"] {
        let to = format!("http://u:cret@{host}/graphql?token=cret");
        check(&to, "false", "LAUREL_ALLOW_CLEARTEXT=true");
        check(&to, "false", &format!("http://***@{host}/graphql?***: the token"));
    }
    for to in ["u:cret@h", "ftp://u:cret@h", "http://u:cret@:x", "cret"] {
        check(to, "true", "expected the address of a server of Laurel");
    }
    let foreign = start(Arc::new(Mutex::new((404, "text/plain", "")))).await;
    for host in ["127.0.0.1", "localhost"] {
        let to = format!("http://u:cret@{host}:{foreign}/?token=cret");
        check(&to, "false", &format!("http://***@{host}:{foreign}/graphql?*** answers 404"));
    }
    let mut help = run("http://u:cret@h", "false", "info");
    let output = help.arg("--help").output().unwrap();
    assert!(output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("cret"));
    // No server listens there: the program waits, and says so.
    let vacant = tests::servers::redis_cluster::free_port();
    let to = format!("http://u:cret@127.0.0.1:{vacant}/?token=cret");
    let mut command = run(&to, "true", "trace");
    let operations = Operations::of(&mut command);
    let ingest = Ingest::start(&deployment, command);
    let why = operations.until_paused("the server does not answer").await;
    let (_, metrics) = operations.get("/metrics").await.unwrap();
    let log = ingest.log();
    assert!(![why, metrics, log].iter().any(|text| text.contains("cret")), "{}", ingest.log());
}

#[tokio::test]
async fn requests_that_were_refused_with_the_old_token_go_on_with_the_new_one() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let boards = ["b0", "b1", "b2", "b3"];
    for slug in boards {
        api.create_board(json!({ "slug": slug, "policy": "SUM" })).await;
    }
    let tokens = [
        deployment.new_token(&["--scope", "submit"]).await,
        deployment.new_token(&["--scope", "submit"]).await,
    ];
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let file = deployment.new_file("token");
    std::fs::write(&file, &tokens[0]).unwrap();
    let mut command = queue.ingest(&deployment, api.url(), "");
    command.env_remove("LAUREL_INGEST_TOKEN").arg("--token-file").arg(&file);
    let operations = Operations::of(&mut command);
    let ingest = Ingest::start(&deployment, command);
    // Each board is a request of its own, all of them under way at once.
    let message = |id: &str| {
        let score = |slug| json!({ "board": slug, "member": "ann", "score": 1, "eventId": id });
        Sent::from(json!(boards.map(score)).to_string())
    };
    queue.publish(&[message("1")]).await;
    operations.until_settled(1).await;
    let id = |token: &str| token.split('_').nth(1).unwrap().to_owned();
    let revoke = async |token: &str| {
        deployment.api_output(&["token", "revoke", &id(token)]).await;
        until("the token is refused", async || {
            let answer = api.ask(Some(token), "{ __typename }", json!({})).await;
            (answer.codes() == ["UNAUTHENTICATED"]).then_some(())
        })
        .await;
    };
    std::fs::write(&file, &tokens[1]).unwrap();
    revoke(&tokens[0]).await;
    queue.publish(&[message("2")]).await;
    operations.until_settled(2).await;
    // The program ends only with a new token that is refused, too.
    revoke(&tokens[1]).await;
    queue.publish(&[message("3")]).await;
    let (status, log) = ingest.wait().await;
    assert!(status.code() == Some(1) && log.contains("refuses the access token"), "{log}");
    assert_eq!(queue.letters().await, []);
}
