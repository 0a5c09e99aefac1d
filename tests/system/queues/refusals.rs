//! Refusals: of messages, with and without a place for them, and of settings.

use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Kind, Queue, Sent};
use tests::servers::program;

use super::game::{only_letter, run_once};

#[tokio::test]
async fn a_queue_is_a_client_as_any_other() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let fair_play = json!({ "deltaMax": "50" });
    let board = json!({ "slug": "b", "policy": "SUM", "fairPlay": fair_play });
    api.create_board(board).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let score = |member: &str, score: i64| {
        Sent::from(
            json!({ "board": "b", "member": member, "score": score, "eventId": "1" }).to_string(),
        )
    };
    let ban = "mutation { banMember(input: { member: \"eve\", board: \"b\", reason: \"bot\" }) { member { key } } }";
    queue.publish(&[score("eve", 1)]).await;
    run_once(&deployment, queue.ingest(&deployment, api.url(), api.token())).await;
    api.data(ban, json!({})).await;

    // A suspicious score is kept by the server, so its message is settled.
    let banned = json!({ "board": "b", "member": "eve", "score": 2, "eventId": "2" }).to_string();
    queue.publish(&[score("ann", 40), score("bob", 4000), banned.into()]).await;
    let told = run_once(&deployment, queue.ingest(&deployment, api.url(), api.token())).await;
    assert!(told.contains("1 scores applied, 0 duplicate and 2 quarantined"), "{told}");
    assert_eq!(queue.letters().await, []);

    // A token that may not submit stops the program before it takes anything.
    let reader = deployment.new_token(&["--scope", "read"]).await;
    for (token, said) in [(&*reader, "needs an access token with scope submit"), ("x", "token")] {
        let mut command = queue.ingest(&deployment, api.url(), token);
        let output = command.arg("--once").output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains(said), "{error}");
    }
    // One of another board refuses the messages, not the program.
    api.create_board(json!({ "slug": "other" })).await;
    let other = deployment.new_token(&["--scope", "submit", "--boards", "other"]).await;
    queue.publish(&[score("dan", 1)]).await;
    run_once(&deployment, queue.ingest(&deployment, api.url(), &other)).await;
    let letter = only_letter(&queue).await;
    assert!(["FORBIDDEN", "NOT_FOUND"].contains(&&*letter.code), "{letter:?}");
}

#[tokio::test]
async fn without_a_place_for_it_a_refused_message_stops_the_program_and_stays() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM" })).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let good = json!({ "board": "b", "member": "ann", "score": 3 }).to_string();
    queue.publish(&[good.clone().into(), "poison".to_owned().into(), good.into()]).await;
    let run = || {
        let mut command = program::command(program::INGEST);
        command.args(["--from", &queue.url(), "--to", api.url(), "--once", "--linger-ms", "200"]);
        command.env("LAUREL_INGEST_TOKEN", api.token()).output().unwrap()
    };
    // The others are settled, so they do not count again, although they have no id.
    for _ in 0..2 {
        let output = run();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        for said in ["message 2 of SCORES is refused: it is not a score", "--dead-letters"] {
            assert!(error.contains(said), "{said} in {error}");
        }
    }
    let top = "{ board(slug: \"b\") { standings { top { nodes { score } } } } }";
    let data = api.data(top, json!({})).await;
    assert_eq!(data["board"]["standings"]["top"]["nodes"], json!([{ "score": "6" }]));
    run_once(&deployment, queue.ingest(&deployment, api.url(), api.token())).await;
    assert_eq!(only_letter(&queue).await.payload, "poison");
}

#[tokio::test]
async fn settings_that_do_not_fit_are_refused_in_words() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let url = queue.url();
    let check = |arguments: &[&str], code: i32, said: &str| {
        let mut command = program::api();
        command.arg("ingest").args(["--to", api.url()]).args(arguments);
        let output = command.env("LAUREL_INGEST_TOKEN", api.token()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(code) && error.contains(said),
            "{arguments:?}: {error}"
        );
    };
    check(&[], 1, "no queue is named: expected --from");
    check(&["--from", "amqp://u:cret@h/"], 1, "invalid LAUREL_INGEST_FROM amqp://***@h/");
    check(&["--from", &url, "--board", "No"], 1, "invalid slug");
    check(&["--from", &url, "--board-template", "x"], 1, "expected one {board}");
    check(&["--from", &url, "--batch", "0"], 2, "LAUREL_INGEST_BATCH");
    check(&["--from", &url, "--bytes", "4000000"], 2, "LAUREL_INGEST_BYTES");
    check(&["--from", &url, "--dead-letters", "nobody"], 1, "no stream keeps the subject nobody");
    check(&["--from", &url, "--dead-letters", "scores.x"], 1, "dead letters would come back");
    let filtered = format!("{}&subject=scores.*", url.replace("laurel", "filtered"));
    check(&["--from", &filtered, "--dead-letters", "scores.x"], 1, "dead letters would come back");
    check(&["--from", &url.replace("SCORES", "NONE")], 1, "the stream NONE cannot be had");
}

#[tokio::test]
async fn letters_may_stay_in_the_stream_if_the_filter_leaves_them_out() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    queue.publish(&["poison".to_owned().into()]).await;
    let mut command = program::command(program::INGEST);
    let url = format!("{}&subject=scores.b", queue.url().replace("laurel", "filtered"));
    command.args(["--from", &url, "--to", api.url(), "--dead-letters", "scores.b.dead"]);
    command.env("LAUREL_INGEST_TOKEN", api.token());
    let told = run_once(&deployment, command).await;
    assert!(told.contains("put 1 messages aside"), "{told}");
    let stream = queue.jetstream().await.get_stream("SCORES").await.unwrap();
    assert_eq!(stream.cached_info().state.messages, 2);
}
