//! The events that a feed has published.

use std::collections::BTreeMap;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use futures::StreamExt;
use lapin::options::{BasicAckOptions, BasicGetOptions};
use serde_json::Value;

use super::{Queue, SCORES, kafka};
use crate::wait::until;

/// An event, as the broker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The partition of the topic; 0 where there is none.
    pub partition: i32,
    pub media_type: String,
    /// The id of the message, where the broker knows any.
    pub id: Option<String>,
    /// The key of the message, where the broker knows any.
    pub key: Option<String>,
    pub body: String,
}

/// A reader of all events of a queue, each time that it is asked.
#[derive(Default)]
pub struct Reader {
    /// Those that a queue of RabbitMQ has no more.
    taken: Vec<Published>,
}

impl Reader {
    /// All events so far, as often as they came.
    pub async fn all(&mut self, queue: &Queue) -> Vec<Published> {
        match queue {
            Queue::Kafka(server) => kafka::published(server),
            Queue::Nats(_) => of_nats(queue).await,
            Queue::RabbitMq(_) | Queue::RabbitMqStream(_) => {
                self.take(queue).await;
                self.taken.clone()
            }
        }
    }

    /// The bodies by their ids, in the order in which each came first. One that came again is the
    /// same.
    pub async fn events(&mut self, queue: &Queue) -> Vec<Value> {
        let (mut events, mut known): (Vec<Value>, BTreeMap<String, String>) = Default::default();
        for published in self.all(queue).await {
            assert_eq!(published.media_type, "application/cloudevents+json; charset=utf-8");
            let event: Value = serde_json::from_str(&published.body).unwrap();
            let id = event["id"].as_str().unwrap().to_owned();
            if let Some(said) = &published.id {
                assert!(said.ends_with(&id), "{said}");
            }
            let key = event["data"]["member"].as_str().or(event["data"]["board"].as_str());
            assert!(published.key.is_none() || published.key.as_deref() == key, "{published:?}");
            match known.get(&id) {
                Some(body) => assert_eq!(*body, published.body, "an id is of one event"),
                None => {
                    known.insert(id, published.body);
                    events.push(event);
                }
            }
        }
        events
    }

    /// Waits until the queue has so many events.
    pub async fn wait_for(&mut self, queue: &Queue, count: usize) -> Vec<Value> {
        let mut events = vec![];
        until("the broker has the events", async || {
            events = self.events(queue).await;
            (events.len() >= count).then_some(())
        })
        .await;
        events
    }

    async fn take(&mut self, queue: &Queue) {
        let (_connection, channel) = queue.channel().await;
        while let Some(got) =
            channel.basic_get(SCORES.into(), BasicGetOptions::default()).await.unwrap()
        {
            let properties = &got.properties;
            self.taken.push(Published {
                partition: 0,
                media_type: properties.content_type().as_ref().unwrap().to_string(),
                id: properties.message_id().as_ref().map(ToString::to_string),
                key: None,
                body: String::from_utf8_lossy(&got.data).into_owned(),
            });
            got.ack(BasicAckOptions::default()).await.unwrap();
        }
    }
}

async fn of_nats(queue: &Queue) -> Vec<Published> {
    let stream = queue.jetstream().await.get_stream(SCORES).await.unwrap();
    // It waits for no acknowledgments, of which a consumer lets 1,000 be missing.
    let config = pull::Config { ack_policy: AckPolicy::None, ..Default::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut messages = consumer.fetch().max_messages(100_000).messages().await.unwrap();
    let mut published = vec![];
    while let Some(message) = messages.next().await {
        let message = message.unwrap();
        let headers = message.headers.as_ref().unwrap();
        published.push(Published {
            partition: 0,
            media_type: headers.get("Content-Type").unwrap().to_string(),
            id: headers.get("Nats-Msg-Id").map(ToString::to_string),
            key: None,
            body: String::from_utf8_lossy(&message.payload).into_owned(),
        });
    }
    published
}
