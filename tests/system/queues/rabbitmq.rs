//! Queues of RabbitMQ: the kinds of them, headers, slow brokers, and memory.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Kind, Queue, Sent, ingest_from};
use tests::servers::program::signal;
use tests::servers::proxy::{Mode, Proxy};
use tests::wait::until;

use super::game::{is_wanted, run_once};
use super::operations::Operations;

/// A score, with so many bytes of white space.
fn score(bytes: usize) -> Sent {
    let score = json!({ "board": "b", "member": "ann", "score": 1 }).to_string();
    format!("{score}{}", " ".repeat(bytes)).into()
}

/// Publishes a score whose producer says which offset it has.
async fn publish_with_offset(channel: &Channel, offset: AMQPValue) {
    let mut headers = FieldTable::default();
    headers.insert("x-stream-offset".into(), offset);
    let properties = BasicProperties::default().with_headers(headers).with_timestamp(1);
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let payload = score(0).payload;
    let sent = channel
        .basic_publish("".into(), "SCORES".into(), options, payload.as_bytes(), properties)
        .await;
    assert!(sent.unwrap().await.unwrap().is_ack());
}

async fn start() -> Option<(Arc<Deployment>, Api, Queue)> {
    start_with(Kind::RabbitMq).await
}

async fn start_with(kind: Kind) -> Option<(Arc<Deployment>, Api, Queue)> {
    if !is_wanted() {
        return None;
    }
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM" })).await;
    let queue = Queue::start(kind, &deployment).await;
    Some((deployment, api, queue))
}

#[tokio::test]
async fn a_stream_is_refused_and_a_header_of_streams_means_nothing() {
    let Some((deployment, api, queue)) = start().await else { return };
    let (_connection, channel) = queue.channel().await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("stream".into()));
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("STREAM".into(), options, arguments).await.unwrap();
    let from = queue.url().replace("SCORES", "STREAM");
    let output = ingest_from(&from, &deployment, api.url(), api.token()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("STREAM is a stream, which remembers no offset"), "{error}");

    let values = [
        AMQPValue::LongLongInt(7),
        AMQPValue::LongString("next".into()),
        AMQPValue::Timestamp(7),
        AMQPValue::Boolean(true),
        AMQPValue::Void,
        AMQPValue::FieldTable(FieldTable::default()),
    ];
    let count = values.len();
    for value in values {
        publish_with_offset(&channel, value).await;
    }
    let told = run_once(&deployment, queue.ingest(&deployment, api.url(), api.token())).await;
    assert!(told.contains(&format!("{count} scores applied")), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_still_on_their_way_are_not_left_behind() {
    let Some((deployment, api, queue)) = start().await else { return };
    queue.publish(&[score(900_000), score(900_000), score(0)]).await;
    let url = queue.url();
    let (_, after) = url.rsplit_once(':').unwrap();
    let (port, _) = after.split_once('/').unwrap();
    let proxy = Proxy::before(port.parse().unwrap()).await;
    // The program waits half a second for a message, and each of these takes longer.
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    let from = url.replace(port, &proxy.port().to_string());
    let command = ingest_from(&from, &deployment, api.url(), api.token());
    let told = run_once(&deployment, command).await;
    assert!(told.contains("settled 3 messages with 3 scores applied"), "{told}");
}

#[tokio::test]
async fn messages_handed_out_ahead_are_bounded_in_bytes() {
    let Some((deployment, api, queue)) = start().await else { return };
    let mut messages = vec![score(0); 1000];
    messages.extend(vec![score(900_000); 60]);
    messages.extend(vec![score(0); 500]);
    queue.publish(&messages).await;
    let mut command = queue.ingest(&deployment, api.url(), api.token());
    command.env("LAUREL_INGEST_BYTES", (4 << 20).to_string()).env("LAUREL_INGEST_BATCH", "1000");
    let operations = Operations::of(&mut command);
    let ingest = Ingest::start(&deployment, command);
    operations.until_settled(messages.len()).await;
    // Short messages let many be ahead, and the long ones behind them have no room then.
    let log = ingest.log();
    let times = log.matches("handed out more ahead than 4194304 bytes").count();
    assert!((1..=3).contains(&times), "{log}");
    // A message without an id counts once, although it came back: it was not submitted before.
    assert_eq!(sum(&api).await, messages.len().to_string());
    assert_eq!(queue.letters().await, []);
}

/// The sum of all scores.
async fn sum(api: &Api) -> String {
    let top = "{ board(slug: \"b\") { standings { top { nodes { score } } } } }";
    let data = api.data(top, json!({})).await;
    data["board"]["standings"]["top"]["nodes"][0]["score"].as_str().unwrap_or("0").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_read_by_one_process_from_where_it_was_settled() {
    let Some((deployment, api, queue)) = start_with(Kind::RabbitMqStream).await else { return };
    let from = format!("{}&source=scores", queue.url());
    let ingest = || ingest_from(&from, &deployment, api.url(), api.token());
    queue.publish(&vec![score(0); 2500]).await;
    let told = run_once(&deployment, ingest()).await;
    assert!(told.contains("settled 2500 messages with 2500 scores applied"), "{told}");
    // Settled messages are not read again.
    let told = run_once(&deployment, ingest()).await;
    assert!(told.contains("settled 0 messages"), "{told}");
    let mut running = vec![];
    for _ in 0..2 {
        let mut command = ingest();
        let operations = Operations::of(&mut command);
        running.push((Ingest::start(&deployment, command), operations));
    }
    queue.publish(&vec![score(0); 300]).await;
    until("one of them takes all", async || (sum(&api).await == "2800").then_some(())).await;
    let waiting = async || {
        for (index, (_, operations)) in running.iter().enumerate() {
            let (_, state) = operations.get("/readyz").await?;
            if state.contains("another process takes this stream") {
                return Some(index);
            }
        }
        None
    };
    let first = 1 - until("the other one waits", waiting).await;
    let (first, _) = running.remove(first);
    signal("KILL", first.pid());
    queue.publish(&vec![score(0); 200]).await;
    until("the other one goes on", async || (sum(&api).await == "3000").then_some(())).await;
    let (second, operations) = running.remove(0);
    until("nothing is left", async || {
        let (_, metrics) = operations.get("/metrics").await?;
        metrics.lines().any(|line| line == "laurel_ingest_lag{source=\"SCORES\"} 0").then_some(())
    })
    .await;
    signal("TERM", second.pid());
    assert!(second.wait().await.0.success());
    let told = run_once(&deployment, ingest()).await;
    assert!(told.contains("settled 0 messages"), "{told}");
}

#[tokio::test]
async fn a_header_of_a_producer_is_no_offset_of_a_stream() {
    let Some((deployment, api, queue)) = start_with(Kind::RabbitMqStream).await else { return };
    let (_connection, channel) = queue.channel().await;
    for offset in [900, 3, 0, 0, 1] {
        publish_with_offset(&channel, AMQPValue::LongLongInt(offset)).await;
    }
    queue.publish(&vec![score(0); 20]).await;
    let from = format!("{}&source=scores", queue.url());
    let told = run_once(&deployment, ingest_from(&from, &deployment, api.url(), api.token())).await;
    assert!(told.contains("settled 25 messages with 25 scores applied"), "{told}");
}

#[tokio::test]
async fn a_stream_has_a_queue_of_offsets_that_has_nothing_else() {
    let Some((deployment, api, queue)) = start_with(Kind::RabbitMqStream).await else { return };
    let from = format!("{}&source=scores", queue.url());
    let refused = |from: &str| {
        let output = ingest_from(from, &deployment, api.url(), api.token()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let (_connection, channel) = queue.channel().await;
    for (name, kind) in [("other", "classic"), ("quorum", "quorum")] {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(name.into(), options, arguments).await.unwrap();
    }
    let options = BasicPublishOptions::default();
    let sent = channel
        .basic_publish("".into(), "other".into(), options, b"a score", BasicProperties::default())
        .await;
    assert!(sent.unwrap().await.unwrap().is_ack());
    let error = refused(&from.replace("offsets=laurel", "offsets=other"));
    assert!(error.contains("other has something else than an offset"), "{error}");
    for name in ["other", "quorum"] {
        let error = refused(&from.replace("SCORES", name));
        assert!(error.contains(&format!("{name} cannot be read as a stream")), "{error}");
    }
    let error = refused(&from.replace("offsets=laurel", "offsets=quorum"));
    assert!(error.contains("expected a durable classic queue"), "{error}");
}
