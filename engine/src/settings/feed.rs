//! Settings of `laurel feed`: the webhook whose events it takes, and the broker that gets them.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::redacted::Secret;
use super::server::parse_address;

/// The events that go to a broker, and that broker.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Feed")]
pub struct FeedSettings {
    /// The name of the feed: it takes the events of the webhooks with the address feed:NAME.
    #[arg(long = "name", env = "LAUREL_FEED_NAME", value_name = "NAME")]
    pub feed_name: Option<String>,
    /// The place of the events: amqp:// or amqps://USER:PASSWORD@HOST/VHOST?queue=QUEUE for
    /// RabbitMQ, or exchange=EXCHANGE, which gets them with their type as the routing key; kafka://
    /// or kafkas://HOST:9092,HOST:9092/TOPIC for Kafka; nats:// or
    /// tls://HOST:4222/STREAM?subject=SUBJECT for NATS JetStream, with credentials=FILE if need be.
    /// The way there is encrypted or does not leave this machine, unless LAUREL_ALLOW_CLEARTEXT is
    /// true.
    #[arg(long = "broker", env = "LAUREL_FEED_BROKER", hide_env_values = true, value_name = "URL")]
    pub feed_broker: Option<Secret>,
    /// A file of certificates, in PEM, that sign the broker's, in place of the system's.
    #[arg(long = "broker-ca", env = "LAUREL_FEED_BROKER_CA", value_name = "FILE")]
    pub feed_broker_ca: Option<PathBuf>,
    /// The address of /metrics, /healthz and /readyz. By default there is none.
    #[arg(long, env = "LAUREL_FEED_OPERATIONS_LISTEN", value_name = "HOST:PORT", value_parser = parse_address)]
    pub feed_operations_listen: Option<SocketAddr>,
}
