//! Brokers that events go to, behind one trait: events side by side, each confirmed by the broker.

mod address;
mod kafka;
mod nats;
mod rabbitmq;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use engine::failpoint;
use engine::settings::{CleartextSettings, FeedSettings};
use engine::webhook::delivery::{Courier, HANDOVER_TIMEOUT, Patience, Sent, Webhook, feed_name};
use engine::webhook::message::Message;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::feed::metrics::Metrics;
use crate::format::shortened;
use crate::source::{Trouble, lost};
use address::Address;

/// The events of a lane that are under way at a time. The client of NATS lets 5,000 be under way,
/// and eight lanes are delivered side by side.
const EVENTS_AT_ONCE: usize = 500;

/// The pause after the first attempt that failed, in milliseconds. It doubles with each further
/// one.
const RETRY_MS: u64 = 100;

/// The longest pause between two attempts, in milliseconds.
const RETRY_MS_MAX: u64 = 30_000;

/// An open connection to a broker.
#[async_trait]
pub(crate) trait Publisher: Send + Sync {
    /// Publishes events, of which none waits for another. Tells of each whether the broker has
    /// confirmed that it has it: after `Lost` another connection may do, and `Wrong` is a refusal.
    async fn publish(&self, events: &[Message]) -> Vec<Result<(), Trouble>>;

    /// Ends the connection.
    async fn close(&self);
}

/// All that opens a connection to the broker.
#[derive(Debug)]
pub(crate) struct Opening {
    address: Address,
    ca: Option<PathBuf>,
}

impl Opening {
    /// The settings, read.
    ///
    /// # Errors
    /// If the address of the broker is missing, none, or in clear text to another machine.
    pub(crate) fn new(settings: &FeedSettings, cleartext: &CleartextSettings) -> Result<Self> {
        let broker = settings.feed_broker.as_ref().context(
            "no broker is named: expected --broker, or LAUREL_FEED_BROKER, such as nats://127.0.0.1:4222/EVENTS?subject=laurel",
        )?;
        let address = Address::parse(broker.as_str(), cleartext)?;
        Ok(Self { address, ca: settings.feed_broker_ca.clone() })
    }

    /// The name of the queue, the exchange, the topic or the subject.
    pub(crate) fn place(&self) -> &str {
        match &self.address {
            Address::RabbitMq(address) => address.place.name(),
            Address::Kafka(address) => &address.topic,
            Address::Nats(address) => &address.subject,
        }
    }

    async fn open(&self) -> Result<Arc<dyn Publisher>, Trouble> {
        let ca = self.ca.as_deref();
        Ok(match &self.address {
            Address::RabbitMq(address) => Arc::new(rabbitmq::RabbitMq::open(address, ca).await?),
            Address::Kafka(address) => Arc::new(kafka::Kafka::open(address, ca).await?),
            Address::Nats(address) => Arc::new(nats::Nats::open(address, ca).await?),
        })
    }
}

/// The broker of a feed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Broker(Arc<Shared>);

struct Shared {
    /// The name of the feed.
    name: String,
    opening: Opening,
    metrics: Arc<Metrics>,
    /// The connection that all lanes share, while there is one.
    publisher: Mutex<Option<Arc<dyn Publisher>>>,
}

impl Broker {
    /// The broker of a feed of this name, not connected.
    pub(crate) fn new(name: String, opening: Opening, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Shared { name, opening, metrics, publisher: Mutex::new(None) }))
    }

    /// Connects for the first time. A broker that does not answer is tried again later.
    ///
    /// # Errors
    /// If the settings do not fit the broker.
    pub(crate) async fn connect(&self) -> Result<()> {
        match self.publisher().await {
            Ok(_) => Ok(()),
            Err(Trouble::Wrong(error)) => Err(error),
            Err(Trouble::Lost(error)) => {
                self.0.metrics.broker.pause(shortened(&format!("{error:#}")));
                Ok(())
            }
        }
    }

    /// Ends the connection.
    pub(crate) async fn close(&self) {
        if let Some(publisher) = self.0.publisher.lock().await.take() {
            publisher.close().await;
        }
    }

    /// The connection, which is made if there is none.
    async fn publisher(&self) -> Result<Arc<dyn Publisher>, Trouble> {
        let mut publisher = self.0.publisher.lock().await;
        if let Some(publisher) = &*publisher {
            return Ok(publisher.clone());
        }
        let opened = self.0.opening.open().await?;
        *publisher = Some(opened.clone());
        Ok(opened)
    }

    /// Ends a connection that failed, unless another lane did.
    async fn leave(&self, failed: &Arc<dyn Publisher>) {
        let mut publisher = self.0.publisher.lock().await;
        if publisher.as_ref().is_some_and(|present| Arc::ptr_eq(present, failed)) {
            *publisher = None;
            let failed = failed.clone();
            tokio::spawn(async move { failed.close().await });
        }
    }

    /// Publishes events. Returns how many of the first ones the broker has, and why it does not
    /// have the next one.
    async fn publish(&self, events: &[Message]) -> (usize, Result<(), Trouble>) {
        let deadline = Instant::now() + HANDOVER_TIMEOUT;
        let silent = || lost(anyhow!("the broker does not answer"));
        let publisher = match timeout_at(deadline, self.publisher()).await {
            Ok(Ok(publisher)) => publisher,
            Ok(Err(trouble)) => return (0, Err(trouble)),
            Err(_) => return (0, Err(silent())),
        };
        let outcomes = timeout_at(deadline, publisher.publish(events)).await;
        let outcomes = outcomes.unwrap_or_else(|_| vec![Err(silent())]);
        failpoint::hit("feed-confirmed");
        if outcomes.iter().any(|outcome| matches!(outcome, Err(Trouble::Lost(_)))) {
            self.leave(&publisher).await;
        }
        let taken = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
        (taken, outcomes.into_iter().collect())
    }
}

impl Courier for Broker {
    const TOGETHER_MAX: usize = EVENTS_AT_ONCE;

    fn reaches(&self, webhook: &Webhook) -> bool {
        feed_name(&webhook.url) == Some(&self.0.name)
    }

    fn patience(&self) -> Patience {
        Patience { pause_ms: RETRY_MS, pause_ms_max: RETRY_MS_MAX, fail_ms: None }
    }

    async fn send(&self, _: &Webhook, events: &[Message], _: i64) -> Sent {
        failpoint::hit("feed-taken");
        let metrics = &self.0.metrics;
        let (taken, published) = self.publish(events).await;
        metrics.confirmed.inc_by(taken as u64);
        match published {
            Ok(()) => {
                metrics.broker.go_on();
                Sent::All
            }
            Err(Trouble::Lost(error) | Trouble::Wrong(error)) => {
                metrics.failed.inc();
                let why = shortened(&format!("{error:#}"));
                metrics.broker.pause(why.clone());
                Sent::Failed(taken, why)
            }
        }
    }
}
