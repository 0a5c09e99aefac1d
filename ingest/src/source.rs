//! Brokers behind one trait: the next batch, its end, its dead letters, and what is left.
//!
//! A broker hands a batch out again unless it was settled, so a source keeps no state of its own.
//! A batch is bounded in messages and in bytes, and so is all that a broker hands out ahead.

pub(crate) mod address;
pub(crate) mod kafka;
pub(crate) mod nats;
pub(crate) mod rabbitmq;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use async_trait::async_trait;
use engine::settings::{CleartextSettings, IngestSettings};

use crate::message::{Fault, Message};
use address::Address;

/// How long a source waits for the first message of a batch.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_millis(500);

/// The batches that a broker hands out ahead of those that are settled.
pub(crate) const PREFETCH_BATCHES: u16 = 4;

/// The dead letters that are sent before the broker has to confirm them. The client of NATS waits
/// for ever where more than 5,000 are not confirmed.
const LETTERS_AT_ONCE: usize = 256;

/// The id and the time of a message in headers of its own, so that it means the same when its dead
/// letter is published again. Kafka knows no other id.
const LETTER_ID: &str = "laurel-message-id";
const LETTER_TIME: &str = "laurel-time";

/// The longest time for one answer of a broker.
pub(crate) const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the broker hears that a batch is still under way.
pub(crate) const KEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The reason why a source does not go on.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The broker does not answer; another connection may do.
    Lost(Error),
    /// The settings do not fit the broker.
    Wrong(Error),
}

/// A message that is put aside, by its index in the batch.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    pub(crate) index: usize,
    pub(crate) fault: Fault,
}

/// The messages that are not settled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lag {
    /// Those that wait to be handed out.
    pub(crate) waiting: u64,
    /// Those that were handed out, as far as the broker tells.
    pub(crate) under_way: u64,
}

/// An open connection to a queue.
#[async_trait]
pub(crate) trait Source: Send {
    /// The next messages, in their order: none if none came for [`IDLE_TIMEOUT`].
    async fn next_batch(&mut self) -> Result<Vec<Message>, Trouble>;

    /// Settles the last batch, but for the messages with these indices and, where a broker keeps
    /// positions, for those after them. Returns how many it settles.
    async fn settle(&mut self, left: &BTreeSet<usize>) -> Result<usize, Trouble>;

    /// Puts messages of the last batch aside, each as it came with the reason in headers, and
    /// returns when the broker has confirmed all of them.
    async fn put_aside(&mut self, batch: &[Message], letters: &[DeadLetter])
    -> Result<(), Trouble>;

    /// The name of the source, if the server is to keep positions: its messages have places then,
    /// and come in their order.
    fn name(&self) -> Option<&str> {
        None
    }

    /// How often [`Self::keep`] has to be called.
    fn keep_interval(&self) -> Duration {
        KEEP_INTERVAL
    }

    /// Tells the broker that the last batch is still under way.
    async fn keep(&mut self) -> Result<(), Trouble>;

    /// The messages that are left.
    async fn lag(&mut self) -> Result<Lag, Trouble>;

    /// Ends the connection, with all that was settled.
    async fn close(&mut self);
}

/// All that opens a source.
#[derive(Debug)]
pub(crate) struct Opening {
    address: Address,
    pub(crate) dead_letters: Option<String>,
    batch: u16,
    /// The bytes of messages that are held, in a batch and ahead of it.
    bytes_max: usize,
    /// Those of a batch, unless one message alone has more.
    batch_bytes: usize,
    linger: Duration,
    ca: Option<PathBuf>,
    /// The progress of the consumer that a connection to NATS has found.
    floor: Arc<nats::Floor>,
}

impl Opening {
    /// The settings, read.
    ///
    /// # Errors
    /// If the address of the queue is missing, none, or in clear text to another machine.
    pub(crate) fn new(settings: &IngestSettings, cleartext: &CleartextSettings) -> Result<Self> {
        let from = settings.from.as_ref().context(
            "no queue is named: expected --from, or LAUREL_INGEST_FROM, such as nats://127.0.0.1:4222/SCORES?consumer=laurel",
        )?;
        let bytes_max = usize::try_from(settings.bytes).unwrap_or(usize::MAX);
        Ok(Self {
            address: Address::parse(from.as_str(), cleartext)?,
            dead_letters: settings.dead_letters.clone(),
            batch: settings.batch,
            bytes_max,
            batch_bytes: bytes_max / usize::from(PREFETCH_BATCHES),
            linger: Duration::from_millis(settings.linger_ms),
            ca: settings.ca.clone(),
            floor: Arc::default(),
        })
    }

    /// The name of the queue, the topic or the stream.
    pub(crate) fn place(&self) -> &str {
        match &self.address {
            Address::RabbitMq(address) => &address.queue,
            Address::Kafka(address) => &address.topic,
            Address::Nats(address) => &address.stream,
        }
    }

    /// True if the server is to keep positions of the source.
    pub(crate) fn keeps_positions(&self) -> bool {
        match &self.address {
            Address::RabbitMq(address) => address.stream.is_some(),
            Address::Kafka(address) => address.source.is_some(),
            Address::Nats(address) => address.source.is_some(),
        }
    }

    /// Opens the source.
    pub(crate) async fn open(&self) -> Result<Box<dyn Source>, Trouble> {
        Ok(match &self.address {
            Address::RabbitMq(address) => Box::new(rabbitmq::RabbitMq::open(self, address).await?),
            Address::Kafka(address) => Box::new(kafka::Kafka::open(self, address).await?),
            Address::Nats(address) => Box::new(nats::Nats::open(self, address).await?),
        })
    }
}

/// An error after which another connection may do.
pub(crate) fn lost(error: impl Into<Error>) -> Trouble {
    Trouble::Lost(error.into())
}

/// Reads an instant in a header, in Unix milliseconds.
fn read_time(text: &str) -> Option<i64> {
    Some(text.parse::<jiff::Timestamp>().ok()?.as_millisecond())
}
