//! Settings of `laurel ingest`: the queue, the server, and the bounds of a batch.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::redacted::Secret;
use super::server::parse_address;

/// The most messages of a batch.
pub const INGEST_BATCH_MAX: u16 = 10_000;

/// The longest wait for a batch to fill, in milliseconds.
pub const INGEST_LINGER_MAX_MS: u64 = 10_000;

/// The least memory for messages that are held, in bytes.
pub const INGEST_BYTES_MIN: u64 = 4 << 20;

/// The most memory for messages that are held, in bytes.
pub const INGEST_BYTES_MAX: u64 = 16 << 30;

/// The queue that scores come from, and the server that takes them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Ingest")]
pub struct IngestSettings {
    /// The queue: amqp:// or amqps://USER:PASSWORD@HOST/VHOST?queue=QUEUE for RabbitMQ; kafka:// or
    /// kafkas://HOST:9092,HOST:9092/TOPIC?group=GROUP for Kafka; nats:// or
    /// tls://HOST:4222/STREAM?consumer=NAME for NATS JetStream, with subject=FILTER and
    /// credentials=FILE if need be. With source=NAME, the server keeps positions of a topic or a
    /// stream, so that scores count once for good; a stream of RabbitMQ needs offsets=QUEUE, too.
    /// The way there is encrypted or does not leave this machine, unless LAUREL_ALLOW_CLEARTEXT is
    /// true.
    #[arg(long, env = "LAUREL_INGEST_FROM", hide_env_values = true, value_name = "URL")]
    pub from: Option<Secret>,
    /// The server that takes the scores. The way there is encrypted or does not leave this machine,
    /// unless LAUREL_ALLOW_CLEARTEXT is true.
    #[arg(
        long,
        env = "LAUREL_INGEST_TO",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8000",
        value_name = "URL"
    )]
    pub to: Secret,
    /// An access token of scope submit. Other users of the machine may see a flag: prefer the
    /// variable or a file.
    #[arg(
        long,
        env = "LAUREL_INGEST_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        conflicts_with = "token_file"
    )]
    pub token: Option<Secret>,
    /// A file that has the access token. It is read again when the server refuses the token.
    #[arg(long, env = "LAUREL_INGEST_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The place for messages that are refused: a queue of RabbitMQ, a topic of Kafka, or a subject
    /// that a stream of NATS keeps. Without it the program stops at the first one.
    #[arg(long, env = "LAUREL_INGEST_DEAD_LETTERS", value_name = "NAME")]
    pub dead_letters: Option<String>,
    /// The board of messages that name none.
    #[arg(long, env = "LAUREL_INGEST_BOARD", value_name = "SLUG")]
    pub board: Option<String>,
    /// The form of routing keys, topics or subjects that name the board, such as "scores.{board}",
    /// for messages that name none.
    #[arg(
        long,
        env = "LAUREL_INGEST_BOARD_TEMPLATE",
        value_name = "TEMPLATE",
        conflicts_with = "board"
    )]
    pub board_template: Option<String>,
    /// The most messages that are taken and settled together, 1 to 10,000. The broker hands out
    /// four times as many ahead.
    #[arg(long, env = "LAUREL_INGEST_BATCH", default_value_t = 1000, value_name = "MESSAGES", value_parser = clap::value_parser!(u16).range(1..=INGEST_BATCH_MAX as i64))]
    pub batch: u16,
    /// The memory for messages that are held, in bytes, 4 MiB to 16 GiB. A batch has at most a
    /// quarter of it, unless one message alone has more; the rest is for messages that the broker
    /// hands out ahead.
    #[arg(long, env = "LAUREL_INGEST_BYTES", default_value_t = 64 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(INGEST_BYTES_MIN..=INGEST_BYTES_MAX))]
    pub bytes: u64,
    /// The longest wait for a batch to fill, in milliseconds, 0 to 10,000.
    #[arg(long, env = "LAUREL_INGEST_LINGER_MS", default_value_t = 20, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=INGEST_LINGER_MAX_MS))]
    pub linger_ms: u64,
    /// The point at which a message is settled: durable (SQL holds its scores) or applied (they are
    /// ranked in Redis, and a crash of Redis may lose the last moments).
    #[arg(long, env = "LAUREL_INGEST_ACK", default_value = "durable", value_name = "WHEN")]
    pub ack: IngestAck,
    /// A file of certificates, in PEM, that sign the broker's, in place of the system's.
    #[arg(long, env = "LAUREL_INGEST_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The address of /metrics, /healthz and /readyz. By default there is none.
    #[arg(long, env = "LAUREL_INGEST_OPERATIONS_LISTEN", value_name = "HOST:PORT", value_parser = parse_address)]
    pub ingest_operations_listen: Option<SocketAddr>,
}

/// The point at which a message is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum IngestAck {
    /// SQL holds its scores.
    Durable,
    /// Its scores are ranked in Redis.
    Applied,
}
