//! NATS JetStream: events on a subject, confirmed by the stream that keeps it. Each has its id as
//! the id of the message, so that the stream drops one that comes again within its window.

use std::path::Path;

use anyhow::anyhow;
use async_nats::Client;
use async_nats::header::{HeaderMap, NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_trait::async_trait;
use engine::webhook::message::{MEDIA_TYPE, Message};
use futures::future::join_all;
use tokio::time::timeout;

use super::Publisher;
use super::address::NatsAddress;
use crate::source::nats::letters::fits;
use crate::source::nats::{connect, stream, trouble};
use crate::source::{BROKER_TIMEOUT, Trouble, lost};

/// A subject of a stream.
pub(super) struct Nats {
    client: Client,
    context: Context,
    stream: String,
    subject: String,
}

impl Nats {
    /// Connects, and looks for the stream.
    pub(super) async fn open(address: &NatsAddress, ca: Option<&Path>) -> Result<Self, Trouble> {
        let opened = timeout(BROKER_TIMEOUT, Self::connect(address, ca)).await;
        opened.map_err(|_| lost(anyhow!("NATS does not answer")))?
    }

    async fn connect(address: &NatsAddress, ca: Option<&Path>) -> Result<Self, Trouble> {
        let client = connect(&address.servers, ca).await?;
        let mut context = async_nats::jetstream::new(client.clone());
        context.set_timeout(BROKER_TIMEOUT);
        let (name, subject) = (&address.stream, &address.subject);
        let stream = stream(&context, name).await?;
        let filters = &stream.cached_info().config.subjects;
        if !filters.iter().any(|filter| fits(filter, subject)) {
            let filters = filters.join(", ");
            return Err(Trouble::Wrong(anyhow!(
                "the stream {name} does not keep the subject {subject}: expected one of {filters}"
            )));
        }
        Ok(Self { client, context, stream: name.clone(), subject: subject.clone() })
    }

    async fn publish_one(&self, event: &Message) -> Result<(), Trouble> {
        let mut headers = HeaderMap::new();
        headers.insert("Content-Type", MEDIA_TYPE);
        // The ids of two deployments may be the same.
        headers.insert(NATS_MESSAGE_ID, format!("{}/{}", event.source, event.id));
        headers.insert(NATS_EXPECTED_STREAM, self.stream.as_str());
        let body = event.body.clone().into();
        let sent = self.context.publish_with_headers(self.subject.clone(), headers, body).await;
        let confirmed = match sent {
            Ok(confirm) => confirm.await.map(drop),
            Err(error) => Err(error),
        };
        confirmed.map_err(|error| {
            let is_passing = error.kind() != PublishErrorKind::Other;
            let what = format!("the stream {} does not have an event", self.stream);
            trouble(is_passing, anyhow!("{what}: {error}"))
        })
    }
}

#[async_trait]
impl Publisher for Nats {
    async fn publish(&self, events: &[Message]) -> Vec<Result<(), Trouble>> {
        join_all(events.iter().map(|event| self.publish_one(event))).await
    }

    async fn close(&self) {
        let _ = timeout(BROKER_TIMEOUT / 10, self.client.drain()).await;
    }
}
