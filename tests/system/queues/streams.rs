//! Streams of NATS: letters that have no room, many letters at once, consumers that are gone.

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Kind, Queue, Sent, ingest_from};

use super::game::{only_letter, run_once};
use super::operations::Operations;

/// The longest message that a server of NATS takes, in bytes.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

#[tokio::test]
async fn a_message_that_leaves_its_letter_no_room_is_put_aside_without_its_end() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let payload = "x".repeat(PAYLOAD_BYTES_MAX);
    queue.publish(&[payload.clone().into()]).await;
    let mut command = queue.ingest(&deployment, api.url(), api.token());
    // The message is longer than a batch may be, so it is taken alone.
    command.env("LAUREL_INGEST_BYTES", (4 << 20).to_string());
    let told = run_once(&deployment, command).await;
    assert!(told.contains("put 1 messages aside"), "{told}");
    let letter = only_letter(&queue).await;
    assert_eq!(letter.cut, Some(PAYLOAD_BYTES_MAX.to_string()));
    assert!(
        letter.payload.len() > PAYLOAD_BYTES_MAX - 2000 && payload.starts_with(&letter.payload)
    );
    assert!(letter.reason.contains("it is not a score"), "{letter:?}");
}

#[tokio::test]
async fn a_batch_of_letters_alone_is_put_aside() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    // The client of NATS lets 5,000 be under way.
    let messages: Vec<Sent> = (0..6000).map(|number| format!("poison {number}").into()).collect();
    queue.publish(&messages).await;
    // A consumer that the program makes has time for all of them.
    let from = queue.url().replace("consumer=laurel", "consumer=other");
    let mut command = ingest_from(&from, &deployment, api.url(), api.token());
    command.env("LAUREL_INGEST_BATCH", "10000");
    let told = run_once(&deployment, command).await;
    assert!(told.contains("put 6000 messages aside"), "{told}");
    assert_eq!(queue.letters().await.len(), 6000);
}

#[tokio::test]
async fn messages_are_taken_in_batches_of_so_many_bytes() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM" })).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    let message = |bytes: usize| {
        let score = json!({ "board": "b", "member": "ann", "score": 1 }).to_string();
        Sent::from(format!("{score}{}", " ".repeat(bytes)))
    };
    let messages: Vec<Sent> =
        [0, 700_000, 10, 300_000, 300_000, 300_000, 300_000, 1_048_000, 5].map(message).into();
    queue.publish(&messages).await;
    let mut command = queue.ingest(&deployment, api.url(), api.token());
    command.env("LAUREL_INGEST_BYTES", (4 << 20).to_string());
    let told = run_once(&deployment, command).await;
    assert!(told.contains("settled 9 messages with 9 scores applied"), "{told}");
}

#[tokio::test]
async fn a_consumer_that_is_gone_is_not_made_again() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM" })).await;
    let queue = Queue::start(Kind::Nats, &deployment).await;
    // Without an id, a score that is handed out again counts again.
    let score = Sent::from(json!({ "board": "b", "member": "ann", "score": 1 }).to_string());
    queue.publish(&[score.clone(), score.clone(), score.clone()]).await;
    let mut command = queue.ingest(&deployment, api.url(), api.token());
    let operations = Operations::of(&mut command);
    let ingest = Ingest::start(&deployment, command);
    operations.until_settled(3).await;
    let stream = queue.jetstream().await.get_stream("SCORES").await.unwrap();
    stream.delete_consumer("laurel").await.unwrap();
    queue.publish(&[score]).await;
    let why = operations.until_paused("the consumer laurel of the stream SCORES is gone").await;
    assert!(why.contains("nats consumer add SCORES laurel"), "{why}");
    assert!(ingest.log().contains("is gone"), "{}", ingest.log());
    let config = pull::Config {
        durable_name: Some("laurel".to_owned()),
        ack_policy: AckPolicy::Explicit,
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: 4 },
        ..Default::default()
    };
    stream.create_consumer(config).await.unwrap();
    operations.until_settled(4).await;
    let top = "{ board(slug: \"b\") { standings { top { nodes { score } } } } }";
    let data = api.data(top, json!({})).await;
    assert_eq!(data["board"]["standings"]["top"]["nodes"], json!([{ "score": "4" }]));
}
