//! `laurel`: GraphQL over HTTP, the background work, and the commands around them.
//!
//! | module | has |
//! |---|---|
//! | [`command`] | the commands, and the batch jobs that `laurel-analytics` does |
//! | [`http`] | connections, checks, cost, rates, answers; GraphiQL |
//! | [`graphql`] | the schema, one file a noun |
//! | [`live`] | standings that subscriptions follow |
//! | [`submit`] | submissions: committers and queues of partitions |
//! | [`loader`] | the look-ups of one request, batched |
//! | [`cache`] | pages, answers, boards, friends and members kept for a moment |
//! | [`background`] | the log into SQL, recovery, upkeep; the daily diff |
//! | [`webhook`] | receivers of events, messages and their signatures |
//! | [`access`] | access tokens |
//! | [`health`] | the stores, asked in the background: is SQL away, which partition is behind |
//! | [`metrics`] | counters, histograms and gauges |
//! | [`traces`] | spans, sent to a collector |

// Futures of resolvers nest deeply.
#![recursion_limit = "256"]

/// mimalloc, as an answer consists of many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod access;
mod app;
mod background;
mod cache;
mod command;
mod error;
mod graphql;
mod health;
mod http;
mod live;
mod loader;
mod metrics;
mod submit;
mod traces;
mod visibility;
mod webhook;

use std::process::ExitCode;
use std::time::Duration;

/// The stack of a thread, in bytes: a query may nest twenty levels of fields, each several stack
/// frames of async-graphql.
pub(crate) const STACK_BYTES: usize = 16 << 20;

/// How long tasks may take to notice that the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    engine::deployment::files::hide_new_files();
    let parsed = engine::settings::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .expect("the system has threads");
    let outcome = runtime.block_on(command::run(parsed));
    // A task that computes would keep a process that has stopped in order.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
