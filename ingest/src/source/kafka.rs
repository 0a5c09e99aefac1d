//! Kafka: a topic that a consumer group shares, positions that are committed after the answer, and
//! dead letters that the brokers of another topic have confirmed.
//!
//! The group moves partitions only while this client polls. It polls between batches, when all that
//! it took is settled, so a partition leaves with nothing under way. While a batch takes long, the
//! client polls with everything paused: the group is kept, and a partition that is taken away then
//! takes its messages along, uncommitted.

pub(crate) mod client;
mod delivery;
mod group;
pub(crate) mod letters;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, anyhow};
use async_trait::async_trait;
use futures::StreamExt;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

use super::address::KafkaAddress;
use super::{BROKER_TIMEOUT, DeadLetter, IDLE_TIMEOUT, Lag, Opening, Source, Trouble, lost};
use crate::message::Message;
use client::trouble;
use delivery::{Delivery, read};
use group::Group;
use letters::Letters;

/// How often a client polls while a batch is under way, and for how long. A group that moves
/// partitions waits for it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// A topic.
pub(super) struct Kafka {
    /// `None` only at the end.
    consumer: Option<Arc<StreamConsumer<Group>>>,
    letters: Option<Letters>,
    topic: String,
    name: Option<String>,
    batch: usize,
    batch_bytes: usize,
    linger: Duration,
    /// The last batch.
    deliveries: Vec<Delivery>,
    /// Those that came although everything was paused.
    ahead: VecDeque<(Delivery, Message)>,
    /// The next position of each partition, as it was committed here.
    committed: BTreeMap<i32, i64>,
}

impl Kafka {
    /// Connects, looks for the topics, and joins the group.
    pub(super) async fn open(opening: &Opening, address: &KafkaAddress) -> Result<Self, Trouble> {
        let config = client::config(&address.brokers, opening.ca.as_deref())?;
        let consumer = client::consumer(&config, opening, address)?;
        let letters = match &opening.dead_letters {
            Some(name) if *name == address.topic => {
                return Err(Trouble::Wrong(anyhow!(
                    "dead letters would come back: expected another topic than {name}"
                )));
            }
            Some(name) => {
                let letters = Letters::new(&config, name, &address.topic);
                Some(letters.map_err(|error| Trouble::Wrong(error.into()))?)
            }
            None => None,
        };
        let source = Self {
            consumer: Some(Arc::new(consumer)),
            letters,
            topic: address.topic.clone(),
            name: address.source.clone(),
            batch: opening.batch.into(),
            batch_bytes: opening.batch_bytes,
            linger: opening.linger,
            deliveries: vec![],
            ahead: VecDeque::new(),
            committed: BTreeMap::new(),
        };
        let (topic, brokers) = (address.topic.clone(), &address.brokers);
        let allows_cleartext = brokers.has_tls || brokers.allows_cleartext;
        let dead_letters = opening.dead_letters.clone();
        let looked = source.ask(move |consumer| {
            for name in [Some(&topic), dead_letters.as_ref()].into_iter().flatten() {
                client::look_for(consumer.client(), name, allows_cleartext)?;
            }
            consumer.subscribe(&[&topic]).map_err(|error| trouble(error, "Kafka refuses"))
        });
        looked.await?;
        Ok(source)
    }

    fn consumer(&self) -> &Arc<StreamConsumer<Group>> {
        self.consumer.as_ref().expect("it is there until the end")
    }

    fn group(&self) -> &Group {
        self.consumer().context()
    }

    /// Asks the brokers something for which the client blocks.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&StreamConsumer<Group>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let consumer = self.consumer().clone();
        let asked = timeout(BROKER_TIMEOUT, spawn_blocking(move || question(&consumer))).await;
        match asked {
            Ok(Ok(Err(Trouble::Lost(error)))) => Err(Trouble::Lost(self.explained(error))),
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(lost(error)),
            Err(_) => Err(Trouble::Lost(self.explained(anyhow!("Kafka does not answer")))),
        }
    }

    /// An error with the last complaint of the client.
    fn explained(&self, error: Error) -> Error {
        match self.group().complaint() {
            Some(complaint) => anyhow!("{error:#} ({complaint})"),
            None => error,
        }
    }

    /// The next message, which came by now; `None` at a deadline.
    async fn poll(&self, deadline: Instant) -> Result<Option<(Delivery, Message)>, Trouble> {
        let mut stream = self.consumer().stream();
        loop {
            let Ok(next) = timeout_at(deadline, stream.next()).await else { return Ok(None) };
            match next.expect("the client never ends it") {
                Ok(message) => {
                    // A message of a partition that has just gone is not for this process.
                    if let Some(turn) = self.group().turn(message.partition()) {
                        return Ok(Some(read(&message, turn)));
                    }
                }
                Err(error) if client::is_passing(&error) => {
                    tracing::debug!("the client goes on after an error: {error}");
                }
                Err(error) => return Err(trouble(error, "Kafka does not go on")),
            }
        }
    }

    /// True if the partition of a delivery has been here since.
    fn has(&self, delivery: &Delivery) -> bool {
        self.group().turn(delivery.partition) == Some(delivery.turn)
    }

    /// Has the client hand out messages again, if it was paused.
    fn go_on(&self) -> Result<(), Trouble> {
        if self.group().set_paused(false) {
            let all = self.consumer().assignment().map_err(lost)?;
            self.consumer().resume(&all).map_err(lost)?;
        }
        Ok(())
    }

    /// Commits the next position of each partition, which are still here.
    async fn commit(&mut self, next: BTreeMap<i32, i64>) -> Result<(), Trouble> {
        if next.is_empty() {
            return Ok(());
        }
        let list = client::list(&self.topic, &next).map_err(lost)?;
        let is_committed =
            self.ask(move |consumer| match consumer.commit(&list, CommitMode::Sync) {
                Ok(()) => Ok(true),
                Err(error) if client::is_of_group(&error) => {
                    tracing::info!("the group took the partitions away: {error}");
                    Ok(false)
                }
                Err(error) => Err(trouble(error, "Kafka commits no position")),
            });
        if is_committed.await? {
            self.committed.extend(next);
        }
        Ok(())
    }

    /// The positions that moved without a message, such as past the end of a transaction, while
    /// nothing is under way. Uncommitted, they would look like messages that are left.
    fn moved(&self) -> Result<BTreeMap<i32, i64>, Trouble> {
        let positions = self.consumer().position().map_err(lost)?;
        let mut moved = BTreeMap::new();
        for element in positions.elements() {
            let (partition, Offset::Offset(next)) = (element.partition(), element.offset()) else {
                continue;
            };
            let committed = self.committed.get(&partition);
            let has_moved = committed.is_none_or(|committed| next > *committed);
            if has_moved && self.group().turn(partition).is_some() {
                moved.insert(partition, next);
            }
        }
        Ok(moved)
    }
}

#[async_trait]
impl Source for Kafka {
    async fn next_batch(&mut self) -> Result<Vec<Message>, Trouble> {
        self.deliveries.clear();
        self.go_on()?;
        let (mut batch, mut bytes) = (vec![], 0);
        let mut deadline = Instant::now() + IDLE_TIMEOUT;
        while batch.len() < self.batch && bytes < self.batch_bytes {
            let next = match self.ahead.pop_front() {
                Some(next) => Some(next),
                None => self.poll(deadline).await?,
            };
            let Some((delivery, message)) = next else { break };
            if batch.is_empty() {
                deadline = Instant::now() + self.linger;
            }
            bytes += message.payload.len();
            batch.push((delivery, message));
        }
        // The group may have moved partitions meanwhile.
        batch.retain(|(delivery, _)| self.has(delivery));
        if self.name.is_none() {
            batch.iter_mut().for_each(|(_, message): &mut (_, Message)| message.place = None);
        }
        let (deliveries, messages) = batch.into_iter().unzip();
        self.deliveries = deliveries;
        if self.deliveries.is_empty() && self.ahead.is_empty() {
            self.commit(self.moved()?).await?;
        }
        Ok(messages)
    }

    async fn settle(&mut self, left: &BTreeSet<usize>) -> Result<usize, Trouble> {
        let deliveries = std::mem::take(&mut self.deliveries);
        // A position stands for all before it, so it stays before the first that is left.
        let (mut next, mut ended, mut settled) = (BTreeMap::new(), BTreeSet::new(), 0);
        for (index, delivery) in deliveries.iter().enumerate() {
            if left.contains(&index) {
                ended.insert(delivery.partition);
            }
            if !ended.contains(&delivery.partition) && self.has(delivery) {
                next.insert(delivery.partition, delivery.offset + 1);
                settled += 1;
            }
        }
        self.commit(next).await?;
        Ok(settled)
    }

    async fn put_aside(
        &mut self,
        batch: &[Message],
        letters: &[DeadLetter],
    ) -> Result<(), Trouble> {
        match &self.letters {
            Some(place) => place.send(&self.deliveries, batch, letters).await,
            None => Ok(()),
        }
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn keep_interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn keep(&mut self) -> Result<(), Trouble> {
        self.group().set_paused(true);
        let all = self.consumer().assignment().map_err(lost)?;
        self.consumer().pause(&all).map_err(lost)?;
        let deadline = Instant::now() + POLL_TIMEOUT;
        while let Some(next) = self.poll(deadline).await? {
            self.ahead.push_back(next);
        }
        Ok(())
    }

    async fn lag(&mut self) -> Result<Lag, Trouble> {
        let topic = self.topic.clone();
        let left = self.ask(move |consumer| client::left(consumer, &topic)).await?;
        let under_way = self.deliveries.len() as u64;
        Ok(Lag { waiting: left.saturating_sub(under_way), under_way })
    }

    async fn close(&mut self) {
        let consumer = self.consumer.take();
        // It leaves the group, which need not wait for it then.
        let _ = timeout(BROKER_TIMEOUT / 10, spawn_blocking(move || drop(consumer))).await;
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // The client blocks while it leaves the group.
        if let Some(consumer) = self.consumer.take() {
            std::thread::spawn(move || drop(consumer));
        }
    }
}
