//! A queue of scores on a real broker, and the program that empties it.

mod kafka;
mod letters;
mod published;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::GetStreamErrorKind;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use crate::deployment::Deployment;
use crate::servers::kafka::Kafka;
use crate::servers::nats::Nats;
use crate::servers::program;
use crate::servers::rabbitmq::RabbitMq;
use crate::wait::until;
pub use letters::Letter;
pub use published::{Published, Reader};

/// The queue, the topic or the stream of scores.
const SCORES: &str = "SCORES";

/// The queue or the topic of dead letters, or their subject.
const DEAD: &str = "dead";

/// How long NATS waits for an acknowledgement: short, as a test waits for what a killed consumer
/// had taken.
const ACK_WAIT: Duration = Duration::from_secs(1);

/// A kind of broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Kafka,
    Nats,
    /// A quorum queue.
    RabbitMq,
    /// A stream, of which the server has to keep positions.
    RabbitMqStream,
}

/// A message to publish.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    pub payload: String,
    /// A header of the media type.
    pub content_type: Option<&'static str>,
    /// CloudEvents' attributes.
    pub attributes: Vec<(&'static str, String)>,
}

impl From<String> for Sent {
    fn from(payload: String) -> Self {
        Self { payload, ..Self::default() }
    }
}

/// A queue of scores with a place for dead letters, on a broker of its own.
pub enum Queue {
    Kafka(Kafka),
    Nats(Nats),
    RabbitMq(RabbitMq),
    RabbitMqStream(RabbitMq),
}

impl Queue {
    /// Starts a broker, and makes the queue.
    pub async fn start(kind: Kind, deployment: &Deployment) -> Self {
        let queue = match kind {
            Kind::Kafka => Self::Kafka(Kafka::start(deployment.path("kafka"))),
            Kind::Nats => Self::Nats(Nats::start(deployment.path("nats"))),
            Kind::RabbitMq => Self::RabbitMq(RabbitMq::start()),
            Kind::RabbitMqStream => Self::RabbitMqStream(RabbitMq::start()),
        };
        match &queue {
            Self::Kafka(server) => kafka::create_topics(server).await,
            Self::Nats(_) => {
                let context = queue.jetstream().await;
                for (name, subjects) in [(SCORES, "scores.>"), ("LETTERS", DEAD)] {
                    let config = jetstream::stream::Config {
                        name: name.to_owned(),
                        subjects: vec![subjects.to_owned()],
                        ..Default::default()
                    };
                    let stream = context.create_stream(config).await.unwrap();
                    if name == SCORES {
                        let config = pull::Config {
                            durable_name: Some("laurel".to_owned()),
                            ack_policy: AckPolicy::Explicit,
                            ack_wait: ACK_WAIT,
                            ..Default::default()
                        };
                        stream.create_consumer(config).await.unwrap();
                    }
                }
            }
            Self::RabbitMq(_) | Self::RabbitMqStream(_) => {
                let (_connection, channel) = queue.channel().await;
                let of_scores = if kind == Kind::RabbitMq { "quorum" } else { "stream" };
                for (name, kind) in [(SCORES, of_scores), (DEAD, "quorum")] {
                    let mut arguments = FieldTable::default();
                    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
                    let options = QueueDeclareOptions { durable: true, ..Default::default() };
                    channel.queue_declare(name.into(), options, arguments).await.unwrap();
                }
            }
        }
        queue
    }

    /// Its address, as `--from` takes it.
    pub fn url(&self) -> String {
        match self {
            Self::Kafka(server) => kafka::url(server),
            Self::Nats(server) => format!("{}/{SCORES}?consumer=laurel", server.url()),
            Self::RabbitMq(server) => format!("{}/%2f?queue={SCORES}", server.url()),
            Self::RabbitMqStream(server) => {
                format!("{}/%2f?queue={SCORES}&offsets=laurel", server.url())
            }
        }
    }

    /// Its address, as `laurel feed --broker` takes it.
    pub fn sink_url(&self) -> String {
        match self {
            Self::Kafka(server) => format!("kafka://{}/{SCORES}", server.servers()),
            Self::Nats(server) => format!("{}/{SCORES}?subject=scores.events", server.url()),
            Self::RabbitMq(server) | Self::RabbitMqStream(server) => {
                format!("{}/%2f?queue={SCORES}", server.url())
            }
        }
    }

    /// The program that publishes the events of a feed to this place.
    pub fn feed(&self, deployment: &Deployment, name: &str) -> Command {
        let mut command = deployment.api(&["feed", "--name", name]);
        command.env("LAUREL_FEED_BROKER", self.sink_url());
        command
    }

    /// Publishes messages, and waits until the broker has confirmed them.
    pub async fn publish(&self, messages: &[Sent]) {
        match self {
            Self::Kafka(server) => kafka::publish(server, messages, None).await,
            Self::Nats(_) => {
                let context = self.jetstream().await;
                for chunk in messages.chunks(500) {
                    let mut confirms = vec![];
                    for message in chunk {
                        let mut headers = async_nats::HeaderMap::new();
                        if let Some(kind) = message.content_type {
                            headers.insert("Content-Type", kind);
                        }
                        for (name, value) in &message.attributes {
                            headers.insert(format!("ce-{name}"), value.as_str());
                        }
                        let payload = message.payload.clone().into();
                        let sent = context.publish_with_headers("scores.b", headers, payload).await;
                        confirms.push(sent.unwrap());
                    }
                    for confirm in confirms {
                        confirm.await.unwrap();
                    }
                }
            }
            Self::RabbitMq(_) | Self::RabbitMqStream(_) => {
                let (_connection, channel) = self.channel().await;
                let mut confirms = vec![];
                for message in messages {
                    let (payload, properties) = (message.payload.as_bytes(), properties(message));
                    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
                    let sent = channel
                        .basic_publish("".into(), SCORES.into(), options, payload, properties)
                        .await;
                    confirms.push(sent.unwrap());
                }
                for confirm in confirms {
                    assert!(confirm.await.unwrap().is_ack());
                }
            }
        }
    }

    /// Publishes messages in one order, of which the broker keeps several.
    pub async fn publish_in_order(&self, messages: &[Sent]) {
        match self {
            Self::Kafka(server) => kafka::publish(server, messages, Some(0)).await,
            _ => self.publish(messages).await,
        }
    }

    /// Kills the broker without warning, and starts it again.
    pub async fn kill_and_restart(&mut self) {
        match self {
            Self::Kafka(server) => {
                server.kill();
                server.restart();
                kafka::until_up(server).await;
            }
            Self::Nats(server) => {
                server.kill();
                server.restart();
                self.jetstream().await;
            }
            Self::RabbitMq(server) | Self::RabbitMqStream(server) => {
                server.kill();
                server.restart();
                self.channel().await;
            }
        }
    }

    /// The program with this queue, a server, and a place for dead letters.
    pub fn ingest(&self, deployment: &Deployment, to: &str, token: &str) -> Command {
        ingest_from(&self.url(), deployment, to, token)
    }

    /// JetStream, once it answers.
    pub async fn jetstream(&self) -> jetstream::Context {
        let Self::Nats(server) = self else { panic!("it is no NATS") };
        until("NATS answers", async || {
            let client = async_nats::connect(server.url()).await.ok()?;
            let context = jetstream::new(client);
            // It answers that there is no such stream, as soon as it answers at all.
            let asked = context.get_stream("NONE").await;
            let is_up = matches!(asked, Err(error) if error.kind() != GetStreamErrorKind::Request);
            is_up.then_some(context)
        })
        .await
    }

    /// A channel with confirms, once RabbitMQ answers.
    pub async fn channel(&self) -> (Connection, Channel) {
        let (Self::RabbitMq(server) | Self::RabbitMqStream(server)) = self else {
            panic!("it is no RabbitMQ")
        };
        let url = format!("{}/%2f", server.url());
        until("RabbitMQ answers", async || {
            let connection =
                Connection::connect(&url, ConnectionProperties::default()).await.ok()?;
            let channel = connection.create_channel().await.ok()?;
            channel.confirm_select(ConfirmSelectOptions::default()).await.ok()?;
            Some((connection, channel))
        })
        .await
    }
}

/// The program with the address of a queue, a server, and a place for dead letters.
pub fn ingest_from(from: &str, deployment: &Deployment, to: &str, token: &str) -> Command {
    let mut command = program::command(program::INGEST);
    command
        .args(["--from", from, "--to", to])
        .env("LAUREL_INGEST_DEAD_LETTERS", DEAD)
        .env("LAUREL_INGEST_BATCH", "100")
        .env("LAUREL_INGEST_TOKEN", token)
        .current_dir(deployment.path("."))
        .stdin(std::process::Stdio::null());
    command
}

/// The properties of a message; it has the time of now, in seconds.
fn properties(message: &Sent) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in &message.attributes {
        let name = format!("cloudEvents:{name}");
        headers.insert(name.into(), AMQPValue::LongString(value.as_str().into()));
    }
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_delivery_mode(2)
        .with_timestamp(u64::try_from(crate::clock::now_ms() / 1000).unwrap());
    match message.content_type {
        Some(kind) => properties.with_content_type(kind.into()),
        None => properties,
    }
}

/// A running program; killed when dropped.
pub struct Ingest {
    child: Child,
    log: PathBuf,
}

impl Ingest {
    /// Starts a command.
    pub fn start(deployment: &Arc<Deployment>, mut command: Command) -> Self {
        let log = deployment.new_file("ingest");
        let file = File::create(&log).unwrap();
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log and its output so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it ends; returns its exit status, its log and its output.
    pub async fn wait(mut self) -> (ExitStatus, String) {
        let status = until("laurel-ingest ends", async || self.child.try_wait().unwrap()).await;
        (status, self.log())
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("---- log of laurel-ingest\n{}----", self.log());
        }
    }
}
