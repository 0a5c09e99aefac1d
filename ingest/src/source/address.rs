//! Addresses of queues: a broker, a queue or a stream, and how to get at it.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use engine::settings::redacted::Redacted;
use url::Url;

/// The form of an address.
const EXPECTED: &str =
    "expected amqp://USER:PASSWORD@HOST/VHOST?queue=QUEUE or nats://HOST:4222/STREAM?consumer=NAME";

/// The address of a queue.
#[derive(Debug)]
pub(crate) enum Address {
    RabbitMq(RabbitMqAddress),
    Nats(NatsAddress),
}

/// A queue of RabbitMQ.
pub(crate) struct RabbitMqAddress {
    /// The broker, as its client takes it.
    pub(crate) url: String,
    pub(crate) queue: String,
}

/// A stream of NATS.
pub(crate) struct NatsAddress {
    /// The servers, as their client takes them.
    pub(crate) servers: Vec<String>,
    pub(crate) stream: String,
    /// The durable consumer, which is made if it is not there.
    pub(crate) consumer: String,
    /// The subjects that a new consumer gets; all of the stream by default.
    pub(crate) subject: Option<String>,
    pub(crate) credentials: Option<PathBuf>,
}

impl std::fmt::Debug for RabbitMqAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "queue {} of {}", self.queue, Redacted(&self.url))
    }
}

impl std::fmt::Debug for NatsAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {}, consumer {}", self.stream, self.consumer)
    }
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// The message says why, without its password.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let shown = Redacted(text);
        let invalid = |why: &str| format!("invalid LAUREL_INGEST_FROM {shown}: {why}");
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme {
            "amqp" | "amqps" => rabbitmq(text).with_context(|| invalid(EXPECTED)),
            "nats" | "tls" => nats(text).with_context(|| invalid(EXPECTED)),
            "kafka" => bail!(invalid("Kafka is not supported yet")),
            _ => bail!(invalid(EXPECTED)),
        }
    }
}

fn rabbitmq(text: &str) -> Result<Address> {
    let mut url = Url::parse(text).map_err(|_| anyhow::anyhow!("it is no URL"))?;
    let pairs: Vec<(String, String)> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    url.set_query(None);
    let mut queue = None;
    for (name, value) in pairs {
        match name.as_str() {
            "queue" => queue = Some(value),
            // Its client knows these, and fails at others without a word.
            "heartbeat" | "connection_timeout" | "frame_max" | "channel_max" => {
                url.query_pairs_mut().append_pair(&name, &value);
            }
            _ => bail!("it has an unknown parameter {name}"),
        }
    }
    let queue = queue.filter(|queue| !queue.is_empty()).context("it names no queue")?;
    ensure!(queue.len() <= 255, "its queue has more than 255 bytes");
    Ok(Address::RabbitMq(RabbitMqAddress { url: url.into(), queue }))
}

fn nats(text: &str) -> Result<Address> {
    let (scheme, rest) = text.split_once("://").context("it is no URL")?;
    let (hosts, rest) = rest.split_once('/').context("it names no stream")?;
    // Only the last part can be read as a URL: there may be several hosts.
    let place = Url::parse(&format!("place:///{rest}")).context("it is no URL")?;
    let stream = place.path().trim_matches('/').to_owned();
    let is_name = |name: &str| {
        let is_plain = |c: char| !c.is_whitespace() && !".*>/\\%".contains(c) && !c.is_control();
        !name.is_empty() && name.chars().all(is_plain)
    };
    ensure!(is_name(&stream), "it names no stream");
    let (mut consumer, mut subject, mut credentials) = (None, None, None);
    for (name, value) in place.query_pairs() {
        match &*name {
            "consumer" => consumer = Some(value.into_owned()),
            "subject" => subject = Some(value.into_owned()),
            "credentials" => credentials = Some(PathBuf::from(value.into_owned())),
            _ => bail!("it has an unknown parameter {name}"),
        }
    }
    let consumer = consumer.filter(|consumer| is_name(consumer)).context("it names no consumer")?;
    // A password stands before the first host, and holds for all.
    let (login, hosts) = match hosts.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), hosts),
    };
    ensure!(hosts.split(',').all(|host| !host.is_empty()), "it names no host");
    let servers = hosts.split(',').map(|host| format!("{scheme}://{login}{host}")).collect();
    Ok(Address::Nats(NatsAddress { servers, stream, consumer, subject, credentials }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_broker_and_a_queue() {
        let Address::RabbitMq(address) =
            Address::parse("amqps://u:p%2F@h:5671/%2f?queue=sc%20ores&heartbeat=5").unwrap()
        else {
            panic!("it is of RabbitMQ");
        };
        assert_eq!(
            (&*address.url, &*address.queue),
            ("amqps://u:p%2F@h:5671/%2f?heartbeat=5", "sc ores")
        );
        let Address::Nats(address) =
            Address::parse("tls://u:p@a:1,b:2/SCORES?consumer=c&subject=s.>").unwrap()
        else {
            panic!("it is of NATS");
        };
        assert_eq!(address.servers, ["tls://u:p@a:1", "tls://u:p@b:2"]);
        assert_eq!((&*address.stream, &*address.consumer), ("SCORES", "c"));
        assert_eq!(address.subject.as_deref(), Some("s.>"));
    }

    #[test]
    fn another_text_is_refused_without_its_password() {
        for (text, said) in [
            ("amqp://u:cret@h/", "it names no queue"),
            ("amqp://u:cret@h/?queue=q&quue=r", "unknown parameter quue"),
            ("nats://u:cret@h", "it names no stream"),
            ("nats://u:cret@h/?consumer=c", "it names no stream"),
            ("nats://u:cret@h/a.b?consumer=c", "it names no stream"),
            ("nats://u:cret@h/S", "it names no consumer"),
            ("nats://u:cret@h,/S?consumer=c", "it names no host"),
            ("kafka://u:cret@h/t", "not supported yet"),
            ("u:cret@h", "expected amqp://"),
            ("", "expected amqp://"),
        ] {
            let error = format!("{:#}", Address::parse(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
            assert!(!error.contains("cret"), "{error}");
        }
    }
}
