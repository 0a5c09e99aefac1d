//! NATS JetStream: a durable pull consumer with explicit acknowledgements, and dead letters that a
//! stream has confirmed.

mod consumer;
pub(crate) mod letters;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use async_nats::header::HeaderMap;
use async_nats::jetstream::consumer::Consumer;
use async_nats::jetstream::consumer::pull::{Batch, BatchError, Config};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{AckKind, Context, Message as Delivery};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use async_trait::async_trait;
use futures::{Future, StreamExt};
use tokio::time::{Instant, timeout};

use super::address::{NatsAddress, NatsServers, decoded};
use super::{
    BROKER_TIMEOUT, DeadLetter, IDLE_TIMEOUT, KEEP_INTERVAL, LETTER_ID, LETTER_TIME,
    LETTERS_AT_ONCE, Lag, Opening, Source, Trouble, lost, read_time,
};
use crate::message::{Message, Place};
pub(crate) use consumer::Floor;

/// The prefix of a CloudEvent's attributes in headers.
const CLOUD_EVENT: &str = "ce-";

/// The header of the id that a producer gave a message.
const MESSAGE_ID: &str = "nats-msg-id";

/// The server's words where the next message has more bytes than a request has left.
const TOO_LONG: &str = "Message Size Exceeds MaxBytes";

/// A stream.
pub(super) struct Nats {
    client: Client,
    context: Context,
    consumer: Consumer<Config>,
    /// The name of the source, if the server keeps positions, and the last sequence that its
    /// consumer gave a delivery.
    order: Option<(String, u64)>,
    floor: Arc<Floor>,
    letters: Option<letters::Place>,
    batch: usize,
    batch_bytes: usize,
    linger: Duration,
    /// The last batch.
    deliveries: Vec<Delivery>,
}

impl Nats {
    /// Connects, and looks for the streams and the consumer.
    pub(super) async fn open(opening: &Opening, address: &NatsAddress) -> Result<Self, Trouble> {
        let opened = timeout(BROKER_TIMEOUT, Self::connect(opening, address)).await;
        opened.map_err(|_| lost(anyhow!("NATS does not answer")))?
    }

    async fn connect(opening: &Opening, address: &NatsAddress) -> Result<Self, Trouble> {
        let client = connect(&address.servers, opening.ca.as_deref()).await?;
        let context = async_nats::jetstream::new(client.clone());
        let stream = stream(&context, &address.stream).await?;
        let order = address.source.as_ref().map(|name| {
            // A stream that is deleted and made again under its name begins at 1.
            let made_us = stream.cached_info().created.unix_timestamp_nanos() / 1000;
            (format!("{name}@{made_us}"), 0)
        });
        let consumer = match order {
            Some(_) => consumer::open_in_order(&stream, opening, address).await?,
            None => consumer::open(&stream, opening, address).await?,
        };
        let letters = match &opening.dead_letters {
            Some(subject) => Some(letters::open(&context, subject, &consumer, address).await?),
            None => None,
        };
        Ok(Self {
            client,
            context,
            consumer,
            order,
            floor: opening.floor.clone(),
            letters,
            batch: opening.batch.into(),
            batch_bytes: opening.batch_bytes,
            linger: opening.linger,
            deliveries: vec![],
        })
    }

    /// Fails unless the last batch follows the one before without a gap, where positions are kept.
    /// A gap is another process that takes from the same consumer, or a delivery that was lost on
    /// its way: a new connection begins again behind what is settled.
    async fn in_order(&mut self) -> Result<(), Trouble> {
        if self.order.is_none() || self.deliveries.is_empty() {
            return Ok(());
        }
        // Asked after the deliveries: they came from the consumer that this process made, and not
        // from one that another process has made since, whose numbers might go on by chance.
        let made = self.consumer.cached_info().created;
        let info = timeout(BROKER_TIMEOUT, self.consumer.get_info()).await;
        let info = info.map_err(|_| lost(anyhow!("NATS does not answer")))?.map_err(lost)?;
        if info.created != made {
            return Err(lost(anyhow!(
                "another process has made the consumer again: expected no other process with it"
            )));
        }
        let Some((_, last)) = &mut self.order else { return Ok(()) };
        for delivery in &self.deliveries {
            let info = delivery.info().map_err(|error| lost(anyhow!("{error}")))?;
            if info.consumer_sequence != *last + 1 || info.delivered > 1 {
                return Err(lost(anyhow!(
                    "a message of the consumer is missing, or came again: expected no other process with this consumer"
                )));
            }
            *last = info.consumer_sequence;
        }
        Ok(())
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
                match delivery {
                    Ok(delivery) => self.deliveries.push(delivery),
                    Err(error) if error.to_string().contains(TOO_LONG) => break,
                    Err(error) => return Err(lost(anyhow!("{error}"))),
                }
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
        let fetch = consumer.fetch().max_messages(self.batch).max_bytes(self.batch_bytes);
        if self.take(fetch.messages(), Duration::ZERO).await? == 0 {
            // A message that is longer than all of a batch is taken alone, so nothing bounds it.
            let first = consumer.batch().max_messages(1).expires(IDLE_TIMEOUT).messages();
            if self.take(first, IDLE_TIMEOUT).await? == 0 {
                return Ok(vec![]);
            }
        }
        let missing = self.batch - self.deliveries.len();
        let taken: usize = self.deliveries.iter().map(|delivery| delivery.length).sum();
        let room = self.batch_bytes.saturating_sub(taken);
        if missing > 0 && room > 0 && !self.linger.is_zero() {
            let more = consumer.batch().max_messages(missing).max_bytes(room).expires(self.linger);
            self.take(more.messages(), self.linger).await?;
        }
        self.in_order().await?;
        let mut messages: Vec<Message> =
            self.deliveries.iter().map(message).collect::<Result<_, Trouble>>()?;
        if self.order.is_none() {
            messages.iter_mut().for_each(|message| message.place = None);
        }
        Ok(messages)
    }

    fn name(&self) -> Option<&str> {
        self.order.as_ref().map(|(name, _)| name.as_str())
    }

    async fn settle(&mut self, left: &BTreeSet<usize>) -> Result<usize, Trouble> {
        for (index, delivery) in self.deliveries.iter().enumerate() {
            if !left.contains(&index) {
                delivery.ack().await.map_err(|error| lost(anyhow!("{error}")))?;
            }
        }
        let settled = self.deliveries.len() - left.len();
        self.deliveries.clear();
        let flushed = timeout(BROKER_TIMEOUT, self.client.flush()).await;
        flushed.map_err(|_| lost(anyhow!("NATS does not answer")))?.map_err(lost)?;
        Ok(settled)
    }

    async fn put_aside(
        &mut self,
        batch: &[Message],
        letters: &[DeadLetter],
    ) -> Result<(), Trouble> {
        let Some(place) = self.letters.clone() else { return Ok(()) };
        let bytes_max = place.bytes_max.min(self.client.max_payload());
        let mut kept_at = Instant::now();
        for group in letters.chunks(LETTERS_AT_ONCE) {
            if kept_at.elapsed() >= self.keep_interval() {
                self.keep().await?;
                kept_at = Instant::now();
            }
            let mut confirms = vec![];
            for letter in group {
                let delivery = &self.deliveries[letter.index];
                let made = letters::letter(delivery, &batch[letter.index], letter, bytes_max)?;
                let sent = self.context.publish_with_headers(place.subject.clone(), made.0, made.1);
                confirms.push(sent.await.map_err(lost)?);
            }
            for confirm in confirms {
                confirm.await.map_err(|error| {
                    lost(anyhow!("no stream confirms a dead letter on {}: {error}", place.subject))
                })?;
            }
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
        self.floor.note(&info);
        Ok(Lag { waiting: info.num_pending, under_way: info.num_ack_pending as u64 })
    }

    async fn close(&mut self) {
        // The acknowledgements were flushed when the batch was settled.
        let _ = timeout(BROKER_TIMEOUT / 10, self.client.drain()).await;
    }
}

/// Connects to a server. `ca` is a file of certificates.
pub(crate) async fn connect(servers: &NatsServers, ca: Option<&Path>) -> Result<Client, Trouble> {
    let mut options = ConnectOptions::new().name("laurel-ingest");
    if let Some(ca) = ca {
        options = options.add_root_certificates(ca.to_owned());
    }
    if !servers.may_go_elsewhere {
        options = options.ignore_discovered_servers();
    }
    if let Some(file) = &servers.credentials {
        let with = options.credentials_file(file).await;
        let with = with.with_context(|| format!("{} cannot be read", file.display()));
        options = with.map_err(Trouble::Wrong)?;
    }
    options.connect(servers.urls.clone()).await.map_err(|error| {
        let is_of_settings = matches!(
            error.kind(),
            ConnectErrorKind::Authentication
                | ConnectErrorKind::AuthorizationViolation
                | ConnectErrorKind::ServerParse
        );
        trouble(!is_of_settings, anyhow!("NATS cannot be reached: {error}"))
    })
}

/// The stream of a name.
pub(crate) async fn stream(context: &Context, name: &str) -> Result<Stream, Trouble> {
    context.get_stream(name).await.map_err(|error| {
        let is_passing = matches!(error.kind(), GetStreamErrorKind::Request);
        trouble(is_passing, anyhow!("the stream {name} cannot be had: {error}"))
    })
}

/// An error that passes by itself, or one of the settings.
pub(crate) fn trouble(is_passing: bool, error: anyhow::Error) -> Trouble {
    if is_passing { Trouble::Lost(error) } else { Trouble::Wrong(error) }
}

/// A delivery as a message.
fn message(delivery: &Delivery) -> Result<Message, Trouble> {
    let info = delivery.info().map_err(|error| lost(anyhow!("{error}")))?;
    let at_ms = info.published.unix_timestamp_nanos() / 1_000_000;
    let mut message = Message {
        position: info.stream_sequence.to_string(),
        place: Some(Place { partition: 0, offset: info.stream_sequence }),
        subject: delivery.subject.to_string(),
        payload: delivery.payload.clone(),
        at_ms: i64::try_from(at_ms).ok(),
        ..Message::default()
    };
    if let Some(headers) = &delivery.headers {
        read_headers(headers, &mut message);
    }
    Ok(message)
}

/// Reads the headers of a message, whose order means nothing. Of several spellings of a name the
/// first in the order of bytes holds, and of several values the first. A letter's own id and time
/// come before those of the stream that it is published to again.
fn read_headers(headers: &HeaderMap, message: &mut Message) {
    let mut sorted: Vec<(&str, &str)> = headers
        .iter()
        .filter_map(|(name, values)| Some((name.as_ref(), values.first()?.as_str())))
        .collect();
    sorted.sort_unstable();
    let mut told: BTreeMap<String, &str> = BTreeMap::new();
    for (name, value) in sorted {
        told.entry(name.to_ascii_lowercase()).or_insert(value);
    }
    let get = |name: &str| told.get(name).map(|value| (*value).to_owned());
    message.content_type = get("content-type");
    message.id = get(LETTER_ID).or_else(|| get(MESSAGE_ID));
    message.at_ms = told.get(LETTER_TIME).and_then(|at| read_time(at)).or(message.at_ms);
    for (name, value) in told {
        if let Some(attribute) = name.strip_prefix(CLOUD_EVENT) {
            message.attributes.insert(attribute.to_owned(), decoded(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_means_the_same_whatever_the_order_of_its_headers() {
        let said = [
            ("Nats-Msg-Id", "n"),
            ("nats-msg-id", "other"),
            ("laurel-message-id", "l"),
            ("Content-Type", "a/b"),
            ("content-type", "c/d"),
            ("laurel-time", "1970-01-01T00:00:01Z"),
            ("ce-id", "1"),
            ("CE-ID", "2"),
        ];
        // A map of headers has an order of its own each time that it is made.
        for turn in 0..64 {
            let (mut headers, mut message) = (HeaderMap::new(), Message::default());
            for index in 0..said.len() {
                let (name, value) = said[(index + turn) % said.len()];
                headers.append(name, value);
                headers.append(name, "again");
            }
            read_headers(&headers, &mut message);
            assert_eq!(message.id.as_deref(), Some("l"));
            assert_eq!(message.content_type.as_deref(), Some("a/b"));
            assert_eq!(message.at_ms, Some(1000));
            assert_eq!(message.attributes["id"], "2");
        }
        let mut headers = HeaderMap::new();
        headers.insert("nats-msg-id", "other");
        headers.insert("Nats-Msg-Id", "n");
        let mut message = Message { at_ms: Some(7), ..Message::default() };
        read_headers(&headers, &mut message);
        assert_eq!((message.id.as_deref(), message.at_ms), (Some("n"), Some(7)));
    }
}
