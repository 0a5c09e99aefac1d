//! Addresses of brokers that events go to, with the place there.

use anyhow::{Context, Result, bail, ensure};
use engine::settings::CleartextSettings;
use engine::settings::redacted::Redacted;

use crate::source::address::{
    KafkaBrokers, NAME_BYTES_MAX, NatsServers, kafka_parts, nats_parts, protected_rabbitmq,
    rabbitmq_parts,
};

/// The form of an address.
const EXPECTED: &str = "expected amqp://USER:PASSWORD@HOST/VHOST?queue=QUEUE, amqp://…?exchange=EXCHANGE, kafka://HOST:9092,HOST:9092/TOPIC or nats://HOST:4222/STREAM?subject=SUBJECT";

/// The address of a broker.
#[derive(Debug)]
pub(super) enum Address {
    RabbitMq(RabbitMqAddress),
    Kafka(KafkaAddress),
    Nats(NatsAddress),
}

/// A queue or an exchange of RabbitMQ.
pub(super) struct RabbitMqAddress {
    /// The broker, as its client takes it.
    pub(super) url: String,
    pub(super) place: RabbitMqPlace,
}

/// The place of events in a RabbitMQ.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RabbitMqPlace {
    Queue(String),
    Exchange(String),
}

/// A topic of Kafka.
pub(super) struct KafkaAddress {
    pub(super) brokers: KafkaBrokers,
    pub(super) topic: String,
}

/// A subject of a stream of NATS.
pub(super) struct NatsAddress {
    pub(super) servers: NatsServers,
    pub(super) stream: String,
    pub(super) subject: String,
}

impl std::fmt::Debug for RabbitMqAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {}", self.place, Redacted(&self.url))
    }
}

impl std::fmt::Debug for KafkaAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "topic {}", self.topic)
    }
}

impl std::fmt::Debug for NatsAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {}, subject {}", self.stream, self.subject)
    }
}

impl RabbitMqPlace {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Queue(name) | Self::Exchange(name) => name,
        }
    }
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// If it is none, or if the way to its broker is in clear text and may leave this machine. The
    /// message says why, without its password.
    pub(super) fn parse(text: &str, cleartext: &CleartextSettings) -> Result<Self> {
        let shown = Redacted(text);
        let invalid = || format!("invalid LAUREL_FEED_BROKER {shown}: {EXPECTED}");
        match text.split_once("://").map_or("", |(scheme, _)| scheme) {
            "amqp" | "amqps" => rabbitmq(text, cleartext).with_context(invalid),
            "nats" | "tls" => nats(text, cleartext).with_context(invalid),
            "kafka" | "kafkas" => kafka(text, cleartext).with_context(invalid),
            _ => bail!(invalid()),
        }
    }
}

fn rabbitmq(text: &str, cleartext: &CleartextSettings) -> Result<Address> {
    let (url, parameters) = rabbitmq_parts(text)?;
    let mut place = None;
    for (name, value) in parameters {
        let named = match name.as_str() {
            "queue" => RabbitMqPlace::Queue(value),
            "exchange" => RabbitMqPlace::Exchange(value),
            _ => bail!("it has an unknown parameter {name}"),
        };
        ensure!(place.replace(named).is_none(), "it names more than one queue or exchange");
    }
    let place = place.filter(|place| !place.name().is_empty());
    let place = place.context("it names no queue and no exchange")?;
    let bytes = place.name().len();
    ensure!(bytes <= NAME_BYTES_MAX, "its name has more than {NAME_BYTES_MAX} bytes");
    Ok(Address::RabbitMq(RabbitMqAddress { url: protected_rabbitmq(&url, cleartext)?, place }))
}

fn kafka(text: &str, cleartext: &CleartextSettings) -> Result<Address> {
    let (brokers, topic, parameters) = kafka_parts(text)?;
    if let Some((name, _)) = parameters.first() {
        bail!("it has an unknown parameter {name}");
    }
    Ok(Address::Kafka(KafkaAddress { brokers: brokers.protected(cleartext)?, topic }))
}

fn nats(text: &str, cleartext: &CleartextSettings) -> Result<Address> {
    let (servers, stream, parameters) = nats_parts(text)?;
    let mut subject = None;
    for (name, value) in parameters {
        match name.as_str() {
            "subject" => subject = Some(value),
            _ => bail!("it has an unknown parameter {name}"),
        }
    }
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"*>".contains(c))
    };
    let is_subject = |text: &String| text.len() <= NAME_BYTES_MAX && text.split('.').all(is_part);
    let subject = subject.filter(is_subject).context("it names no subject without wildcards")?;
    Ok(Address::Nats(NatsAddress { servers: servers.protected(cleartext)?, stream, subject }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address> {
        Address::parse(text, &CleartextSettings { allow_cleartext: false })
    }

    #[test]
    fn an_address_names_a_broker_and_a_place() {
        let Address::RabbitMq(address) =
            parse("amqps://u:p%2F@h:5671/%2f?exchange=events&heartbeat=5").unwrap()
        else {
            panic!("it is of RabbitMQ");
        };
        let place = RabbitMqPlace::Exchange("events".to_owned());
        assert_eq!(
            (&*address.url, address.place),
            ("amqps://u:p%2F@h:5671/%2f?heartbeat=5", place)
        );
        let Address::Kafka(address) = parse("kafka://localhost:1,[::1]:2/t.x").unwrap() else {
            panic!("it is of Kafka");
        };
        assert_eq!((&*address.brokers.servers, &*address.topic), ("localhost:1,[::1]:2", "t.x"));
        let Address::Nats(address) = parse("tls://u:p@a:1/EVENTS?subject=laurel.out").unwrap()
        else {
            panic!("it is of NATS");
        };
        assert_eq!((&*address.stream, &*address.subject), ("EVENTS", "laurel.out"));
    }

    #[test]
    fn another_text_is_refused_without_its_password() {
        for (text, said) in [
            ("amqp://u:cret@h/", "it names no queue and no exchange"),
            ("amqp://u:cret@h/?queue=", "it names no queue and no exchange"),
            ("amqp://u:cret@h/?queue=q&exchange=e", "more than one"),
            ("amqp://u:cret@h/?queue=q", "LAUREL_ALLOW_CLEARTEXT=true"),
            ("amqps://u:cret@h/?queue=q&key=k", "unknown parameter key"),
            ("kafka://u:cret@h/", "it names no topic"),
            ("kafkas://u:cret@h/t?group=g", "unknown parameter group"),
            ("kafka://u:cret@h/t", "expected kafkas://"),
            ("nats://u:cret@h/S", "it names no subject"),
            ("nats://u:cret@h/S?subject=a.*", "it names no subject"),
            ("nats://u:cret@h/S?subject=a..b", "it names no subject"),
            ("nats://u:cret@h/S?subject=a", "expected tls://"),
            ("https://u:cret@h/", "expected amqp://"),
            ("", "expected amqp://"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
            assert!(!error.contains("cret"), "{error}");
        }
    }
}
