//! RabbitMQ by AMQP 0.9.1: a queue with manual acknowledgements, and dead letters confirmed by the
//! broker.
//!
//! A message that is not acknowledged is never sent back by hand: the broker counts each return
//! against the delivery limit of a quorum queue. It comes back when the connection ends.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, anyhow};
use async_trait::async_trait;
use futures::{StreamExt, TryFutureExt};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, ErrorKind,
};
use tokio::time::{Instant, timeout, timeout_at};

use super::address::RabbitMqAddress;
use super::{
    BROKER_TIMEOUT, DeadLetter, IDLE_TIMEOUT, Lag, Opening, PREFETCH_BATCHES, Source, Trouble, lost,
};
use crate::message::Message;

/// The prefixes of a CloudEvent's attributes in headers.
const CLOUD_EVENT: [&str; 2] = ["cloudEvents:", "cloudEvents_"];

/// Headers that would send a dead letter elsewhere, too.
const ROUTING: [&str; 2] = ["CC", "BCC"];

/// The delivery mode of a message that outlives the broker's process.
const PERSISTENT: u8 = 2;

/// A queue.
pub(super) struct RabbitMq {
    connection: Connection,
    channel: Channel,
    /// The channel of dead letters: an error on it leaves the other one alone.
    letters: Channel,
    consumer: Consumer,
    queue: String,
    dead_letters: Option<String>,
    batch: usize,
    linger: Duration,
    /// The last batch.
    deliveries: Vec<Delivery>,
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
        let mut tls = OwnedTLSConfig::default();
        if let Some(ca) = &opening.ca {
            let chain = std::fs::read_to_string(ca)
                .with_context(|| format!("{} cannot be read", ca.display()));
            tls.cert_chain = Some(chain.map_err(Trouble::Wrong)?);
        }
        let properties =
            ConnectionProperties::default().with_connection_name("laurel-ingest".into());
        let runtime = lapin::runtime::default_runtime().map_err(lost)?;
        let connection =
            Connection::connect_with_config(&address.url, properties, tls, runtime).await;
        let connection = connection.map_err(|error| trouble(error, "RabbitMQ refuses"))?;
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
        let ahead = opening.batch * PREFETCH_BATCHES;
        channel.basic_qos(ahead, BasicQosOptions::default()).await.map_err(lost)?;
        let (options, table) = (BasicConsumeOptions::default(), FieldTable::default());
        let queue = ShortString::from(address.queue.as_str());
        let consumer = channel.basic_consume(queue, "".into(), options, table).await;
        let consumer = consumer.map_err(|error| trouble(error, "RabbitMQ refuses"))?;
        Ok(Self {
            connection,
            channel,
            letters,
            consumer,
            queue: address.queue.clone(),
            dead_letters,
            batch: opening.batch.into(),
            linger: opening.linger,
            deliveries: vec![],
        })
    }

    /// Takes a delivery into the batch.
    fn take(
        &mut self,
        delivery: Option<lapin::Result<Delivery>>,
        batch: &mut Vec<Message>,
    ) -> Result<(), Trouble> {
        let delivery = delivery.ok_or_else(|| lost(anyhow!("RabbitMQ ended the consumer")))?;
        let mut delivery = delivery.map_err(lost)?;
        let headers = delivery.properties.headers().as_ref();
        if headers.is_some_and(|headers| headers.contains_key("x-stream-offset")) {
            return Err(Trouble::Wrong(anyhow!(
                "{} is a stream, which remembers no position of a consumer: expected a quorum queue or a classic one",
                self.queue
            )));
        }
        batch.push(message(&mut delivery));
        self.deliveries.push(delivery);
        Ok(())
    }
}

#[async_trait]
impl Source for RabbitMq {
    async fn next_batch(&mut self) -> Result<Vec<Message>, Trouble> {
        self.deliveries.clear();
        let mut batch = vec![];
        let Ok(first) = timeout(IDLE_TIMEOUT, self.consumer.next()).await else {
            return Ok(batch);
        };
        self.take(first, &mut batch)?;
        let deadline = Instant::now() + self.linger;
        while batch.len() < self.batch {
            let Ok(next) = timeout_at(deadline, self.consumer.next()).await else { break };
            self.take(next, &mut batch)?;
        }
        Ok(batch)
    }

    async fn settle(&mut self, left: &BTreeSet<usize>) -> Result<(), Trouble> {
        let tags = self.deliveries.iter().map(|delivery| delivery.delivery_tag).enumerate();
        let settled: Vec<u64> =
            tags.filter(|(index, _)| !left.contains(index)).map(|(_, tag)| tag).collect();
        if left.is_empty() {
            let Some(&last) = settled.last() else { return Ok(()) };
            // Everything before it belongs to this batch or is settled.
            let options = BasicAckOptions { multiple: true };
            self.channel.basic_ack(last, options).await.map_err(lost)?;
        } else {
            for tag in settled {
                let options = BasicAckOptions::default();
                self.channel.basic_ack(tag, options).await.map_err(lost)?;
            }
        }
        self.deliveries.clear();
        Ok(())
    }

    async fn put_aside(
        &mut self,
        batch: &[Message],
        letters: &[DeadLetter],
    ) -> Result<(), Trouble> {
        let Some(name) = &self.dead_letters else { return Ok(()) };
        let mut confirms = vec![];
        for letter in letters {
            let delivery = &self.deliveries[letter.index];
            let properties = properties(delivery, &self.queue, letter);
            let options = BasicPublishOptions { mandatory: true, ..Default::default() };
            let payload = &batch[letter.index].payload;
            let queue = ShortString::from(name.as_str());
            let sent = self.letters.basic_publish("".into(), queue, options, payload, properties);
            confirms.push(sent.await.map_err(lost)?);
        }
        for confirm in confirms {
            let confirmed = timeout(BROKER_TIMEOUT, confirm).await;
            let confirmed =
                confirmed.map_err(|_| lost(anyhow!("RabbitMQ confirms no dead letter")))?;
            match confirmed.map_err(lost)? {
                Confirmation::Ack(None) => {}
                Confirmation::Ack(Some(_)) => {
                    return Err(Trouble::Wrong(anyhow!(
                        "the queue {name} for dead letters is gone"
                    )));
                }
                _ => return Err(lost(anyhow!("RabbitMQ refuses a dead letter in {name}"))),
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
        // It does not tell the messages that others hold.
        Ok(Lag { waiting: declared.message_count().into(), under_way: 0 })
    }

    async fn close(&mut self) {
        // It waits until the broker has read the acknowledgements before it.
        let _ = timeout(BROKER_TIMEOUT / 10, self.connection.close(200, "done".into())).await;
    }
}

/// Fails if a queue is not there.
async fn look_for(channel: &Channel, queue: &str) -> Result<(), Trouble> {
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    let declared =
        channel.queue_declare(ShortString::from(queue), options, FieldTable::default()).await;
    declared.map(drop).map_err(|error| trouble(error, &format!("the queue {queue} is not there")))
}

/// An error of the broker's own is of the settings; others are of the connection.
fn trouble(error: lapin::Error, what: &str) -> Trouble {
    let is_of_settings =
        matches!(error.kind(), ErrorKind::ProtocolError(_) | ErrorKind::AuthProviderError(_));
    let error = anyhow::Error::from(error).context(what.to_owned());
    if is_of_settings { Trouble::Wrong(error) } else { Trouble::Lost(error) }
}

/// A delivery as a message; takes its payload.
fn message(delivery: &mut Delivery) -> Message {
    let properties = &delivery.properties;
    let mut message = Message {
        position: delivery.delivery_tag.to_string(),
        subject: delivery.routing_key.to_string(),
        payload: std::mem::take(&mut delivery.data),
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

/// The properties of a dead letter: those of its message, with the reason in headers. Without the
/// ones that would end it early, send it elsewhere, or make the broker refuse it.
fn properties(delivery: &Delivery, queue: &str, letter: &DeadLetter) -> BasicProperties {
    let old = &delivery.properties;
    let mut headers = FieldTable::default();
    for (name, value) in old.headers().iter().flat_map(FieldTable::inner) {
        if !ROUTING.contains(&name.as_str()) {
            headers.insert(name.clone(), value.clone());
        }
    }
    let told = [
        ("laurel-reason", letter.fault.reason.as_str()),
        ("laurel-code", letter.fault.code.as_str()),
        ("laurel-source", queue),
        ("laurel-exchange", delivery.exchange.as_str()),
        ("laurel-routing-key", delivery.routing_key.as_str()),
        ("laurel-position", &delivery.delivery_tag.to_string()),
    ];
    for (name, value) in told {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let mut new = BasicProperties::default().with_headers(headers).with_delivery_mode(PERSISTENT);
    if let Some(kind) = old.content_type() {
        new = new.with_content_type(kind.clone());
    }
    if let Some(encoding) = old.content_encoding() {
        new = new.with_content_encoding(encoding.clone());
    }
    if let Some(id) = old.message_id() {
        new = new.with_message_id(id.clone());
    }
    if let Some(correlation) = old.correlation_id() {
        new = new.with_correlation_id(correlation.clone());
    }
    if let Some(timestamp) = old.timestamp() {
        new = new.with_timestamp(*timestamp);
    }
    if let Some(kind) = old.kind() {
        new = new.with_type(kind.clone());
    }
    if let Some(app) = old.app_id() {
        new = new.with_app_id(app.clone());
    }
    new
}
