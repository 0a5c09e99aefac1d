//! Addresses of queues and streams of RabbitMQ.

use anyhow::{Context, Result, bail, ensure};
use engine::settings::CleartextSettings;
use engine::settings::redacted::Redacted;
use url::Url;

use super::{Address, NAME_BYTES_MAX, Parameters, check_protected, source_name};

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
    let (url, parameters) = rabbitmq_parts(text)?;
    let (mut queue, mut source, mut offsets) = (None, None, None);
    for (name, value) in parameters {
        match name.as_str() {
            "queue" => queue = Some(value),
            "source" => source = Some(source_name(&value)?),
            "offsets" => offsets = Some(value),
            _ => bail!("it has an unknown parameter {name}"),
        }
    }
    let queue = queue.filter(|queue| !queue.is_empty()).context("it names no queue")?;
    ensure!(queue.len() <= NAME_BYTES_MAX, "its queue has more than {NAME_BYTES_MAX} bytes");
    let stream = match (source, offsets) {
        (Some(source), Some(offsets)) => {
            ensure!(
                (1..=NAME_BYTES_MAX).contains(&offsets.len()) && offsets != queue,
                "its queue of offsets has no name of 1 to {NAME_BYTES_MAX} bytes, or that of the stream"
            );
            Some(StreamAddress { source, offsets })
        }
        (None, None) => None,
        _ => bail!(
            "it has a source without a queue of offsets, or the other way round: expected both for a stream, and none for a queue"
        ),
    };
    let url = protected_rabbitmq(&url, cleartext)?;
    Ok(Address::RabbitMq(RabbitMqAddress { url, queue, stream }))
}

/// The address of a RabbitMQ, as its client takes it, and the parameters that are not for its
/// client.
pub(crate) fn rabbitmq_parts(text: &str) -> Result<(Url, Parameters)> {
    let mut url = Url::parse(text).map_err(|_| anyhow::anyhow!("it is no URL"))?;
    let pairs: Vec<(String, String)> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    url.set_query(None);
    // Its client knows these, and fails at others without a word.
    let known = ["heartbeat", "connection_timeout", "frame_max", "channel_max"];
    let (known, others): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(name, _)| known.contains(&name.as_str()));
    for (name, value) in known {
        url.query_pairs_mut().append_pair(&name, &value);
    }
    Ok((url, others))
}

/// The address of a RabbitMQ, unless it would be reached in clear text and may not be.
pub(crate) fn protected_rabbitmq(url: &Url, cleartext: &CleartextSettings) -> Result<String> {
    if url.scheme() == "amqp" {
        // Its client goes to this machine where no host is named.
        let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost");
        check_protected(host, cleartext, "amqps://")?;
    }
    Ok(url.to_string())
}
