//! The place in a stream of RabbitMQ: its messages have offsets, one after the other, and stay.

use anyhow::anyhow;
use futures::StreamExt;
use lapin::Connection;
use lapin::message::Delivery;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::super::address::StreamAddress;
use super::super::{Trouble, lost};
use super::broker::look_at;
use super::offsets::Offsets;

/// The header of a message, and the argument of a consumer.
const OFFSET: &str = "x-stream-offset";

/// A stream that one process reads.
pub(super) struct Stream {
    source: String,
    offsets: Offsets,
    /// All messages before this offset are settled; `None` if none is.
    next: Option<u64>,
    /// The offset of the next message, as far as it is known.
    expected: Option<u64>,
}

impl Stream {
    /// Finds the place where this or another process stopped.
    pub(super) async fn open(
        connection: &Connection,
        address: &StreamAddress,
    ) -> Result<Self, Trouble> {
        let (offsets, next) = Offsets::open(connection, &address.offsets).await?;
        Ok(Self { source: address.source.clone(), offsets, next, expected: None })
    }

    /// The name of the source.
    pub(super) fn name(&self) -> &str {
        &self.source
    }

    /// The arguments of a consumer that begins at the first message that is not settled.
    pub(super) fn begin(&mut self) -> FieldTable {
        self.expected = self.next;
        let offset = self.next.and_then(|next| i64::try_from(next).ok());
        let first = AMQPValue::LongString("first".into());
        from(offset.map_or(first, AMQPValue::LongLongInt))
    }

    /// Takes a message; returns its offset.
    pub(super) fn take(&mut self, delivery: &Delivery, queue: &str) -> Result<u64, Trouble> {
        let offset = offset_of(delivery).ok_or_else(|| no_stream(queue))?;
        if let Some(expected) = self.expected.filter(|expected| offset > *expected) {
            tracing::warn!(
                "{} messages from {expected} on are gone from {queue}: it keeps fewer than were not taken",
                offset - expected
            );
        }
        self.expected = Some(offset + 1);
        Ok(offset)
    }

    /// Settles all messages up to one.
    pub(super) async fn settle(&mut self, last: &Delivery) -> Result<(), Trouble> {
        let Some(last) = offset_of(last) else { return Ok(()) };
        self.offsets.keep(last + 1).await?;
        self.next = Some(last + 1);
        Ok(())
    }

    /// The messages that are not settled: those up to the beginning of the last chunk, in which the
    /// broker writes messages that came together.
    pub(super) async fn waiting(
        &self,
        connection: &Connection,
        queue: &str,
    ) -> Result<u64, Trouble> {
        let channel = connection.create_channel().await.map_err(lost)?;
        let found = look_at(&channel, queue).await.map_err(lost)?;
        let mut waiting = 0;
        if found.message_count() > 0 {
            channel.basic_qos(1, BasicQosOptions::default()).await.map_err(lost)?;
            let last = from(AMQPValue::LongString("last".into()));
            let (name, options) = (ShortString::from(queue), BasicConsumeOptions::default());
            let consumed = channel.basic_consume(name, "".into(), options, last);
            let mut consumer = consumed.await.map_err(lost)?;
            let last = consumer.next().await;
            let last = last.ok_or_else(|| lost(anyhow!("RabbitMQ ended the consumer")))?;
            let last = offset_of(&last.map_err(lost)?).ok_or_else(|| no_stream(queue))?;
            waiting = (last + 1).saturating_sub(self.next.unwrap_or(0));
        }
        channel.close(200, "done".into()).await.map_err(lost)?;
        Ok(waiting)
    }
}

fn from(offset: AMQPValue) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert(OFFSET.into(), offset);
    arguments
}

fn offset_of(delivery: &Delivery) -> Option<u64> {
    let headers = delivery.properties.headers().as_ref()?;
    match headers.inner().get(OFFSET)? {
        AMQPValue::LongLongInt(offset) => u64::try_from(*offset).ok(),
        _ => None,
    }
}

fn no_stream(queue: &str) -> Trouble {
    Trouble::Wrong(anyhow!(
        "{queue} is no stream, so its messages have no offsets: expected an address without source and offsets"
    ))
}
