//! Dead letters in a topic of Kafka: each with the reason in headers, and short enough for the
//! topic.

use anyhow::anyhow;
use futures::future::try_join_all;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::super::{BROKER_TIMEOUT, DeadLetter, LETTER_TIME, LETTERS_AT_ONCE, Trouble};
use super::client::trouble;
use super::delivery::Delivery;
use crate::format::{instant, shortened};
use crate::message::Message;

/// The header that has the length of a message of which only the beginning is in its letter.
const CUT: &str = "laurel-cut";

/// The longest letter that the client sends, in bytes: the broker and the topic have bounds of
/// their own.
const LETTER_BYTES_MAX: usize = 1_000_000_000;

/// A client that says nothing by itself.
#[derive(Clone)]
pub(crate) struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _: RDKafkaLogLevel, fac: &str, message: &str) {
        tracing::debug!("librdkafka: {fac}: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {error}: {reason}");
    }
}

/// The topic of dead letters.
pub(super) struct Letters {
    producer: FutureProducer<Quiet>,
    topic: String,
    /// The topic that the messages are from.
    source: String,
}

impl Letters {
    /// A producer for a topic, which is there.
    pub(super) fn new(
        config: &ClientConfig,
        topic: &str,
        source: &str,
    ) -> Result<Self, KafkaError> {
        let mut config = config.clone();
        config
            .set("acks", "all")
            .set("allow.auto.create.topics", "false")
            // A topic bounds what is sent together, so a letter is sent alone.
            .set("batch.num.messages", "1")
            .set("linger.ms", "0")
            .set("message.max.bytes", LETTER_BYTES_MAX.to_string())
            .set("message.timeout.ms", BROKER_TIMEOUT.as_millis().to_string());
        Ok(Self {
            producer: config.create_with_context(Quiet)?,
            topic: topic.to_owned(),
            source: source.to_owned(),
        })
    }

    /// Sends letters, and returns when all brokers that keep the topic have them.
    pub(super) async fn send(
        &self,
        deliveries: &[Delivery],
        batch: &[Message],
        letters: &[DeadLetter],
    ) -> Result<(), Trouble> {
        for group in letters.chunks(LETTERS_AT_ONCE) {
            let sent = group.iter().map(|letter| {
                self.send_one(&deliveries[letter.index], &batch[letter.index], letter)
            });
            try_join_all(sent).await?;
        }
        Ok(())
    }

    /// Sends a letter. One that is too long for the topic loses the end of its message, half of it
    /// at a time, and at last its own headers and its key.
    async fn send_one(
        &self,
        delivery: &Delivery,
        message: &Message,
        letter: &DeadLetter,
    ) -> Result<(), Trouble> {
        let (whole, mut is_cut) = (&message.payload, false);
        let (mut bytes, mut own, mut key) =
            (whole.len(), delivery.headers.as_ref(), delivery.key.as_deref());
        loop {
            let mut headers = headers(own, &self.source, message, letter);
            if is_cut {
                headers = with(headers, CUT, &whole.len().to_string());
            }
            let mut record: FutureRecord<'_, [u8], [u8]> =
                FutureRecord::to(&self.topic).payload(&whole[..bytes]).headers(headers);
            (record.key, record.timestamp) = (key, message.at_ms);
            let Err((error, _)) = self.producer.send(record, BROKER_TIMEOUT).await else {
                return Ok(());
            };
            let is_too_long =
                error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge);
            let is_bare = bytes == 0 && own.is_none() && key.is_none();
            match (is_too_long, is_bare) {
                (true, true) => {
                    return Err(Trouble::Wrong(anyhow!(
                        "the topic {} takes no message that is long enough for a dead letter",
                        self.topic
                    )));
                }
                (true, false) if bytes == 0 => (own, key) = (None, None),
                (true, false) => (bytes, is_cut) = (bytes / 2, true),
                (false, _) => {
                    let told = format!("no broker confirms a dead letter in {}", self.topic);
                    return Err(trouble(error, &told));
                }
            }
        }
    }
}

/// The headers of a letter: those of its message, and those that say what it is.
fn headers(
    own: Option<&OwnedHeaders>,
    source: &str,
    message: &Message,
    letter: &DeadLetter,
) -> OwnedHeaders {
    let at = message.at_ms.and_then(instant);
    let mut told = vec![
        ("laurel-reason", letter.fault.reason.clone()),
        ("laurel-code", shortened(&letter.fault.code)),
        ("laurel-source", source.to_owned()),
        ("laurel-position", message.position.clone()),
    ];
    told.extend(at.map(|at| (LETTER_TIME, at)));
    let mut headers = OwnedHeaders::new();
    for header in own.iter().flat_map(|own| own.iter()) {
        // Those of a letter that was tried again are replaced.
        if header.key != CUT && told.iter().all(|(name, _)| *name != header.key) {
            headers = headers.insert(header);
        }
    }
    told.iter().fold(headers, |headers, (name, value)| with(headers, name, value))
}

fn with(headers: OwnedHeaders, key: &str, value: &str) -> OwnedHeaders {
    headers.insert(Header { key, value: Some(value) })
}
