//! Topics of Kafka: groups, positions, long messages, and settings.

use std::sync::Arc;

use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Kind, Queue, Sent, ingest_from};
use tests::servers::program;
use tests::servers::program::signal;
use tests::servers::proxy::Proxy;
use tests::servers::redis_cluster::free_port;

use super::game::{Game, has_tansu, only_letter, run_once};
use super::operations::Operations;

/// A score without an id: it counts each time that it is submitted.
fn score() -> Sent {
    json!({ "board": "b", "member": "ann", "score": 1 }).to_string().into()
}

async fn start() -> (Arc<Deployment>, Api, Queue) {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    Game::create_board(&api).await;
    let queue = Queue::start(Kind::Kafka, &deployment).await;
    (deployment, api, queue)
}

fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

async fn check_sum(api: &Api, sum: usize) {
    let top = "{ board(slug: \"b\") { standings { top { nodes { score } } } } }";
    let data = api.data(top, json!({})).await;
    assert_eq!(data["board"]["standings"]["top"]["nodes"], json!([{ "score": sum.to_string() }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_by_a_pause() {
    let (deployment, api, queue) = start().await;
    let proxy = Proxy::before(port_of(api.url())).await;
    let to = format!("http://127.0.0.1:{}", proxy.port());
    let mut command = queue.ingest(&deployment, &to, api.token());
    let operations = Operations::of(&mut command);
    let _ingest = Ingest::start(&deployment, command);
    queue.publish(&[score()]).await;
    operations.until_settled(1).await;
    proxy.lead_to(free_port());
    queue.publish(&[score()]).await;
    operations.until_paused("does not answer").await;
    // These are handed out ahead, and forgotten when the client pauses.
    queue.publish(&vec![score(); 300]).await;
    // The pauses between eight trials are longer than the time between two polls.
    operations.until_metric("laurel_ingest_scores_total{outcome=\"again\"}", 8).await;
    proxy.lead_to(port_of(api.url()));
    operations.until_settled(302).await;
    check_sum(&api, 302).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_move_to_another_process_while_the_server_is_away_from_one() {
    let (deployment, api, queue) = start().await;
    let proxy = Proxy::before(port_of(api.url())).await;
    let to = format!("http://127.0.0.1:{}", proxy.port());
    let mut command = queue.ingest(&deployment, &to, api.token());
    let first = Operations::of(&mut command);
    let mut running = vec![Ingest::start(&deployment, command)];
    let game = Game::new(1000);
    let (before, after) = game.messages.split_at(50);
    queue.publish(before).await;
    first.until_settled(before.len()).await;
    proxy.lead_to(free_port());
    queue.publish(after).await;
    first.until_paused("does not answer").await;
    let mut command = queue.ingest(&deployment, api.url(), api.token());
    let second = Operations::of(&mut command);
    running.push(Ingest::start(&deployment, command));
    second.until_metric("laurel_ingest_messages_total{outcome=\"settled\"}", 1).await;
    proxy.lead_to(port_of(api.url()));
    run_once(&deployment, queue.ingest(&deployment, api.url(), api.token())).await;
    for process in running {
        signal("TERM", process.pid());
        let (status, log) = process.wait().await;
        assert!(status.success(), "{log}");
    }
    game.check(&api, &queue).await;
}

#[tokio::test]
async fn a_refused_message_keeps_those_after_it_in_its_partition() {
    let (deployment, api, queue) = start().await;
    let message = |number: usize| match number {
        3 => Sent::from("poison".to_owned()),
        _ => Sent::from(
            json!({ "board": "b", "member": "ann", "score": 1, "eventId": number.to_string() })
                .to_string(),
        ),
    };
    queue.publish_in_order(&(0..10).map(message).collect::<Vec<_>>()).await;
    let mut command = program::command(program::INGEST);
    command.args(["--from", &queue.url(), "--to", api.url(), "--once", "--linger-ms", "2000"]);
    let output = command.env("LAUREL_INGEST_TOKEN", api.token()).output().unwrap();
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("message 0/3 of SCORES is refused: it is not a score"), "{error}");
    assert!(out.contains("settled 3 messages with 9 scores applied"), "{out}");
    let told = run_once(&deployment, queue.ingest(&deployment, api.url(), api.token())).await;
    assert!(told.contains("settled 7 messages with 0 scores applied, 6 duplicate"), "{told}");
    assert_eq!(only_letter(&queue).await.payload, "poison");
    check_sum(&api, 9).await;
}

#[tokio::test]
async fn a_long_message_is_put_aside_without_its_end_if_the_topic_takes_no_more() {
    if has_tansu() {
        println!("not on tansu: a long message does not come out of it");
        return;
    }
    let (deployment, api, queue) = start().await;
    let long = format!("{}{}", score().payload, " ".repeat(1 << 20));
    let messages = [score(), long.clone().into(), score()];
    queue.publish(&messages).await;
    let Queue::Kafka(server) = &queue else { panic!("it is no Kafka") };
    server.refuse_as_too_long(1);
    let mut command = queue.ingest(&deployment, api.url(), api.token());
    command.env("LAUREL_INGEST_BYTES", (4 << 20).to_string());
    let told = run_once(&deployment, command).await;
    assert!(told.contains("settled 3 messages with 2 scores applied"), "{told}");
    let letter = only_letter(&queue).await;
    assert_eq!(letter.code, "LIMIT_EXCEEDED");
    assert_eq!((letter.cut, letter.payload.len()), (Some(long.len().to_string()), long.len() / 2));
    assert!(long.starts_with(&letter.payload));
    check_sum(&api, 2).await;
}

#[tokio::test]
async fn settings_that_do_not_fit_kafka_are_refused_in_words() {
    let (deployment, api, queue) = start().await;
    let url = queue.url();
    let check = |from: &str, letters: &str, said: &str| {
        let mut command = ingest_from(from, &deployment, api.url(), api.token());
        command.env("LAUREL_LOG", "trace").args(["--dead-letters", letters]);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(output.status.code() == Some(1) && text.contains(said), "{from}: {text}");
        assert!(!text.contains("cret"), "{text}");
    };
    check(&url, "SCORES", "dead letters would come back");
    check(&url.replace("SCORES", "NONE"), "dead", "the topic NONE is not there");
    check(&url, "nobody", "the topic nobody is not there");
    let tls = url.replace("kafka://", "kafkas://u:cret@");
    check(&tls, "dead", "kafkas:// needs OpenSSL");
    let scram = url.replace("kafka://", "kafka://u:cret@");
    check(&format!("{scram}&sasl.mechanism=SCRAM-SHA-256"), "dead", "SCRAM-SHA-256 needs OpenSSL");
    check("kafka://u:cret@h/t?group=g", "dead", "LAUREL_ALLOW_CLEARTEXT=true");
}
