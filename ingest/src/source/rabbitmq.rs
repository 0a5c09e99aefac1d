//! RabbitMQ by AMQP 0.9.1: a queue with manual acknowledgements, and dead letters confirmed by the
//! broker.
//!
//! A message that is not acknowledged is never sent back one by one: it comes back when its channel
//! ends. The broker counts each return against the delivery limit of a quorum queue, so that is
//! rare.

mod ahead;
pub(crate) mod broker;
pub(crate) mod letter;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use async_trait::async_trait;
use futures::TryFutureExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::protocol::{AMQPErrorKind, AMQPHardError};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Confirmation, Connection, Consumer, Error, ErrorKind};
use tokio::time::{Instant, timeout, timeout_at};

use super::address::RabbitMqAddress;
use super::{
    BROKER_TIMEOUT, DeadLetter, IDLE_TIMEOUT, LETTERS_AT_ONCE, Lag, Opening, PREFETCH_BATCHES,
    Source, Trouble, lost,
};
use crate::message::{MESSAGE_BYTES_MAX, Message};
use ahead::Ahead;
use broker::{connect, look_for, trouble};
use letter::properties;

/// The prefixes of a CloudEvent's attributes in headers.
const CLOUD_EVENT: [&str; 2] = ["cloudEvents:", "cloudEvents_"];

/// For how many times the messages that are ahead a long one is remembered.
const CALM: usize = 16;

/// A queue.
pub(super) struct RabbitMq {
    connection: Connection,
    channel: Channel,
    /// The channel of dead letters: an error on it leaves the other one alone.
    letters: Channel,
    /// Each stands for a part of what is handed out ahead: the part of one cannot grow.
    consumers: Vec<Consumer>,
    ahead: Ahead,
    /// The messages that the broker hands out ahead, to all consumers.
    prefetch: u16,
    prefetch_max: u16,
    /// The messages that were settled since fewer are ahead, or since the longest was forgotten.
    calm: usize,
    queue: String,
    dead_letters: Option<String>,
    batch: usize,
    batch_bytes: usize,
    bytes_max: usize,
    linger: Duration,
    /// The last batch, and its bytes.
    deliveries: Vec<Delivery>,
    bytes: usize,
}

impl RabbitMq {
    /// Connects, looks for the queues, and begins to consume.
    pub(super) async fn open(
        opening: &Opening,
        address: &RabbitMqAddress,
    ) -> Result<Self, Trouble> {
        let opened = timeout(BROKER_TIMEOUT, Self::connect(opening, address)).await;
        opened.map_err(|_| lost(anyhow!("RabbitMQ does not answer")))?
    }

    async fn connect(opening: &Opening, address: &RabbitMqAddress) -> Result<Self, Trouble> {
        let connection = connect(&address.url, opening.ca.as_deref()).await?;
        let dead_letters = opening.dead_letters.clone();
        let channel = connection.create_channel().await.map_err(lost)?;
        look_for(&channel, &address.queue).await?;
        let letters = connection.create_channel().await.map_err(lost)?;
        if let Some(name) = &dead_letters {
            if *name == address.queue {
                return Err(Trouble::Wrong(anyhow!(
                    "dead letters would come back: expected another queue than {name}"
                )));
            }
            look_for(&letters, name).await?;
            letters.confirm_select(ConfirmSelectOptions::default()).await.map_err(lost)?;
        }
        let mut source = Self {
            connection,
            channel,
            letters,
            consumers: vec![],
            ahead: Ahead::new(opening.bytes_max),
            prefetch: 0,
            prefetch_max: opening.batch * PREFETCH_BATCHES,
            calm: 0,
            queue: address.queue.clone(),
            dead_letters,
            batch: opening.batch.into(),
            batch_bytes: opening.batch_bytes,
            bytes_max: opening.bytes_max,
            linger: opening.linger,
            deliveries: vec![],
            bytes: 0,
        };
        source.ask_for_one().await?;
        // As many of the longest ones have room; more follow as their lengths are known.
        source.consume(opening.bytes_max / MESSAGE_BYTES_MAX).await?;
        Ok(source)
    }

    /// Takes the first message by itself: a stream refuses that, and a queue of any other kind does
    /// not.
    async fn ask_for_one(&mut self) -> Result<(), Trouble> {
        let queue = ShortString::from(self.queue.as_str());
        match self.channel.basic_get(queue, BasicGetOptions::default()).await {
            Ok(first) => {
                first.into_iter().for_each(|first| self.ahead.hold(first.delivery));
                Ok(())
            }
            Err(error) if is_not_implemented(&error) => Err(Trouble::Wrong(anyhow!(
                "{} is a stream, which remembers no position of a consumer: expected a quorum queue or a classic one",
                self.queue
            ))),
            // A queue with a single active consumer gives nothing in this way.
            Err(_) => {
                self.channel = self.connection.create_channel().await.map_err(lost)?;
                Ok(())
            }
        }
    }

    /// Has so many messages more handed out ahead.
    async fn consume(&mut self, more: usize) -> Result<(), Trouble> {
        let room = self.prefetch_max - self.prefetch;
        let more = u16::try_from(more).unwrap_or(u16::MAX).min(room).max(1);
        self.channel.basic_qos(more, BasicQosOptions::default()).await.map_err(lost)?;
        let (options, table) = (BasicConsumeOptions::default(), FieldTable::default());
        let queue = ShortString::from(self.queue.as_str());
        let consumer = self.channel.basic_consume(queue, "".into(), options, table).await;
        let consumer = consumer.map_err(|error| trouble(error, "RabbitMQ refuses"))?;
        self.ahead.listen(&consumer);
        self.consumers.push(consumer);
        self.prefetch += more;
        Ok(())
    }

    /// The messages that fill half of the memory if all are as long as the longest.
    fn fitting(&self) -> usize {
        self.bytes_max / 2 / self.ahead.longest().max(1)
    }

    /// Has twice as many messages handed out ahead where they have room. A long one is remembered
    /// for a while, so that the same messages do not come back again and again.
    async fn take_more(&mut self) -> Result<(), Trouble> {
        if self.calm >= CALM * usize::from(self.prefetch) {
            self.calm = 0;
            self.ahead.forget_longest();
        }
        let peak = self.ahead.take_peak();
        let more = self.fitting().saturating_sub(self.prefetch.into()).min(self.prefetch.into());
        let has_room = 0 < peak && peak <= self.bytes_max / 4 && more > 0;
        if has_room && self.prefetch < self.prefetch_max {
            self.consume(more).await?;
        }
        Ok(())
    }

    /// Begins again with as many messages ahead as have room. The broker has the others back.
    async fn take_fewer(&mut self) -> Result<(), Trouble> {
        let before = std::mem::take(&mut self.prefetch);
        self.ahead = self.ahead.again();
        self.consumers.clear();
        self.channel.close(200, "done".into()).await.map_err(lost)?;
        self.channel = self.connection.create_channel().await.map_err(lost)?;
        self.calm = 0;
        self.consume(self.fitting()).await?;
        tracing::info!(
            "RabbitMQ handed out more ahead than {} bytes: {before} messages, and {} from now on",
            self.bytes_max,
            self.prefetch
        );
        Ok(())
    }

    /// Takes a delivery into the batch.
    fn take(
        &mut self,
        delivery: lapin::Result<Option<Delivery>>,
        batch: &mut Vec<Message>,
    ) -> Result<(), Trouble> {
        let delivery = delivery.map_err(lost)?;
        let mut delivery = delivery.ok_or_else(|| lost(anyhow!("RabbitMQ ended the consumer")))?;
        let message = message(&mut delivery);
        self.bytes += message.payload.len();
        batch.push(message);
        self.deliveries.push(delivery);
        Ok(())
    }

    /// Forgets the last batch, which is settled.
    fn release(&mut self) {
        self.calm += self.deliveries.len();
        self.ahead.release(self.deliveries.len(), std::mem::take(&mut self.bytes));
        self.deliveries.clear();
    }
}

#[async_trait]
impl Source for RabbitMq {
    async fn next_batch(&mut self) -> Result<Vec<Message>, Trouble> {
        match self.ahead.is_over() {
            true => {
                let fewer = timeout(BROKER_TIMEOUT, self.take_fewer()).await;
                fewer.map_err(|_| lost(anyhow!("RabbitMQ does not answer")))??;
            }
            false => self.take_more().await?,
        }
        let mut batch = vec![];
        let Ok(first) = timeout(IDLE_TIMEOUT, self.ahead.next()).await else {
            return Ok(batch);
        };
        self.take(first, &mut batch)?;
        let deadline = Instant::now() + self.linger;
        let most = self.batch.min(self.prefetch.into());
        while batch.len() < most && self.bytes < self.batch_bytes {
            let Ok(next) = timeout_at(deadline, self.ahead.next()).await else { break };
            self.take(next, &mut batch)?;
        }
        Ok(batch)
    }

    async fn settle(&mut self, left: &BTreeSet<usize>) -> Result<usize, Trouble> {
        let tags = self.deliveries.iter().map(|delivery| delivery.delivery_tag).enumerate();
        let settled: Vec<u64> =
            tags.filter(|(index, _)| !left.contains(index)).map(|(_, tag)| tag).collect();
        let count = settled.len();
        if left.is_empty() {
            let Some(&last) = settled.last() else { return Ok(0) };
            // Everything before it belongs to this batch or is settled.
            let options = BasicAckOptions { multiple: true };
            self.channel.basic_ack(last, options).await.map_err(lost)?;
        } else {
            for tag in settled {
                let options = BasicAckOptions::default();
                self.channel.basic_ack(tag, options).await.map_err(lost)?;
            }
        }
        self.release();
        Ok(count)
    }

    async fn put_aside(
        &mut self,
        batch: &[Message],
        letters: &[DeadLetter],
    ) -> Result<(), Trouble> {
        let Some(name) = &self.dead_letters else { return Ok(()) };
        for group in letters.chunks(LETTERS_AT_ONCE) {
            let mut confirms = vec![];
            for letter in group {
                let delivery = &self.deliveries[letter.index];
                let properties = properties(delivery, &self.queue, letter);
                let options = BasicPublishOptions { mandatory: true, ..Default::default() };
                let (queue, payload) = (name.as_str().into(), &batch[letter.index].payload);
                let sent =
                    self.letters.basic_publish("".into(), queue, options, payload, properties);
                confirms.push(sent.await.map_err(lost)?);
            }
            for confirm in confirms {
                confirmed(name, confirm).await?;
            }
        }
        Ok(())
    }

    async fn keep(&mut self) -> Result<(), Trouble> {
        match self.channel.status().connected() {
            true => Ok(()),
            false => Err(lost(anyhow!("the connection to RabbitMQ has ended"))),
        }
    }

    async fn lag(&mut self) -> Result<Lag, Trouble> {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let queue = ShortString::from(self.queue.as_str());
        let declared = self.channel.queue_declare(queue, options, FieldTable::default());
        let declared = timeout(BROKER_TIMEOUT, declared.map_err(lost)).await;
        let declared = declared.map_err(|_| lost(anyhow!("RabbitMQ does not answer")))??;
        // Without its leader, a quorum queue seems to be empty, and to have no consumer.
        if declared.consumer_count() == 0 {
            return Err(lost(anyhow!("RabbitMQ does not tell how much is left")));
        }
        // It does not tell the messages that others hold.
        let under_way = self.ahead.untaken() as u64;
        Ok(Lag { waiting: declared.message_count().into(), under_way })
    }

    async fn close(&mut self) {
        // It waits until the broker has read the acknowledgements before it.
        let _ = timeout(BROKER_TIMEOUT / 10, self.connection.close(200, "done".into())).await;
    }
}

/// Waits until the broker has a dead letter.
async fn confirmed(
    name: &str,
    confirm: impl Future<Output = lapin::Result<Confirmation>>,
) -> Result<(), Trouble> {
    let confirmed = timeout(BROKER_TIMEOUT, confirm).await;
    let confirmed = confirmed.map_err(|_| lost(anyhow!("RabbitMQ confirms no dead letter")))?;
    match confirmed.map_err(lost)? {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(_)) => {
            Err(Trouble::Wrong(anyhow!("the queue {name} for dead letters is gone")))
        }
        _ => Err(lost(anyhow!("RabbitMQ refuses a dead letter in {name}"))),
    }
}

/// True if the broker says that a queue of this kind cannot do what was asked.
fn is_not_implemented(error: &Error) -> bool {
    let kind = AMQPErrorKind::Hard(AMQPHardError::NOTIMPLEMENTED);
    matches!(error.kind(), ErrorKind::ProtocolError(error) if *error.kind() == kind)
}

/// A delivery as a message; takes its payload.
fn message(delivery: &mut Delivery) -> Message {
    let properties = &delivery.properties;
    let mut message = Message {
        position: delivery.delivery_tag.to_string(),
        subject: delivery.routing_key.to_string(),
        payload: std::mem::take(&mut delivery.data).into(),
        content_type: properties.content_type().as_ref().map(ToString::to_string),
        id: properties.message_id().as_ref().map(ToString::to_string),
        at_ms: properties.timestamp().and_then(|s| i64::try_from(s).ok()?.checked_mul(1000)),
        ..Message::default()
    };
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        let name = name.as_str();
        if name == "timestamp_in_ms" {
            // The broker's own clock, if it stamps messages.
            let at_ms = text(value).and_then(|text| text.parse().ok());
            message.at_ms = at_ms.or(message.at_ms);
        }
        let attribute = CLOUD_EVENT.iter().find_map(|prefix| name.strip_prefix(prefix));
        if let (Some(attribute), Some(text)) = (attribute, text(value)) {
            message.attributes.insert(attribute.to_owned(), text);
        }
    }
    message
}

/// The text of a header.
fn text(value: &AMQPValue) -> Option<String> {
    Some(match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::LongLongInt(number) => number.to_string(),
        AMQPValue::LongInt(number) => number.to_string(),
        // A timestamp of AMQP has seconds; as the time of an event it is read as RFC 3339.
        AMQPValue::Timestamp(seconds) => {
            jiff::Timestamp::from_second(i64::try_from(*seconds).ok()?).ok()?.to_string()
        }
        _ => return None,
    })
}
