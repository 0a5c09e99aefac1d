//! NATS JetStream: a durable pull consumer with explicit acknowledgements, and dead letters that a
//! stream has confirmed.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use async_nats::header::HeaderMap;
use async_nats::jetstream::consumer::pull::{Batch, BatchError, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::jetstream::context::{GetStreamByNameErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::ConsumerErrorKind;
use async_nats::jetstream::{AckKind, Context, Message as Delivery};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use async_trait::async_trait;
use futures::{Future, StreamExt};
use tokio::time::timeout;

use super::address::NatsAddress;
use super::{
    BROKER_TIMEOUT, DeadLetter, IDLE_TIMEOUT, KEEP_INTERVAL, Lag, Opening, PREFETCH_BATCHES,
    Source, Trouble, lost,
};
use crate::message::Message;

/// How long the broker waits for an acknowledgement before it hands a message out again.
/// [`Source::keep`] begins that time again.
const ACK_WAIT: Duration = Duration::from_secs(60);

/// The prefix of a CloudEvent's attributes in headers.
const CLOUD_EVENT: &str = "ce-";

/// The header of the id that a producer gave a message.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The prefix of headers that are commands to a stream.
const COMMAND: &str = "Nats-";

/// The id and the time of a message in the headers of its dead letter, so that it means the same
/// when it is published again.
const LETTER_ID: &str = "laurel-message-id";
const LETTER_TIME: &str = "laurel-time";

/// A stream.
pub(super) struct Nats {
    client: Client,
    context: Context,
    consumer: Consumer<Config>,
    dead_letters: Option<String>,
    batch: usize,
    linger: Duration,
    /// The last batch.
    deliveries: Vec<Delivery>,
}

impl Nats {
    /// Connects, looks for the streams, and makes the consumer if it is not there.
    pub(super) async fn open(opening: &Opening, address: &NatsAddress) -> Result<Self, Trouble> {
        let opened = timeout(BROKER_TIMEOUT, Self::connect(opening, address)).await;
        opened.map_err(|_| lost(anyhow!("NATS does not answer")))?
    }

    async fn connect(opening: &Opening, address: &NatsAddress) -> Result<Self, Trouble> {
        let mut options = ConnectOptions::new().name("laurel-ingest");
        if let Some(ca) = &opening.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some(file) = &address.credentials {
            let with = options.credentials_file(file).await;
            let with = with.with_context(|| format!("{} cannot be read", file.display()));
            options = with.map_err(Trouble::Wrong)?;
        }
        let client = options.connect(address.servers.clone()).await.map_err(|error| {
            let is_of_settings = matches!(
                error.kind(),
                ConnectErrorKind::Authentication
                    | ConnectErrorKind::AuthorizationViolation
                    | ConnectErrorKind::ServerParse
            );
            trouble(!is_of_settings, anyhow!("NATS cannot be reached: {error}"))
        })?;
        let context = async_nats::jetstream::new(client.clone());
        let stream = context.get_stream(&address.stream).await.map_err(|error| {
            let is_passing = matches!(error.kind(), GetStreamErrorKind::Request);
            trouble(is_passing, anyhow!("the stream {} cannot be had: {error}", address.stream))
        })?;
        let ahead = i64::from(opening.batch) * i64::from(PREFETCH_BATCHES);
        let config = Config {
            durable_name: Some(address.consumer.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: ahead,
            filter_subject: address.subject.clone().unwrap_or_default(),
            ..Config::default()
        };
        let consumer = stream.get_or_create_consumer(&address.consumer, config).await;
        let consumer: Consumer<Config> = consumer.map_err(|error| {
            let is_passing =
                matches!(error.kind(), ConsumerErrorKind::TimedOut | ConsumerErrorKind::Request);
            trouble(is_passing, anyhow!("the consumer {} cannot be had: {error}", address.consumer))
        })?;
        check(&consumer)?;
        if let Some(subject) = &opening.dead_letters {
            check_letters(&context, subject, &consumer, address).await?;
        }
        Ok(Self {
            client,
            context,
            consumer,
            dead_letters: opening.dead_letters.clone(),
            batch: opening.batch.into(),
            linger: opening.linger,
            deliveries: vec![],
        })
    }

    /// Takes the messages of a request.
    async fn take(
        &mut self,
        asked: impl Future<Output = Result<Batch, BatchError>>,
        wait: Duration,
    ) -> Result<usize, Trouble> {
        let before = self.deliveries.len();
        let taking = async {
            let mut asked = asked.await.map_err(lost)?;
            while let Some(delivery) = asked.next().await {
                let delivery = delivery.map_err(|error| lost(anyhow!("{error}")))?;
                self.deliveries.push(delivery);
            }
            Ok(())
        };
        match timeout(wait + BROKER_TIMEOUT, taking).await {
            Ok(taken) => taken?,
            Err(_) => return Err(lost(anyhow!("NATS does not answer"))),
        }
        Ok(self.deliveries.len() - before)
    }
}

#[async_trait]
impl Source for Nats {
    async fn next_batch(&mut self) -> Result<Vec<Message>, Trouble> {
        self.deliveries.clear();
        let consumer = self.consumer.clone();
        let fetch = consumer.fetch().max_messages(self.batch).messages();
        if self.take(fetch, Duration::ZERO).await? == 0 {
            let first = consumer.batch().max_messages(1).expires(IDLE_TIMEOUT).messages();
            if self.take(first, IDLE_TIMEOUT).await? == 0 {
                return Ok(vec![]);
            }
        }
        let missing = self.batch - self.deliveries.len();
        if missing > 0 && !self.linger.is_zero() {
            let more = consumer.batch().max_messages(missing).expires(self.linger).messages();
            self.take(more, self.linger).await?;
        }
        self.deliveries.iter().map(message).collect()
    }

    async fn settle(&mut self, left: &BTreeSet<usize>) -> Result<(), Trouble> {
        for (index, delivery) in self.deliveries.iter().enumerate() {
            if !left.contains(&index) {
                delivery.ack().await.map_err(|error| lost(anyhow!("{error}")))?;
            }
        }
        self.deliveries.clear();
        let flushed = timeout(BROKER_TIMEOUT, self.client.flush()).await;
        flushed.map_err(|_| lost(anyhow!("NATS does not answer")))?.map_err(lost)
    }

    async fn put_aside(
        &mut self,
        batch: &[Message],
        letters: &[DeadLetter],
    ) -> Result<(), Trouble> {
        let Some(subject) = &self.dead_letters else { return Ok(()) };
        let mut confirms = vec![];
        for letter in letters {
            let delivery = &self.deliveries[letter.index];
            let headers = headers(delivery, &batch[letter.index], letter)?;
            let sent = self.context.publish_with_headers(
                subject.clone(),
                headers,
                delivery.payload.clone(),
            );
            confirms.push(sent.await.map_err(lost)?);
        }
        for confirm in confirms {
            confirm.await.map_err(|error| {
                lost(anyhow!("no stream confirms a dead letter on {subject}: {error}"))
            })?;
        }
        Ok(())
    }

    fn keep_interval(&self) -> Duration {
        // A consumer that was made elsewhere may wait for less time.
        let wait = self.consumer.cached_info().config.ack_wait;
        (wait / 3).clamp(Duration::from_millis(100), KEEP_INTERVAL)
    }

    async fn keep(&mut self) -> Result<(), Trouble> {
        for delivery in &self.deliveries {
            let told = delivery.ack_with(AckKind::Progress).await;
            told.map_err(|error| lost(anyhow!("{error}")))?;
        }
        Ok(())
    }

    async fn lag(&mut self) -> Result<Lag, Trouble> {
        let info = timeout(BROKER_TIMEOUT, self.consumer.get_info()).await;
        let info = info.map_err(|_| lost(anyhow!("NATS does not answer")))?.map_err(lost)?;
        Ok(Lag { waiting: info.num_pending, under_way: info.num_ack_pending as u64 })
    }

    async fn close(&mut self) {
        // The acknowledgements were flushed when the batch was settled.
        let _ = timeout(BROKER_TIMEOUT / 10, self.client.drain()).await;
    }
}

/// An error that passes by itself, or one of the settings.
fn trouble(is_passing: bool, error: anyhow::Error) -> Trouble {
    if is_passing { Trouble::Lost(error) } else { Trouble::Wrong(error) }
}

/// Fails if a consumer that was made elsewhere would lose messages.
fn check(consumer: &Consumer<Config>) -> Result<(), Trouble> {
    let config = &consumer.cached_info().config;
    let name = &consumer.cached_info().name;
    if config.ack_policy != AckPolicy::Explicit {
        return Err(Trouble::Wrong(anyhow!(
            "the consumer {name} does not want each message acknowledged: expected the policy explicit"
        )));
    }
    if config.max_deliver > 0 {
        tracing::warn!(
            "the consumer {name} hands a message out {} times at most: one that comes in bad times may be lost",
            config.max_deliver
        );
    }
    Ok(())
}

/// Fails if no stream keeps dead letters, or if they would come back.
async fn check_letters(
    context: &Context,
    subject: &str,
    consumer: &Consumer<Config>,
    address: &NatsAddress,
) -> Result<(), Trouble> {
    let stream = context.stream_by_subject(subject).await.map_err(|error| {
        let is_passing = matches!(error.kind(), GetStreamByNameErrorKind::Request);
        let told = format!("no stream keeps the subject {subject} of dead letters: expected one");
        trouble(is_passing, anyhow!("{told} ({error})"))
    })?;
    let config = &consumer.cached_info().config;
    let is_filtered = !config.filter_subject.is_empty() || !config.filter_subjects.is_empty();
    if stream == address.stream && !is_filtered {
        return Err(Trouble::Wrong(anyhow!(
            "dead letters would come back: expected {subject} in another stream than {stream}, or a consumer with a filter"
        )));
    }
    Ok(())
}

/// A delivery as a message.
fn message(delivery: &Delivery) -> Result<Message, Trouble> {
    let info = delivery.info().map_err(|error| lost(anyhow!("{error}")))?;
    let at_ms = info.published.unix_timestamp_nanos() / 1_000_000;
    let mut message = Message {
        position: info.stream_sequence.to_string(),
        subject: delivery.subject.to_string(),
        payload: delivery.payload.to_vec(),
        at_ms: i64::try_from(at_ms).ok(),
        ..Message::default()
    };
    for (name, values) in delivery.headers.iter().flat_map(HeaderMap::iter) {
        let Some(value) = values.last() else { continue };
        let (name, value): (&str, &str) = (name.as_ref(), value.as_str());
        let name = name.to_ascii_lowercase();
        if name == "content-type" {
            message.content_type = Some(value.to_owned());
        } else if name.eq_ignore_ascii_case(MESSAGE_ID) || name == LETTER_ID {
            message.id.get_or_insert_with(|| value.to_owned());
        } else if name == LETTER_TIME {
            let told = value.parse::<jiff::Timestamp>().ok();
            message.at_ms = told.map(jiff::Timestamp::as_millisecond).or(message.at_ms);
        } else if let Some(attribute) = name.strip_prefix(CLOUD_EVENT) {
            message.attributes.insert(attribute.to_owned(), decoded(value));
        }
    }
    Ok(message)
}

/// A value in which other characters than plain ones stand as %XX, as CloudEvents has it.
fn decoded(value: &str) -> String {
    let (mut bytes, mut rest) = (vec![], value.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = |digit: u8| char::from(digit).to_digit(16);
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                let digits = (hex(*high).unwrap_or_default(), hex(*low).unwrap_or_default());
                bytes.push((digits.0 * 16 + digits.1) as u8);
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The headers of a dead letter: those of its message, with the reason. Those that are commands to
/// a stream are left out: the stream would take two letters with one id for one.
fn headers(
    delivery: &Delivery,
    message: &Message,
    letter: &DeadLetter,
) -> Result<HeaderMap, Trouble> {
    let info = delivery.info().map_err(|error| lost(anyhow!("{error}")))?;
    let mut headers = HeaderMap::new();
    for (name, values) in delivery.headers.iter().flat_map(HeaderMap::iter) {
        let text: &str = name.as_ref();
        let begins = text.get(..COMMAND.len());
        if begins.is_none_or(|begins| !begins.eq_ignore_ascii_case(COMMAND)) {
            for value in values {
                headers.append(name.clone(), value.clone());
            }
        }
    }
    let (stream, at) = (info.stream, message.at_ms.and_then(instant));
    for (name, value) in [
        ("laurel-reason", Some(letter.fault.reason.as_str())),
        ("laurel-code", Some(letter.fault.code.as_str())),
        ("laurel-source", Some(stream)),
        ("laurel-subject", Some(message.subject.as_str())),
        ("laurel-position", Some(message.position.as_str())),
        (LETTER_ID, message.id.as_deref()),
        (LETTER_TIME, at.as_deref()),
    ] {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

fn instant(at_ms: i64) -> Option<String> {
    Some(format!("{:.3}", jiff::Timestamp::from_millisecond(at_ms).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_may_be_percent_encoded() {
        for (value, said) in
            [("/game/1", "/game/1"), ("%C3%A4%20b", "ä b"), ("100%", "100%"), ("%zz%4", "%zz%4")]
        {
            assert_eq!(decoded(value), said);
        }
    }
}
