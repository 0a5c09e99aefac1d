//! RabbitMQ: events in a queue, or through an exchange, confirmed by the broker. One that no queue
//! takes is not confirmed.

use std::path::Path;

use anyhow::anyhow;
use async_trait::async_trait;
use engine::webhook::message::{MEDIA_TYPE, Message};
use futures::future::join_all;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ExchangeKind};
use tokio::time::timeout;

use super::Publisher;
use super::address::{RabbitMqAddress, RabbitMqPlace};
use crate::source::rabbitmq::broker::{connect, look_for, trouble};
use crate::source::rabbitmq::letter::PERSISTENT;
use crate::source::{BROKER_TIMEOUT, Trouble, lost};

/// A queue or an exchange.
pub(super) struct RabbitMq {
    connection: Connection,
    channel: Channel,
    /// The name of the place, for people.
    place: String,
    exchange: ShortString,
    /// The queue; an exchange gets the type of each event in its place.
    queue: Option<ShortString>,
}

impl RabbitMq {
    /// Connects, and looks for the queue or the exchange.
    pub(super) async fn open(
        address: &RabbitMqAddress,
        ca: Option<&Path>,
    ) -> Result<Self, Trouble> {
        let opened = timeout(BROKER_TIMEOUT, Self::connect(address, ca)).await;
        opened.map_err(|_| lost(anyhow!("RabbitMQ does not answer")))?
    }

    async fn connect(address: &RabbitMqAddress, ca: Option<&Path>) -> Result<Self, Trouble> {
        let connection = connect(&address.url, ca).await?;
        let channel = connection.create_channel().await.map_err(lost)?;
        let (exchange, queue, place) = match &address.place {
            RabbitMqPlace::Queue(name) => {
                look_for(&channel, name).await?;
                ("".into(), Some(ShortString::from(name.as_str())), format!("the queue {name}"))
            }
            RabbitMqPlace::Exchange(name) => {
                let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
                let exchange = ShortString::from(name.as_str());
                let (kind, table) = (ExchangeKind::default(), FieldTable::default());
                let declared =
                    channel.exchange_declare(exchange.clone(), kind, options, table).await;
                let missing = format!("the exchange {name} is not there");
                declared.map_err(|error| trouble(error, &missing))?;
                (exchange, None, format!("the exchange {name}"))
            }
        };
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(lost)?;
        Ok(Self { connection, channel, place, exchange, queue })
    }

    async fn publish_one(&self, event: &Message) -> Result<(), Trouble> {
        let properties = BasicProperties::default()
            .with_content_type(MEDIA_TYPE.into())
            .with_delivery_mode(PERSISTENT)
            .with_message_id(ShortString::from(event.id.as_str()))
            .with_type(ShortString::from(event.kind.as_str()))
            .with_timestamp(event.at_ms.div_euclid(1000).unsigned_abs());
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let key = self.queue.clone().unwrap_or_else(|| ShortString::from(event.kind.as_str()));
        let body = event.body.as_bytes();
        let sent =
            self.channel.basic_publish(self.exchange.clone(), key, options, body, properties);
        match sent.await.map_err(lost)?.await.map_err(lost)? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(_)) => Err(Trouble::Wrong(anyhow!(
                "no queue takes an event of type {} from {}",
                event.kind,
                self.place
            ))),
            _ => Err(Trouble::Wrong(anyhow!("{} refuses an event: it may be full", self.place))),
        }
    }
}

#[async_trait]
impl Publisher for RabbitMq {
    async fn publish(&self, events: &[Message]) -> Vec<Result<(), Trouble>> {
        join_all(events.iter().map(|event| self.publish_one(event))).await
    }

    async fn close(&self) {
        let _ = timeout(BROKER_TIMEOUT / 10, self.connection.close(200, "done".into())).await;
    }
}
