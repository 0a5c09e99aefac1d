//! Addresses of queues: a broker, a queue or a stream, and how to get at it.

mod rabbitmq;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use engine::settings::CleartextSettings;
use engine::settings::redacted::Redacted;
use url::Url;

pub(crate) use rabbitmq::{RabbitMqAddress, StreamAddress};

/// The form of an address.
const EXPECTED: &str = "expected amqp://USER:PASSWORD@HOST/VHOST?queue=QUEUE, kafka://HOST:9092,HOST:9092/TOPIC?group=GROUP or nats://HOST:4222/STREAM?consumer=NAME";

/// The longest name of a source, in bytes: the server takes longer ones, and NATS adds the time at
/// which a stream was made.
const SOURCE_NAME_BYTES_MAX: usize = 40;

/// The session of a member of a group of Kafka, in milliseconds: the bounds, and the default.
const SESSION_MS: std::ops::RangeInclusive<u32> = 1000..=3_600_000;
const SESSION_DEFAULT_MS: u32 = 45_000;

/// The address of a queue.
#[derive(Debug)]
pub(crate) enum Address {
    RabbitMq(RabbitMqAddress),
    Kafka(KafkaAddress),
    Nats(NatsAddress),
}

/// A topic of Kafka.
pub(crate) struct KafkaAddress {
    /// The brokers that are asked first, as their client takes them.
    pub(crate) servers: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    /// The name of the source, if the server is to keep positions.
    pub(crate) source: Option<String>,
    pub(crate) has_tls: bool,
    pub(crate) login: Option<KafkaLogin>,
    /// How long the group waits for a member that says nothing.
    pub(crate) session_ms: u32,
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
    /// The servers, as their client takes them.
    pub(crate) servers: Vec<String>,
    pub(crate) stream: String,
    /// The durable consumer, which is made if it is not there.
    pub(crate) consumer: String,
    /// The name of the source, if the server is to keep positions.
    pub(crate) source: Option<String>,
    /// The subjects that a new consumer gets; all of the stream by default.
    pub(crate) subject: Option<String>,
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
    let (mut group, mut mechanism, mut session_ms) = (None, None, SESSION_DEFAULT_MS);
    let mut source = None;
    for (name, value) in place.query_pairs() {
        match &*name {
            "group" => group = Some(value.into_owned()),
            "source" => source = Some(source_name(&value)?),
            "sasl.mechanism" => mechanism = Some(value.into_owned()),
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
    let has_tls = scheme == "kafkas";
    if !has_tls {
        servers
            .split(',')
            .try_for_each(|place| check_protected(host(place), cleartext, "kafkas://"))?;
    }
    Ok(Address::Kafka(KafkaAddress {
        servers: servers.to_owned(),
        topic,
        group,
        source,
        has_tls,
        login: kafka_login(login, mechanism)?,
        session_ms,
        allows_cleartext: cleartext.allow_cleartext,
    }))
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
    let (mut consumer, mut subject, mut credentials, mut source) = (None, None, None, None);
    for (name, value) in place.query_pairs() {
        match &*name {
            "consumer" => consumer = Some(value.into_owned()),
            "source" => source = Some(source_name(&value)?),
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
    if scheme == "nats" {
        hosts.split(',').try_for_each(|place| check_protected(host(place), cleartext, "tls://"))?;
    }
    let servers = hosts.split(',').map(|host| format!("{scheme}://{login}{host}")).collect();
    let may_go_elsewhere = scheme == "tls" || cleartext.allow_cleartext;
    Ok(Address::Nats(NatsAddress {
        servers,
        stream,
        consumer,
        source,
        subject,
        credentials,
        may_go_elsewhere,
    }))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address> {
        Address::parse(text, &CleartextSettings { allow_cleartext: false })
    }

    #[test]
    fn an_address_names_a_broker_and_a_queue() {
        let Address::RabbitMq(address) =
            parse("amqps://u:p%2F@h:5671/%2f?queue=sc%20ores&heartbeat=5").unwrap()
        else {
            panic!("it is of RabbitMQ");
        };
        assert_eq!(
            (&*address.url, &*address.queue),
            ("amqps://u:p%2F@h:5671/%2f?heartbeat=5", "sc ores")
        );
        assert!(address.stream.is_none());
        let Address::RabbitMq(address) = parse("amqps://h/?queue=s&source=s-1&offsets=o").unwrap()
        else {
            panic!("it is of RabbitMQ");
        };
        let stream = address.stream.unwrap();
        assert_eq!((&*stream.source, &*stream.offsets), ("s-1", "o"));
        let Address::Kafka(address) =
            parse("kafkas://u:p%2F@a:1,b/t.x?group=g&source=s-1&sasl.mechanism=SCRAM-SHA-256")
                .unwrap()
        else {
            panic!("it is of Kafka");
        };
        assert_eq!((&*address.servers, &*address.topic, &*address.group), ("a:1,b", "t.x", "g"));
        assert_eq!(address.source.as_deref(), Some("s-1"));
        let login = address.login.unwrap();
        assert_eq!((&*login.password, &*login.mechanism), ("p/", "SCRAM-SHA-256"));
        let Address::Nats(address) =
            parse("tls://u:p@a:1,b:2/SCORES?consumer=c&subject=s.>").unwrap()
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
            ("amqps://h/?queue=q&source=s", "expected both for a stream"),
            ("amqps://h/?queue=q&offsets=o", "expected both for a stream"),
            ("amqps://h/?queue=q&source=s&offsets=q", "its queue of offsets"),
            ("amqp://u:cret@h/?queue=q", "LAUREL_ALLOW_CLEARTEXT=true"),
            ("nats://u:cret@localhost,10.0.0.5:4222/S?consumer=c", "expected tls://"),
            ("nats://[2001:db8::1]:4222/S?consumer=c", "LAUREL_ALLOW_CLEARTEXT=true"),
            ("nats://u:cret@h", "it names no stream"),
            ("nats://u:cret@h/?consumer=c", "it names no stream"),
            ("nats://u:cret@h/a.b?consumer=c", "it names no stream"),
            ("nats://u:cret@h/S", "it names no consumer"),
            ("nats://u:cret@h,/S?consumer=c", "it names no host"),
            ("kafka://u:cret@h", "it names no topic"),
            ("kafka://u:cret@h/?group=g", "it names no topic"),
            ("kafka://u:cret@h/^t?group=g", "it names no topic"),
            ("kafka://u:cret@h/t", "it names no group"),
            ("kafka://u:cret@/t?group=g", "it names no host"),
            ("kafka://cret@localhost/t?group=g", "a user without a password"),
            ("kafka://u:cret@h:9092/t?group=g", "expected kafkas://"),
            ("kafka://localhost/t?group=g&sasl.mechanism=PLAIN", "no user"),
            ("kafkas://u:cret@h/t?group=g&sasl.mechanism=GSSAPI", "expected PLAIN"),
            ("kafkas://h/t?group=g&session.timeout.ms=1", "expected 1,000 to"),
            ("kafkas://h/t?group=g&acks=0", "unknown parameter acks"),
            ("kafkas://h/t?group=g&source=a%20b", "its source has no name"),
            ("tls://h/S?consumer=c&source=", "its source has no name"),
            ("u:cret@h", "expected amqp://"),
            ("", "expected amqp://"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
            assert!(!error.contains("cret"), "{error}");
        }
    }

    #[test]
    fn clear_text_may_stay_on_this_machine_or_be_allowed() {
        for text in [
            "amqp:///?queue=q",
            "nats://localhost:4222,[::1]:4222,127.0.0.2/S?consumer=c",
            "kafka://localhost:9092,[::1]:9092,127.0.0.2/t?group=g",
        ] {
            parse(text).unwrap();
        }
        let allowed = CleartextSettings { allow_cleartext: true };
        for text in
            ["amqp://h/?queue=q", "nats://h,10.0.0.5:4222/S?consumer=c", "kafka://h/t?group=g"]
        {
            Address::parse(text, &allowed).unwrap();
        }
    }

    #[test]
    fn a_text_may_be_percent_encoded() {
        for (value, said) in
            [("/game/1", "/game/1"), ("%C3%A4%20b", "ä b"), ("100%", "100%"), ("%zz%4", "%zz%4")]
        {
            assert_eq!(decoded(value), said);
        }
    }
}
