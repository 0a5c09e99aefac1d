//! Queues of RabbitMQ: the kinds of them, headers, slow brokers, and memory.

use std::sync::Arc;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Kind, Queue, Sent, ingest_from};
use tests::servers::proxy::{Mode, Proxy};

use super::game::{is_wanted, run_once};
use super::operations::Operations;

/// A score, with so many bytes of white space.
fn score(bytes: usize) -> Sent {
    let score = json!({ "board": "b", "member": "ann", "score": 1 }).to_string();
    format!("{score}{}", " ".repeat(bytes)).into()
}

async fn start() -> Option<(Arc<Deployment>, Api, Queue)> {
    if !is_wanted() {
        return None;
    }
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM" })).await;
    let queue = Queue::start(Kind::RabbitMq, &deployment).await;
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
    assert!(error.contains("STREAM is a stream, which remembers no position"), "{error}");

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
        let mut headers = FieldTable::default();
        headers.insert("x-stream-offset".into(), value);
        let properties = BasicProperties::default().with_headers(headers).with_timestamp(1);
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let payload = score(0).payload;
        let sent = channel
            .basic_publish("".into(), "SCORES".into(), options, payload.as_bytes(), properties)
            .await;
        assert!(sent.unwrap().await.unwrap().is_ack());
    }
    let told = run_once(queue.ingest(&deployment, api.url(), api.token()));
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
    let told = run_once(command);
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
    let top = "{ board(slug: \"b\") { standings { top { nodes { score } } } } }";
    let data = api.data(top, json!({})).await;
    // A message without an id counts once, although it came back: it was not submitted before.
    let all = messages.len().to_string();
    assert_eq!(data["board"]["standings"]["top"]["nodes"], json!([{ "score": all }]));
    assert_eq!(queue.letters().await, []);
}
