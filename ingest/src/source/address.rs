//! Addresses of queues: a broker, a queue or a stream, and how to get at it.

mod rabbitmq;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use engine::settings::CleartextSettings;
use engine::settings::redacted::Redacted;
use url::Url;

pub(crate) use rabbitmq::{RabbitMqAddress, StreamAddress, protected_rabbitmq, rabbitmq_parts};

/// The form of an address.
const EXPECTED: &str = "expected amqp://USER:PASSWORD@HOST/VHOST?queue=QUEUE, kafka://HOST:9092,HOST:9092/TOPIC?group=GROUP or nats://HOST:4222/STREAM?consumer=NAME";

/// The longest name of a source, in bytes: the server takes longer ones, and NATS adds the time at
/// which a stream was made.
const SOURCE_NAME_BYTES_MAX: usize = 40;

/// The longest name of a queue or an exchange of RabbitMQ, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// The session of a member of a group of Kafka, in milliseconds: the bounds, and the default.
const SESSION_MS: std::ops::RangeInclusive<u32> = 1000..=3_600_000;
const SESSION_DEFAULT_MS: u32 = 45_000;

/// The parameters of an address, by their names.
pub(crate) type Parameters = Vec<(String, String)>;

/// The address of a queue.
#[derive(Debug)]
pub(crate) enum Address {
    RabbitMq(RabbitMqAddress),
    Kafka(KafkaAddress),
    Nats(NatsAddress),
}

/// A topic of Kafka.
pub(crate) struct KafkaAddress {
    pub(crate) brokers: KafkaBrokers,
    pub(crate) topic: String,
    pub(crate) group: String,
    /// The name of the source, if the server is to keep positions.
    pub(crate) source: Option<String>,
    /// How long the group waits for a member that says nothing.
    pub(crate) session_ms: u32,
}

/// The brokers of a Kafka, and how to get at them.
pub(crate) struct KafkaBrokers {
    /// Those that are asked first, as their client takes them.
    pub(crate) servers: String,
    pub(crate) has_tls: bool,
    pub(crate) login: Option<KafkaLogin>,
    /// True if brokers on other machines may be reached in clear text.
    pub(crate) allows_cleartext: bool,
}

/// A log-in to Kafka.
pub(crate) struct KafkaLogin {
    pub(crate) user: String,
    pub(crate) password: String,
    /// The mechanism of SASL.
    pub(crate) mechanism: String,
}

/// A stream of NATS.
pub(crate) struct NatsAddress {
    pub(crate) servers: NatsServers,
    pub(crate) stream: String,
    /// The durable consumer, which is made if it is not there.
    pub(crate) consumer: String,
    /// The name of the source, if the server is to keep positions.
    pub(crate) source: Option<String>,
    /// The subjects that a new consumer gets; all of the stream by default.
    pub(crate) subject: Option<String>,
}

/// The servers of a NATS, and how to get at them.
pub(crate) struct NatsServers {
    /// As their client takes them.
    pub(crate) urls: Vec<String>,
    pub(crate) credentials: Option<PathBuf>,
    /// True if the client may go to other servers that one of these names.
    pub(crate) may_go_elsewhere: bool,
}

impl std::fmt::Debug for KafkaAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "topic {}, group {}", self.topic, self.group)
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
    /// If it is none, or if the way to its broker is in clear text and may leave this machine. The
    /// message says why, without its password.
    pub(crate) fn parse(text: &str, cleartext: &CleartextSettings) -> Result<Self> {
        let shown = Redacted(text);
        let invalid = |why: &str| format!("invalid LAUREL_INGEST_FROM {shown}: {why}");
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme {
            "amqp" | "amqps" => rabbitmq::parse(text, cleartext).with_context(|| invalid(EXPECTED)),
            "nats" | "tls" => nats(text, cleartext).with_context(|| invalid(EXPECTED)),
            "kafka" | "kafkas" => kafka(text, cleartext).with_context(|| invalid(EXPECTED)),
            _ => bail!(invalid(EXPECTED)),
        }
    }
}

/// Fails if a broker on another machine would be reached in clear text.
fn check_protected(host: &str, cleartext: &CleartextSettings, protected: &str) -> Result<()> {
    ensure!(
        cleartext.permit(host),
        "the password and the messages would go in clear text: expected {protected}, a broker on this machine, or LAUREL_ALLOW_CLEARTEXT=true on a network that no stranger can read"
    );
    Ok(())
}

/// The host of a text such as `host:4222` or `[::1]:4222`.
fn host(place: &str) -> &str {
    match place.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => place,
    }
}

fn kafka(text: &str, cleartext: &CleartextSettings) -> Result<Address> {
    let (brokers, topic, parameters) = kafka_parts(text)?;
    let (mut group, mut session_ms, mut source) = (None, SESSION_DEFAULT_MS, None);
    for (name, value) in parameters {
        match name.as_str() {
            "group" => group = Some(value),
            "source" => source = Some(source_name(&value)?),
            "session.timeout.ms" => {
                session_ms = value
                    .parse()
                    .ok()
                    .filter(|ms| SESSION_MS.contains(ms))
                    .context("its session.timeout.ms is none: expected 1,000 to 3,600,000")?;
            }
            _ => bail!("it has an unknown parameter {name}"),
        }
    }
    let group = group.filter(|group| !group.is_empty()).context("it names no group")?;
    let brokers = brokers.protected(cleartext)?;
    Ok(Address::Kafka(KafkaAddress { brokers, topic, group, source, session_ms }))
}

/// The brokers and the topic of an address, and its other parameters.
pub(crate) fn kafka_parts(text: &str) -> Result<(KafkaBrokers, String, Parameters)> {
    let (scheme, rest) = text.split_once("://").context("it is no URL")?;
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    let (servers, rest) = rest.split_once('/').context("it names no topic")?;
    let is_host = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
    };
    ensure!(servers.split(',').all(is_host), "it names no host");
    let place = Url::parse(&format!("place:///{rest}")).context("it is no URL")?;
    let topic = place.path().trim_matches('/').to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    ensure!(
        (1..=249).contains(&topic.len()) && topic.chars().all(is_plain),
        "it names no topic of 1 to 249 letters, digits, dots, underscores and hyphens"
    );
    let (mut mechanism, mut parameters) = (None, vec![]);
    for (name, value) in place.query_pairs() {
        match &*name {
            "sasl.mechanism" => mechanism = Some(value.into_owned()),
            _ => parameters.push((name.into_owned(), value.into_owned())),
        }
    }
    let brokers = KafkaBrokers {
        servers: servers.to_owned(),
        has_tls: scheme == "kafkas",
        login: kafka_login(login, mechanism)?,
        allows_cleartext: false,
    };
    Ok((brokers, topic, parameters))
}

impl KafkaBrokers {
    /// These, unless they would be reached in clear text and may not be.
    pub(crate) fn protected(self, cleartext: &CleartextSettings) -> Result<Self> {
        if !self.has_tls {
            let mut places = self.servers.split(',');
            places.try_for_each(|place| check_protected(host(place), cleartext, "kafkas://"))?;
        }
        Ok(Self { allows_cleartext: cleartext.allow_cleartext, ..self })
    }
}

/// The log-in of an address; PLAIN is the mechanism if none is named.
fn kafka_login(login: Option<&str>, mechanism: Option<String>) -> Result<Option<KafkaLogin>> {
    let Some(login) = login else {
        ensure!(mechanism.is_none(), "it has a sasl.mechanism, and no user");
        return Ok(None);
    };
    let (user, password) = login.split_once(':').context("it has a user without a password")?;
    let mechanism = mechanism.unwrap_or_else(|| "PLAIN".to_owned());
    ensure!(
        matches!(&*mechanism, "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512"),
        "its sasl.mechanism is unknown: expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
    );
    Ok(Some(KafkaLogin { user: decoded(user), password: decoded(password), mechanism }))
}

/// The name of a source.
fn source_name(value: &str) -> Result<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    ensure!(
        (1..=SOURCE_NAME_BYTES_MAX).contains(&value.len()) && value.chars().all(is_plain),
        "its source has no name of 1 to {SOURCE_NAME_BYTES_MAX} letters, digits, dots, underscores and hyphens"
    );
    Ok(value.to_owned())
}

fn nats(text: &str, cleartext: &CleartextSettings) -> Result<Address> {
    let (servers, stream, parameters) = nats_parts(text)?;
    let (mut consumer, mut subject, mut source) = (None, None, None);
    for (name, value) in parameters {
        match name.as_str() {
            "consumer" => consumer = Some(value),
            "source" => source = Some(source_name(&value)?),
            "subject" => subject = Some(value),
            _ => bail!("it has an unknown parameter {name}"),
        }
    }
    let consumer =
        consumer.filter(|consumer| is_nats_name(consumer)).context("it names no consumer")?;
    let servers = servers.protected(cleartext)?;
    Ok(Address::Nats(NatsAddress { servers, stream, consumer, source, subject }))
}

/// The servers and the stream of an address, and its other parameters.
pub(crate) fn nats_parts(text: &str) -> Result<(NatsServers, String, Parameters)> {
    let (scheme, rest) = text.split_once("://").context("it is no URL")?;
    let (hosts, rest) = rest.split_once('/').context("it names no stream")?;
    // Only the last part can be read as a URL: there may be several hosts.
    let place = Url::parse(&format!("place:///{rest}")).context("it is no URL")?;
    let stream = place.path().trim_matches('/').to_owned();
    ensure!(is_nats_name(&stream), "it names no stream");
    let (mut credentials, mut parameters) = (None, vec![]);
    for (name, value) in place.query_pairs() {
        match &*name {
            "credentials" => credentials = Some(PathBuf::from(value.into_owned())),
            _ => parameters.push((name.into_owned(), value.into_owned())),
        }
    }
    // A password stands before the first host, and holds for all.
    let (login, hosts) = match hosts.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), hosts),
    };
    ensure!(hosts.split(',').all(|host| !host.is_empty()), "it names no host");
    let urls = hosts.split(',').map(|host| format!("{scheme}://{login}{host}")).collect();
    let servers = NatsServers { urls, credentials, may_go_elsewhere: scheme == "tls" };
    Ok((servers, stream, parameters))
}

/// True for the name of a stream or a consumer.
fn is_nats_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !".*>/\\%".contains(c) && !c.is_control();
    !name.is_empty() && name.chars().all(is_plain)
}

impl NatsServers {
    /// These, unless they would be reached in clear text and may not be.
    pub(crate) fn protected(self, cleartext: &CleartextSettings) -> Result<Self> {
        for place in self.urls.iter().filter_map(|url| url.strip_prefix("nats://")) {
            let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
            check_protected(host(place), cleartext, "tls://")?;
        }
        Ok(Self { may_go_elsewhere: self.may_go_elsewhere || cleartext.allow_cleartext, ..self })
    }
}

/// A text in which other characters than plain ones stand as %XX, decoded.
pub(super) fn decoded(value: &str) -> String {
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
