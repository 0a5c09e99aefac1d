//! The offset up to which a stream is settled, in a queue of its own.
//!
//! RabbitMQ remembers no offset of a consumer that speaks AMQP 0.9.1. So the program keeps it in a
//! message of a durable queue, which it holds as the only consumer: another process waits until
//! this one is gone. The queue is a classic one, as a quorum queue gives no consumer this right.
//!
//! The last message is settled only after the broker has confirmed the next one. So after a crash
//! there may be two, and the higher one holds.

use std::time::Duration;

use anyhow::anyhow;
use futures::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, Consumer, Error, ErrorKind};
use tokio::time::timeout;

use super::super::{BROKER_TIMEOUT, Trouble, lost};
use super::broker::{confirmed, trouble};
use super::letter::PERSISTENT;

/// How long a message may be on its way that the queue does not count yet.
const ON_ITS_WAY: Duration = Duration::from_millis(500);

/// The queue, held.
pub(super) struct Offsets {
    channel: Channel,
    queue: String,
    consumer: Consumer,
    /// The last message that came back, which is settled when another one is there.
    held: Option<Delivery>,
}

impl Offsets {
    /// Holds the queue, which is made if it is not there. Returns the offset in it, if it has one.
    ///
    /// # Errors
    /// `Lost` while another process holds it, `Wrong` if it has something else.
    pub(super) async fn open(
        connection: &Connection,
        queue: &str,
    ) -> Result<(Self, Option<u64>), Trouble> {
        let channel = connection.create_channel().await.map_err(lost)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(lost)?;
        let mut kind = FieldTable::default();
        kind.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let declared = channel.queue_declare(ShortString::from(queue), options, kind).await;
        let declared = declared.map_err(|error| {
            trouble(
                error,
                &format!("{queue} cannot have the offsets: expected a durable classic queue"),
            )
        })?;
        let options = BasicConsumeOptions { exclusive: true, ..Default::default() };
        let consumed = channel
            .basic_consume(ShortString::from(queue), "".into(), options, FieldTable::default())
            .await;
        let consumer = consumed.map_err(|error| match is_held(&error) {
            true => lost(anyhow!("another process takes this stream, and this one waits for it")),
            false => trouble(error, "RabbitMQ refuses"),
        })?;
        let mut offsets = Self { channel, queue: queue.to_owned(), consumer, held: None };
        let offset = offsets.read(declared.message_count() > 0).await?;
        Ok((offsets, offset))
    }

    /// Takes all messages; returns the highest offset.
    async fn read(&mut self, has_some: bool) -> Result<Option<u64>, Trouble> {
        let (mut highest, mut patience) =
            (None, if has_some { BROKER_TIMEOUT } else { ON_ITS_WAY });
        while let Ok(next) = timeout(patience, self.consumer.next()).await {
            let next = next.ok_or_else(|| lost(anyhow!("RabbitMQ ended the consumer")))?;
            let next = next.map_err(lost)?;
            let offset = std::str::from_utf8(&next.data).ok().and_then(|text| text.parse().ok());
            let offset: u64 = offset.ok_or_else(|| {
                Trouble::Wrong(anyhow!(
                    "the queue {} has something else than an offset: expected a queue of its own",
                    self.queue
                ))
            })?;
            highest = highest.max(Some(offset));
            self.held = Some(next);
            patience = ON_ITS_WAY;
        }
        Ok(highest)
    }

    /// Keeps an offset, and returns when the broker has it.
    pub(super) async fn keep(&mut self, offset: u64) -> Result<(), Trouble> {
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let (queue, text) = (ShortString::from(self.queue.as_str()), offset.to_string());
        let sent =
            self.channel.basic_publish("".into(), queue, options, text.as_bytes(), properties);
        confirmed(&self.queue, "an offset", sent.await.map_err(lost)?).await?;
        // Those before one that came back are settled.
        while let Some(Some(next)) = self.consumer.next().now_or_never() {
            let before = self.held.replace(next.map_err(lost)?);
            if let Some(before) = before {
                let options = BasicAckOptions { multiple: true };
                self.channel.basic_ack(before.delivery_tag, options).await.map_err(lost)?;
            }
        }
        Ok(())
    }
}

/// True if the broker says that a queue has another consumer, which holds it.
fn is_held(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error) if error.get_message().as_str().contains("exclusive use"))
}
