//! Kafka: events in a topic, those of a key in one partition, confirmed by all brokers that keep
//! it. The producer is idempotent, so that its own repeats leave no event twice.

use std::path::Path;

use anyhow::anyhow;
use async_trait::async_trait;
use engine::webhook::message::{MEDIA_TYPE, Message};
use futures::future::join_all;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Publisher;
use super::address::KafkaAddress;
use crate::source::kafka::client;
use crate::source::kafka::letters::Quiet;
use crate::source::{BROKER_TIMEOUT, Trouble, lost};

/// How long the producer waits for more events of a partition, in milliseconds.
const LINGER_MS: u32 = 2;

/// A topic.
pub(super) struct Kafka {
    /// `None` only at the end.
    producer: Option<FutureProducer<Quiet>>,
    topic: String,
}

impl Kafka {
    /// Connects, and looks for the topic.
    pub(super) async fn open(address: &KafkaAddress, ca: Option<&Path>) -> Result<Self, Trouble> {
        let brokers = &address.brokers;
        let mut config = client::config(brokers, ca)?;
        config
            .set("enable.idempotence", "true")
            .set("allow.auto.create.topics", "false")
            .set("linger.ms", LINGER_MS.to_string())
            .set("message.timeout.ms", BROKER_TIMEOUT.as_millis().to_string());
        let producer: FutureProducer<Quiet> =
            config.create_with_context(Quiet).map_err(|error| Trouble::Wrong(error.into()))?;
        let (asked, topic) = (producer.clone(), address.topic.clone());
        let allows_cleartext = brokers.has_tls || brokers.allows_cleartext;
        let looking =
            spawn_blocking(move || client::look_for(asked.client(), &topic, allows_cleartext));
        let looked = timeout(BROKER_TIMEOUT, looking).await;
        looked.map_err(|_| lost(anyhow!("Kafka does not answer")))?.map_err(lost)??;
        Ok(Self { producer: Some(producer), topic: address.topic.clone() })
    }

    async fn publish_one(&self, event: &Message) -> Result<(), Trouble> {
        let producer = self.producer.as_ref().expect("it is there until the end");
        let header = Header { key: "content-type", value: Some(MEDIA_TYPE) };
        let record = FutureRecord::to(&self.topic)
            .key(&event.key)
            .payload(&event.body)
            .headers(OwnedHeaders::new().insert(header));
        let sent = producer.send(record, BROKER_TIMEOUT).await;
        let missing =
            |error: KafkaError| anyhow!("the topic {} does not have an event: {error}", self.topic);
        sent.map(drop).map_err(|(error, _)| lost(missing(error)))
    }
}

#[async_trait]
impl Publisher for Kafka {
    async fn publish(&self, events: &[Message]) -> Vec<Result<(), Trouble>> {
        join_all(events.iter().map(|event| self.publish_one(event))).await
    }

    async fn close(&self) {
        // The client ends when it is dropped.
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // The client blocks while it ends.
        let producer = self.producer.take();
        std::thread::spawn(move || drop(producer));
    }
}
