//! The consumer of a stream: the one that is there, or a new one on the first connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, FromConsumer, Info};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::stream::{ConsumerErrorKind, Stream};

use super::super::{Opening, PREFETCH_BATCHES, Trouble};
use super::{NatsAddress, trouble};

/// How long the broker waits for an acknowledgement before it hands a message out again.
/// [`super::Source::keep`] begins that time again.
const ACK_WAIT: Duration = Duration::from_secs(60);

/// The sequence after the last one up to which a consumer has settled everything; 0 before this
/// process has seen the consumer.
#[derive(Debug, Default)]
pub(crate) struct Floor(AtomicU64);

impl Floor {
    pub(super) fn note(&self, info: &Info) {
        self.0.store(info.ack_floor.stream_sequence + 1, Ordering::Relaxed);
    }
}

/// The consumer that an address names. It is made if it is not there, unless this process has seen
/// it: a new one would begin at the first message of the stream, and count again what has no id.
pub(super) async fn open(
    stream: &Stream,
    opening: &Opening,
    address: &NatsAddress,
) -> Result<Consumer<Config>, Trouble> {
    let name = &address.consumer;
    let cannot =
        |error: &dyn std::fmt::Display| anyhow!("the consumer {name} cannot be had: {error}");
    let found = stream.consumer_info(name).await;
    let consumer = match found.map_err(|error| (error.kind(), error)) {
        // The info is not enough: a consumer that pushes is refused here.
        Ok(_) => stream.get_consumer(name).await.map_err(|error| Trouble::Wrong(cannot(&error)))?,
        Err((ConsumerInfoErrorKind::NotFound, _)) => {
            let next = opening.floor.0.load(Ordering::Relaxed);
            if next > 0 {
                return Err(Trouble::Wrong(gone(address, next)));
            }
            make(stream, opening, address).await?
        }
        Err((kind, error)) => {
            use ConsumerInfoErrorKind::{NoResponders, Offline, Request, TimedOut};
            let is_passing = matches!(kind, NoResponders | Offline | Request | TimedOut);
            return Err(trouble(is_passing, cannot(&error)));
        }
    };
    check(&consumer)?;
    opening.floor.note(consumer.cached_info());
    Ok(consumer)
}

/// The consumer that an address names, deleted and made again behind all that it had settled: what
/// it has handed out to a process before would come between later messages. It then belongs to this
/// process alone, as one that took from it before gets nothing more.
///
/// The server keeps the positions, so a consumer that is lost between the two steps costs time
/// only.
pub(super) async fn open_in_order(
    stream: &Stream,
    opening: &Opening,
    address: &NatsAddress,
) -> Result<Consumer<Config>, Trouble> {
    let former = match stream.consumer_info(&address.consumer).await {
        Ok(_) => Some(open(stream, opening, address).await?),
        Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => None,
        // It says what is wrong.
        Err(_) => return open(stream, opening, address).await,
    };
    let next = opening.floor.0.load(Ordering::Relaxed).max(1);
    let mut config = match former {
        Some(former) => Config::try_from_consumer_config(former.cached_info().config.clone())
            .map_err(|error| Trouble::Wrong(anyhow!("{error}")))?,
        None => config(opening, address),
    };
    config.deliver_policy = DeliverPolicy::ByStartSequence { start_sequence: next };
    let name = &address.consumer;
    match stream.delete_consumer(name).await {
        Ok(_) => {}
        Err(error) => {
            let is_gone = matches!(stream.consumer_info(name).await, Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound);
            if !is_gone {
                return Err(Trouble::Lost(anyhow!(
                    "the consumer {name} cannot be made again: {error}"
                )));
            }
        }
    }
    let consumer = create(stream, config, name).await?;
    check(&consumer)?;
    Ok(consumer)
}

/// The configuration of a new consumer.
fn config(opening: &Opening, address: &NatsAddress) -> Config {
    Config {
        durable_name: Some(address.consumer.clone()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: i64::from(opening.batch) * i64::from(PREFETCH_BATCHES),
        filter_subject: address.subject.clone().unwrap_or_default(),
        ..Config::default()
    }
}

async fn create(stream: &Stream, config: Config, name: &str) -> Result<Consumer<Config>, Trouble> {
    stream.create_consumer(config).await.map_err(|error| {
        let is_passing =
            matches!(error.kind(), ConsumerErrorKind::TimedOut | ConsumerErrorKind::Request);
        trouble(is_passing, anyhow!("the consumer {name} cannot be made: {error}"))
    })
}

async fn make(
    stream: &Stream,
    opening: &Opening,
    address: &NatsAddress,
) -> Result<Consumer<Config>, Trouble> {
    let name = &address.consumer;
    let made = create(stream, config(opening, address), name).await?;
    tracing::warn!(
        "made the consumer {name} of the stream {}: it begins at the first message",
        address.stream
    );
    Ok(made)
}

/// The error about a consumer that was there before.
fn gone(address: &NatsAddress, next: u64) -> anyhow::Error {
    let NatsAddress { stream, consumer, .. } = address;
    anyhow!(
        "the consumer {consumer} of the stream {stream} is gone, and everything before sequence {next} was settled: expected it made again to go on from there (nats consumer add {stream} {consumer} --pull --ack explicit --deliver {next} --defaults), or a new start of the program to take the stream from its first message"
    )
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
