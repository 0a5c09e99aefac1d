//! RabbitMQ by AMQP 0.9.1: a queue with manual acknowledgements or a stream, and dead letters
//! confirmed by the broker.
//!
//! A message that is not acknowledged is never sent back one by one: it comes back when its channel
//! ends. The broker counts each return against the delivery limit of a quorum queue, so that is
//! rare. A stream is read from an offset, by one consumer: another one would get the same messages.

mod ahead;
pub(crate) mod broker;
mod content;
pub(crate) mod letter;
mod offsets;
mod stream;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use async_trait::async_trait;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Connection, Consumer};
use tokio::time::{Instant, timeout, timeout_at};

use super::address::RabbitMqAddress;
use super::{
    BROKER_TIMEOUT, DeadLetter, IDLE_TIMEOUT, LETTERS_AT_ONCE, Lag, Opening, PREFETCH_BATCHES,
    Source, Trouble, lost,
};
use crate::message::{MESSAGE_BYTES_MAX, Message, Place};
use ahead::Ahead;
use broker::{confirmed, connect, is_not_implemented, look_at, look_for, trouble};
use content::message;
use letter::properties;
use stream::Stream;

/// For how many times the messages that are ahead a long one is remembered.
const CALM: usize = 16;

/// A queue or a stream.
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
    /// The place in it, if it is a stream.
    stream: Option<Stream>,
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
            let offsets = address.stream.as_ref().map(|stream| &stream.offsets);
            if *name == address.queue || Some(name) == offsets {
                return Err(Trouble::Wrong(anyhow!(
                    "{name} cannot have dead letters: expected a queue for them alone"
                )));
            }
            look_for(&letters, name).await?;
            letters.confirm_select(ConfirmSelectOptions::default()).await.map_err(lost)?;
        }
        let stream = match &address.stream {
            Some(stream) => Some(Stream::open(&connection, stream).await?),
            None => None,
        };
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
            stream,
            dead_letters,
            batch: opening.batch.into(),
            batch_bytes: opening.batch_bytes,
            bytes_max: opening.bytes_max,
            linger: opening.linger,
            deliveries: vec![],
            bytes: 0,
        };
        if source.stream.is_none() {
            source.ask_for_one().await?;
        }
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
                "{} is a stream, which remembers no offset of a consumer: expected source=NAME&offsets=QUEUE in the address, or a quorum queue or a classic one",
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
        let options = BasicConsumeOptions::default();
        let begin = self.stream.as_mut().map_or_else(FieldTable::default, Stream::begin);
        let queue = ShortString::from(self.queue.as_str());
        let consumer = self.channel.basic_consume(queue, "".into(), options, begin).await;
        let consumer = consumer.map_err(|error| match self.stream {
            Some(_) => trouble(error, &format!("{} cannot be read as a stream", self.queue)),
            None => trouble(error, "RabbitMQ refuses"),
        })?;
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
        if !has_room || self.prefetch == self.prefetch_max {
            return Ok(());
        }
        match self.stream {
            Some(_) => self.begin_again(usize::from(self.prefetch) + more).await,
            None => self.consume(more).await,
        }
    }

    /// Begins again with so many messages ahead. The broker has back what was not settled.
    async fn begin_again(&mut self, ahead: usize) -> Result<(), Trouble> {
        self.prefetch = 0;
        self.ahead = self.ahead.again();
        self.consumers.clear();
        self.channel.close(200, "done".into()).await.map_err(lost)?;
        self.channel = self.connection.create_channel().await.map_err(lost)?;
        self.consume(ahead).await
    }

    /// Begins again with as many messages ahead as have room.
    async fn take_fewer(&mut self) -> Result<(), Trouble> {
        let before = self.prefetch;
        self.calm = 0;
        self.begin_again(self.fitting()).await?;
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
        let mut message = message(&mut delivery);
        if let Some(stream) = &mut self.stream {
            let offset = stream.take(&delivery, &self.queue)?;
            message.position = offset.to_string();
            message.place = Some(Place { partition: 0, offset });
        }
        self.bytes += message.payload.len();
        batch.push(message);
        self.deliveries.push(delivery);
        Ok(())
    }

    /// Settles the last batch up to the first message that is left.
    async fn settle_in_stream(&mut self, left: &BTreeSet<usize>) -> Result<usize, Trouble> {
        let count = left.first().map_or(self.deliveries.len(), |first| *first);
        if let (Some(stream), Some(last)) = (&mut self.stream, self.deliveries[..count].last()) {
            stream.settle(last).await?;
        }
        // The broker hands out more for it.
        if let Some(last) = self.deliveries.last() {
            let options = BasicAckOptions { multiple: true };
            self.channel.basic_ack(last.delivery_tag, options).await.map_err(lost)?;
        }
        self.release();
        Ok(count)
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
        if self.stream.is_some() {
            return self.settle_in_stream(left).await;
        }
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

    fn name(&self) -> Option<&str> {
        self.stream.as_ref().map(Stream::name)
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
                let position = &batch[letter.index].position;
                let properties = properties(delivery, &self.queue, position, letter);
                let options = BasicPublishOptions { mandatory: true, ..Default::default() };
                let (queue, payload) = (name.as_str().into(), &batch[letter.index].payload);
                let sent =
                    self.letters.basic_publish("".into(), queue, options, payload, properties);
                confirms.push(sent.await.map_err(lost)?);
            }
            for confirm in confirms {
                confirmed(name, "a dead letter", confirm).await?;
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
        if let Some(stream) = &self.stream {
            let waiting = timeout(BROKER_TIMEOUT, stream.waiting(&self.connection, &self.queue));
            let waiting =
                waiting.await.map_err(|_| lost(anyhow!("RabbitMQ does not answer")))??;
            return Ok(Lag { waiting, under_way: 0 });
        }
        let found = timeout(BROKER_TIMEOUT, look_at(&self.channel, &self.queue)).await;
        let found = found.map_err(|_| lost(anyhow!("RabbitMQ does not answer")))?;
        let found = found.map_err(lost)?;
        // Without its leader, a quorum queue seems to be empty, and to have no consumer.
        if found.consumer_count() == 0 {
            return Err(lost(anyhow!("RabbitMQ does not tell how much is left")));
        }
        // It does not tell the messages that others hold.
        let under_way = self.ahead.untaken() as u64;
        Ok(Lag { waiting: found.message_count().into(), under_way })
    }

    async fn close(&mut self) {
        // It waits until the broker has read the acknowledgements before it.
        let _ = timeout(BROKER_TIMEOUT / 10, self.connection.close(200, "done".into())).await;
    }
}
