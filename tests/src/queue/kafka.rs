//! A topic of scores on a Kafka: messages to it, and dead letters from another topic.

use std::time::Duration;

use futures::future::try_join_all;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::{DEAD, Letter, Published, SCORES, Sent};
use crate::servers::kafka::Kafka;
use crate::wait::until;

/// The partitions of the topic of scores.
const PARTITIONS: i32 = 4;

/// The longest message of a test, in bytes.
const MESSAGE_BYTES_MAX: &str = "4194304";

/// The longest wait for a broker.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The session of a member: short, as a test waits for the partitions of a killed one. The mock
/// cluster goes on without a member that joins again a second before its session is over, and
/// stands still for ever if that one leads, so it is longer than some polls of a busy member.
const SESSION_MS: u32 = 6000;

/// Makes the topics.
pub(super) async fn create_topics(server: &Kafka) {
    server.create_topic(SCORES, PARTITIONS).await;
    server.create_topic(DEAD, 1).await;
}

/// The address of the topic, as `--from` takes it.
pub(super) fn url(server: &Kafka) -> String {
    let servers = server.servers();
    format!("kafka://{servers}/{SCORES}?group=laurel&session.timeout.ms={SESSION_MS}")
}

/// Publishes messages in one partition or in any, and waits until the broker has confirmed them.
pub(super) async fn publish(server: &Kafka, messages: &[Sent], partition: Option<i32>) {
    let producer: FutureProducer = config(server)
        .set("acks", "all")
        // Otherwise all messages sent within ten milliseconds would go to one partition.
        .set("sticky.partitioning.linger.ms", "0")
        .set("message.max.bytes", MESSAGE_BYTES_MAX)
        .create()
        .unwrap();
    let sent = messages.iter().map(|message| {
        let mut headers = OwnedHeaders::new();
        if let Some(kind) = message.content_type {
            headers = headers.insert(Header { key: "content-type", value: Some(kind) });
        }
        for (name, value) in &message.attributes {
            let key = format!("ce_{name}");
            headers = headers.insert(Header { key: &key, value: Some(value.as_str()) });
        }
        let mut record: FutureRecord<'_, (), str> =
            FutureRecord::to(SCORES).payload(message.payload.as_str()).headers(headers);
        record.partition = partition;
        producer.send(record, TIMEOUT)
    });
    try_join_all(sent).await.unwrap();
}

/// Waits until the brokers answer.
pub(super) async fn until_up(server: &Kafka) {
    until("Kafka answers", async || {
        let consumer: BaseConsumer = config(server).create().unwrap();
        consumer.fetch_metadata(Some(SCORES), Duration::from_secs(1)).ok()
    })
    .await;
}

/// All dead letters.
pub(super) fn letters(server: &Kafka) -> Vec<Letter> {
    let consumer: BaseConsumer = config(server).set("group.id", "reader").create().unwrap();
    let (low, high) = consumer.fetch_watermarks(DEAD, 0, TIMEOUT).unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(DEAD, 0, Offset::Offset(low)).unwrap();
    consumer.assign(&list).unwrap();
    let mut letters = vec![];
    while letters.len() < usize::try_from(high - low).unwrap() {
        let message = consumer.poll(TIMEOUT).expect("the letters are there").unwrap();
        let find = |name: &str| {
            let headers = message.headers().unwrap();
            let mut found = headers.iter().filter(|header| header.key == name);
            let value = found.next().and_then(|header| header.value);
            assert!(found.next().is_none(), "{name} is there twice");
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        letters.push(Letter {
            payload: String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned(),
            code: find("laurel-code").unwrap(),
            reason: find("laurel-reason").unwrap(),
            cut: find("laurel-cut"),
        });
        assert_eq!(find("laurel-source").as_deref(), Some(SCORES));
        let position = find("laurel-position").unwrap();
        let (partition, offset) = position.split_once('/').unwrap();
        assert!(partition.parse::<i32>().is_ok() && offset.parse::<i64>().is_ok(), "{position}");
    }
    letters
}

/// All events of the topic, partition by partition in their order.
pub(super) fn published(server: &Kafka) -> Vec<Published> {
    let consumer: BaseConsumer = config(server).set("group.id", "reader").create().unwrap();
    let (mut list, mut count) = (TopicPartitionList::new(), 0);
    for partition in 0..PARTITIONS {
        let (low, high) = consumer.fetch_watermarks(SCORES, partition, TIMEOUT).unwrap();
        list.add_partition_offset(SCORES, partition, Offset::Offset(low)).unwrap();
        count += usize::try_from(high - low).unwrap();
    }
    consumer.assign(&list).unwrap();
    let mut found = vec![];
    while found.len() < count {
        let message = consumer.poll(TIMEOUT).expect("the events are there").unwrap();
        let headers = message.headers().unwrap();
        assert_eq!((headers.count(), headers.get(0).key), (1, "content-type"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let published = Published {
            partition: message.partition(),
            media_type: headers.get(0).value.map(text).unwrap(),
            id: None,
            key: message.key().map(text),
            body: message.payload().map(text).unwrap(),
        };
        found.push((message.offset(), published));
    }
    found.sort_by_key(|(offset, published)| (published.partition, *offset));
    found.into_iter().map(|(_, published)| published).collect()
}

fn config(server: &Kafka) -> ClientConfig {
    ClientConfig::new().set("bootstrap.servers", server.servers()).to_owned()
}
