//! Addresses of queues and streams of RabbitMQ.

use anyhow::{Context, Result, bail, ensure};
use engine::settings::CleartextSettings;
use engine::settings::redacted::Redacted;
use url::Url;

use super::{Address, check_protected, source_name};

/// A queue or a stream of RabbitMQ.
pub(crate) struct RabbitMqAddress {
    /// The broker, as its client takes it.
    pub(crate) url: String,
    pub(crate) queue: String,
    /// The source and the queue of offsets, if it is a stream.
    pub(crate) stream: Option<StreamAddress>,
}

/// The part of an address without which a stream is not read.
pub(crate) struct StreamAddress {
    /// The name of the source.
    pub(crate) source: String,
    /// The queue that has the offset up to which it is settled.
    pub(crate) offsets: String,
}

impl std::fmt::Debug for RabbitMqAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "queue {} of {}", self.queue, Redacted(&self.url))
    }
}

/// Reads an address.
///
/// # Errors
/// Why it is none.
pub(super) fn parse(text: &str, cleartext: &CleartextSettings) -> Result<Address> {
    let mut url = Url::parse(text).map_err(|_| anyhow::anyhow!("it is no URL"))?;
    let pairs: Vec<(String, String)> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    url.set_query(None);
    let (mut queue, mut source, mut offsets) = (None, None, None);
    for (name, value) in pairs {
        match name.as_str() {
            "queue" => queue = Some(value),
            "source" => source = Some(source_name(&value)?),
            "offsets" => offsets = Some(value),
            // Its client knows these, and fails at others without a word.
            "heartbeat" | "connection_timeout" | "frame_max" | "channel_max" => {
                url.query_pairs_mut().append_pair(&name, &value);
            }
            _ => bail!("it has an unknown parameter {name}"),
        }
    }
    let queue = queue.filter(|queue| !queue.is_empty()).context("it names no queue")?;
    ensure!(queue.len() <= 255, "its queue has more than 255 bytes");
    let stream = match (source, offsets) {
        (Some(source), Some(offsets)) => {
            ensure!(
                (1..=255).contains(&offsets.len()) && offsets != queue,
                "its queue of offsets has no name of 1 to 255 bytes, or that of the stream"
            );
            Some(StreamAddress { source, offsets })
        }
        (None, None) => None,
        _ => bail!(
            "it has a source without a queue of offsets, or the other way round: expected both for a stream, and none for a queue"
        ),
    };
    if url.scheme() == "amqp" {
        // Its client goes to this machine where no host is named.
        let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost");
        check_protected(host, cleartext, "amqps://")?;
    }
    Ok(Address::RabbitMq(RabbitMqAddress { url: url.into(), queue, stream }))
}
