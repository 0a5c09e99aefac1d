//! Revoked tokens: requests, sockets and event streams end in every process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::postgres::Postgres;
use tests::wait::until;

const TOP: &str = "subscription { top(board: \"b\") { nodes { score } } }";

const VIEWER: &str = "{ viewer { scopes } }";

const SUBMIT: &str = "
    mutation($member: String!) {
        submitScores(input: { board: \"b\", scores: [{ member: $member, score: 1 }] }) { accepted }
    }";

const REVOKE: &str = "
    mutation($id: ID!) { revokeAccessToken(input: { id: $id }) { accessToken { revokedAt } } }";

/// The time in which every process ends the sockets of a revoked token: a second, and some for a
/// busy machine.
const ENDED_WITHIN: Duration = Duration::from_millis(1500);

/// A token's id: the part between the underscores.
fn id_of(token: &str) -> &str {
    token.split('_').nth(1).unwrap()
}

async fn two_processes() -> [Api; 2] {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    [api, Api::start(&deployment).await]
}

/// An event stream of a token, once it has begun.
async fn stream(api: &Api, token: &str) -> reqwest::Response {
    let request = reqwest::Client::new().post(format!("{}/graphql", api.url()));
    let request = request.header("accept", "text/event-stream").bearer_auth(token);
    let mut response = request.json(&json!({ "query": TOP })).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    response
}

/// Submits by a token as long as it may. Returns the number of accepted scores.
async fn write(api: &Api, token: &str, member: &str, revoked: &AtomicBool) -> u64 {
    let mut accepted = 0;
    loop {
        let was_revoked = revoked.load(Ordering::SeqCst);
        let answer = api.ask(Some(token), SUBMIT, json!({ "member": member })).await;
        match answer.codes()[..] {
            [] => {
                assert!(!was_revoked, "a revoked token writes");
                accepted += 1;
            }
            ["UNAUTHENTICATED"] => return accepted,
            _ => panic!("{:?}", answer.body),
        }
    }
}

/// Opens sockets and streams of a token in two processes, writes by it, revokes it, and sees all of
/// them end.
async fn end_all(revoke: impl AsyncFnOnce(&Api, &str)) {
    let apis = two_processes().await;
    let token = apis[0].deployment().new_token(&["--scope", "submit"]).await;
    let bystander = apis[0].deployment().new_token(&["--scope", "read"]).await;
    let (mut sockets, mut streams) = (vec![], vec![]);
    for api in &apis {
        let mut socket = Subscriber::connect(api, Some(&token)).await;
        socket.subscribe("1", TOP, json!({})).await;
        socket.data("1").await;
        sockets.push(socket);
        streams.push(stream(api, &token).await);
    }
    let mut others = Subscriber::connect(&apis[1], Some(&bystander)).await;
    let revoked: [AtomicBool; 2] = Default::default();
    let revoking = async {
        // Some pushes and writes come before.
        tokio::time::sleep(Duration::from_millis(500)).await;
        revoke(&apis[0], &token).await;
        let began = Instant::now();
        for socket in &mut sockets {
            assert_eq!(socket.closed().await, 4403);
        }
        for stream in streams {
            let text = stream.text().await.unwrap();
            assert!(text.contains("UNAUTHENTICATED"), "{text}");
            assert!(text.ends_with("event: complete\ndata:\n\n"), "{text}");
        }
        let took = began.elapsed();
        assert!(took < ENDED_WITHIN, "{took:?}");
        tokio::time::sleep(ENDED_WITHIN.saturating_sub(took)).await;
        revoked.iter().for_each(|revoked| revoked.store(true, Ordering::SeqCst));
    };
    let ((), first, second) = tokio::join!(
        revoking,
        write(&apis[0], &token, "m0", &revoked[0]),
        write(&apis[1], &token, "m1", &revoked[1]),
    );
    assert!(first > 0 && second > 0);
    for (member, accepted) in [("m0", first), ("m1", second)] {
        let text = format!(
            "{{ board(slug: \"b\") {{ standings {{ entry(member: {member:?}) {{ score }} }} }} }}"
        );
        let entry = apis[0].data(&text, json!({})).await["board"]["standings"]["entry"].take();
        assert_eq!(entry["score"], accepted.to_string(), "{member}");
    }
    others.subscribe("1", TOP, json!({})).await;
    assert_ne!(others.data("1").await["top"]["nodes"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_graphql_revokes_ends_everywhere_within_a_second() {
    end_all(async |api, token| {
        let id = format!("accessToken:{}", id_of(token));
        api.data(REVOKE, json!({ "id": id })).await;
        // In this process at once.
        assert_eq!(api.ask(Some(token), VIEWER, json!({})).await.codes(), ["UNAUTHENTICATED"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_the_command_revokes_ends_everywhere_within_a_second() {
    end_all(async |api, token| {
        api.deployment().api_output(&["token", "revoke", id_of(token)]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_revoked_in_every_process_while_sql_is_away() {
    let server = Postgres::start(None);
    let deployment = Deployment::on_database(server.new_database().await, Redis::Own);
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await].map(Arc::new);
    let token = deployment.new_token(&["--scope", "read"]).await;
    let kept = deployment.new_token(&["--scope", "read"]).await;
    let code = async |api: &Api, token: &str| {
        let answer = api.ask(Some(token), VIEWER, json!({})).await;
        answer.codes().first().map(|code| (*code).to_owned())
    };
    for api in &apis {
        for token in [&token, &kept] {
            assert_eq!(code(api, token).await, None);
        }
        api.data(VIEWER, json!({})).await;
    }
    server.stop();
    for api in &apis {
        until("SQL is known to be away", async || {
            let strange = code(api, "laurel_0123456789ab_strange").await;
            (strange.as_deref() == Some("UNAVAILABLE")).then_some(())
        })
        .await;
        assert_eq!(code(api, &token).await, None);
    }
    let id = format!("accessToken:{}", id_of(&token));
    let (first, variables) = (apis[0].clone(), json!({ "id": id }));
    let revoking = tokio::spawn(async move { first.query(REVOKE, variables).await });
    for api in &apis {
        until("the token is refused", async || code(api, &token).await.map(drop)).await;
        assert_eq!(code(api, &kept).await, None);
    }
    let told = revoking.await.unwrap();
    assert_ne!(told["errors"], Value::Null, "{told}");
    server.start_again();
    until("SQL is back", async || {
        apis[0].query(REVOKE, json!({ "id": id })).await["errors"].is_null().then_some(())
    })
    .await;
    for api in &apis {
        until("the token is unknown", async || {
            (code(api, &token).await.as_deref() == Some("UNAUTHENTICATED")).then_some(())
        })
        .await;
        assert_eq!(code(api, &kept).await, None);
    }
}
