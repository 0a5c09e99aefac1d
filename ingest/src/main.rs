//! `laurel-ingest`: scores from a queue of a message broker, submitted to a server; and events,
//! published to a broker.
//!
//! | module | has |
//! |---|---|
//! | [`source`] | the brokers, one file each: batches, settling, dead letters, lag |
//! | [`message`], [`format`] | a message as it came, and the scores in it |
//! | [`server`] | the GraphQL API: scores, and an answer for each |
//! | [`worker`] | batch after batch: taken, submitted, dead letters, settled |
//! | [`feed`], [`sink`] | the events of a webhook, and the brokers that they go to, one file each |
//! | [`metrics`], [`pause`], [`operations`] | what was done, and the address that tells it |
//! | [`stop`] | signals, and the time left after one |

/// mimalloc, as messages are many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod feed;
mod format;
mod message;
mod metrics;
mod operations;
mod pause;
mod server;
mod sink;
mod source;
mod stop;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use engine::settings::{CleartextSettings, IngestSettings, LogSettings};

use feed::FeedArguments;
use metrics::Metrics;
use server::Server;
use source::Opening;
use stop::Stop;
use worker::Worker;

/// How long tasks may take to notice that the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

/// The log by default. The client of RabbitMQ logs each error that it returns.
const LOG: &str = "info,lapin=off";

/// Takes scores from a queue of RabbitMQ, a topic of Kafka or a stream of NATS JetStream, and
/// submits them to a server. A message is settled once its scores are answered for. Exit status: 0
/// stopped or, with --once, done; 1 failed; 2 wrong usage.
#[derive(Debug, Parser)]
#[command(name = "laurel-ingest", bin_name = "laurel ingest", version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Ends when nothing is left to take.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    ingest: IngestSettings,
    #[command(flatten)]
    cleartext: CleartextSettings,
    #[command(flatten)]
    log: LogSettings,
}

/// The other work of the program.
#[derive(Debug, Subcommand)]
enum Command {
    /// Publishes the events of a webhook to a queue or an exchange of RabbitMQ, a topic of Kafka or
    /// a stream of NATS JetStream. An event is done once the broker has confirmed it. Exit status:
    /// 0 stopped; 1 failed; 2 wrong usage.
    #[command(override_usage = "laurel feed [OPTIONS]", hide = true)]
    Feed(Box<FeedArguments>),
}

fn main() -> ExitCode {
    engine::deployment::files::hide_new_files();
    let arguments: Arguments = engine::settings::parse().arguments;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("the system has threads");
    let outcome = runtime.block_on(run(arguments));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    // Other crates of the build may bring a second provider, and then none is the default.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let Arguments { command, once, ingest: settings, cleartext, log } = arguments;
    if let Some(Command::Feed(arguments)) = command {
        return feed::run(*arguments).await;
    }
    log.start(LOG)?;
    let stop = Stop::new().context("signals cannot be caught")?;
    let opening = Opening::new(&settings, &cleartext)?;
    let server = Server::new(&settings, &cleartext)?;
    let metrics = Arc::new(Metrics::new(opening.place()));
    if let Some(address) = settings.ingest_operations_listen {
        operations::listen(address, metrics.clone()).await?;
    }
    let mut worker = Worker::new(&settings, opening, server, metrics.clone(), stop, once)?;
    let ended = worker.run().await;
    println!("{}", metrics.summary());
    ended
}
