//! `laurel-analytics`: batch jobs over the whole history, with polars.
//!
//! | module | has |
//! |---|---|
//! | [`frame`] | the history of a board as a frame, from SQL and the archive; the fold as polars expressions |
//! | [`rebuild`], [`reshard`], [`restore`] | standings from history; a board moved to another number of shards; Redis from SQL |
//! | [`diff`] | history, SQL and Redis, compared three ways, and repaired |
//! | [`archive`] | old events into files, and out of SQL |
//! | [`import`], [`export`], [`generate`] | events from a file; standings into one; synthetic events |
//! | [`what_if`], [`report`] | standings under other rules; a page of pictures about a board |
//! | [`file`] | CSV, NDJSON or Parquet; files that are there whole or not at all |
//! | [`job`], [`side_by_side`] | a job's row, its progress bar, its outcome; several partitions at once |
//! | [`failpoint`] | steps at which a test ends the program |

/// History is many small pieces too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod archive;
mod diff;
mod export;
mod failpoint;
mod file;
mod frame;
mod generate;
mod import;
mod job;
mod rebuild;
mod report;
mod reshard;
mod restore;
mod side_by_side;
mod what_if;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use engine::deployment::{Deployment, Settings, parse_arguments, refuse_unknown_variables};
use entity::board;
use futures::FutureExt;
use ranking::window::Window;
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tracing_subscriber::EnvFilter;

use crate::job::Job;

/// How long what others keep from being done is tried for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait before it is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// Exit status: differences were found.
const DIFFERENCES: u8 = 3;

/// Batch jobs over Laurel's history. Exit status: 0 done, 1 failed, 2 wrong usage, 3 differences found.
#[derive(Parser)]
#[command(name = "analytics", version)]
struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// What is logged, to standard error: error, warn, info, debug, trace, or a filter.
    #[arg(long, env = "LAUREL_LOG", default_value = "warn", global = true)]
    log: String,
    /// Print the outcome as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Stop when standard input ends: the API's background work starts this program so, and may be killed.
    #[arg(long, global = true, hide = true)]
    stop_with_stdin: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes standings anew from the history, in Redis and in SQL.
    Rebuild {
        /// The board's slug.
        #[arg(long)]
        board: String,
        /// One window only; every window by default.
        #[arg(long, conflicts_with = "shards")]
        window: Option<Window>,
        /// Moves the board to another number of shards while people play: a power of two up to the number of partitions.
        #[arg(long, conflicts_with = "exclusive")]
        shards: Option<u16>,
        /// Redis serves nobody else meanwhile: standings of any size are loaded by one command, which takes less than a second for a million entries.
        #[arg(long)]
        exclusive: bool,
    },
    /// Compares the history with the standings in SQL and in Redis, and repairs them. Exit status 3 where they differ, or still do after --repair.
    Diff(diff::Arguments),
    /// Moves rolling windows on to the present and prepares the period after it. The API's background work does it by itself.
    Roll,
    /// Seals past periods that their windows do not retain: their final standings move from Redis to SQL. The API does it by itself.
    Seal,
    /// Makes Redis from SQL and the archive: partitions that are not level with SQL are loaded from it. The API does it by itself.
    Restore {
        /// The board's slug: all its standings are made anew from its history.
        #[arg(long)]
        board: Option<String>,
        /// Redis serves nobody else meanwhile: standings of any size are loaded by one command, which takes less than a second for a million entries.
        #[arg(long)]
        exclusive: bool,
    },
    /// Moves old events from SQL to Parquet files, verified before their rows go.
    Archive(archive::Arguments),
    /// Takes events from a CSV, NDJSON or Parquet file with the columns member, score, at, and optionally board, event_id, region.
    Import(import::Arguments),
    /// Writes a whole standings, in rank order, to a CSV, NDJSON or Parquet file.
    Export(export::Arguments),
    /// Says what a standings would be under other rules, from the same history, and who would move. It changes nothing.
    WhatIf(what_if::Arguments),
    /// Writes a page about a board: how scores are spread, growth and activity, how the top moved, ties, the share of the top 1 %.
    Report(report::Arguments),
    /// Writes synthetic events to a CSV, NDJSON or Parquet file that import takes. It needs no store.
    Generate(generate::Arguments),
}

impl Command {
    /// Whether Redis serves nobody else meanwhile.
    fn is_exclusive(&self) -> bool {
        match self {
            Self::Rebuild { exclusive, .. } | Self::Restore { exclusive, .. } => *exclusive,
            _ => false,
        }
    }
}

/// The stack of a thread, in bytes: polars goes deep into what it plans, deepest without optimization.
const STACK_BYTES: usize = 16 << 20;

fn main() -> ExitCode {
    let arguments = parse_arguments::<Arguments>();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build();
    let outcome = runtime
        .context("no threads can be started")
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode> {
    refuse_unknown_variables(&[
        "LAUREL_LOG",
        "LAUREL_LOG_FORMAT",
        "LAUREL_LISTEN",
        "LAUREL_PUBLIC_READS",
        "LAUREL_DIFF_AT",
        "LAUREL_ANALYTICS",
    ])?;
    let Ok(filter) = EnvFilter::try_new(&arguments.log) else {
        bail!("LAUREL_LOG: {:?} is no filter; info is accepted", arguments.log)
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    if arguments.json {
        job::be_quiet();
    }
    let stop = Stop::new(arguments.stop_with_stdin)?;
    if let Command::Generate(generated) = arguments.command {
        return generate_until(stop, generated, arguments.json).await;
    }
    let db = arguments
        .settings
        .connect_sql()
        .await
        .context("the database cannot be opened (LAUREL_DATABASE_URL)")?;
    let deployment = arguments.settings.open(db).await.context("the stores cannot be opened")?;
    let outcome = work_until(stop, &deployment, arguments.command, arguments.json).await;
    deployment.close().await;
    outcome
}

/// Generates a file, until it is told to stop; then none is left.
async fn generate_until(
    mut stop: Stop,
    arguments: generate::Arguments,
    json: bool,
) -> Result<ExitCode> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let mut generating = tokio::task::spawn_blocking({
        let is_stopped = is_stopped.clone();
        move || generate::generate(&arguments, &is_stopped)
    });
    let generated = tokio::select! {
        generated = &mut generating => generated??,
        why = stop.wait() => {
            is_stopped.store(true, Ordering::Relaxed);
            // It ends by itself, and takes away what it wrote.
            let _ = generating.await;
            bail!(why)
        }
    };
    tell(json, &generated.to_json(), &generated.to_string());
    Ok(ExitCode::SUCCESS)
}

/// Works until that is done, or it is told to stop; then the job's row says so. Told a second time, it does not wait for what computes.
async fn work_until(
    mut stop: Stop,
    deployment: &Deployment,
    command: Command,
    json: bool,
) -> Result<ExitCode> {
    let mut working = tokio::spawn({
        let deployment = deployment.clone();
        async move { work(&deployment, command, json).await }
    });
    let why = tokio::select! {
        outcome = &mut working => return outcome?,
        why = stop.wait() => why,
    };
    working.abort();
    // Temporary files go with it.
    let is_impatient = tokio::select! {
        _ = working => false,
        _ = stop.wait() => true,
    };
    engine::job::end_own(&deployment.db, why).await?;
    if is_impatient {
        eprintln!("error: {why} while it computed; nothing is half done, run it again");
        std::process::exit(1);
    }
    bail!("{why}; nothing is half done, run it again")
}

/// What makes this program stop early.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// Sent to, or dropped without it, once standard input has ended, where that counts.
    stdin: Option<oneshot::Receiver<()>>,
}

impl Stop {
    fn new(with_stdin: bool) -> Result<Self> {
        let stdin = with_stdin.then(|| {
            let (ended, is_ended) = oneshot::channel();
            // A thread that nobody waits for: tokio would, when the program ends.
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                let _ = ended.send(());
            });
            is_ended
        });
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            stdin,
        })
    }

    /// Waits until it is told to, and says by whom.
    async fn wait(&mut self) -> &'static str {
        let stdin_ends = async {
            match self.stdin.take() {
                Some(ended) => drop(ended.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "stopped by the user",
            _ = self.terminate.recv() => "stopped by a signal",
            () = stdin_ends => "stopped with the server",
        }
    }
}

async fn work(deployment: &Deployment, command: Command, json: bool) -> Result<ExitCode> {
    if command.is_exclusive() {
        deployment.store.load_exclusively();
    }
    match command {
        Command::Rebuild { board, shards: Some(shards), .. } => {
            let board = find_board(deployment, &board).await?;
            let moved = reshard::reshard(deployment, &board, shards).await?;
            tell(json, &reshard::to_json(&moved), &moved.to_string());
        }
        Command::Rebuild { board, window, .. } => {
            let board = find_board(deployment, &board).await?;
            let rebuilt = rebuild::rebuild(deployment, &board, window).boxed().await?;
            tell(json, &rebuilt.to_json(), &rebuilt.to_string());
        }
        Command::Diff(arguments) => {
            let found = diff::diff(deployment, &arguments).boxed().await?;
            tell(json, &found.to_json(), &found.to_string());
            if !found.is_clean() {
                return Ok(ExitCode::from(DIFFERENCES));
            }
        }
        Command::Roll => {
            let job = Job::begin_in_turn(&deployment.db, "ROLL").await?;
            let now_ms = deployment.clock.now_ms();
            let rolled = patiently(|| engine::roll::roll(deployment, now_ms)).await;
            let text =
                |boards| format!("the rolling windows of {boards} boards are at the present");
            let done = job.end(rolled.map(text).map_err(Into::into)).await?;
            tell(json, &serde_json::json!({ "done": done }), &done);
        }
        Command::Seal => {
            let job = Job::begin_in_turn(&deployment.db, "SEAL").await?;
            let now_ms = deployment.clock.now_ms();
            let sealed = patiently(|| engine::seal::seal(deployment, now_ms)).await;
            let sealed = job.end(sealed.map_err(anyhow::Error::from)).await?;
            tell(
                json,
                &serde_json::json!({ "windows": sealed.windows, "standings": sealed.standings, "entries": sealed.entries }),
                &sealed.to_string(),
            );
        }
        Command::Restore { board: None, .. } => {
            let restored = restore::restore(deployment).await?;
            tell(json, &restored.to_json(), &restored.to_string());
        }
        Command::Restore { board: Some(slug), .. } => {
            let board = find_board(deployment, &slug).await?;
            let rebuilt = restore::restore_board(deployment, &board).boxed().await?;
            tell(json, &rebuilt.to_json(), &rebuilt.to_string());
        }
        Command::Archive(arguments) => {
            let archived = archive::archive(deployment, &arguments).await?;
            tell(json, &archived.to_json(), &archived.to_string());
        }
        Command::Import(arguments) => {
            let imported = import::import(deployment, &arguments).await?;
            tell(json, &imported.to_json(), &imported.to_string());
        }
        Command::Export(arguments) => {
            let board = find_board(deployment, &arguments.choice.board).await?;
            let exported = export::export(deployment, &board, &arguments).await?;
            tell(json, &exported.to_json(), &exported.to_string());
        }
        Command::WhatIf(arguments) => {
            let board = find_board(deployment, &arguments.choice.board).await?;
            let found = what_if::what_if(deployment, &board, &arguments).await?;
            tell(json, &found.to_json(), &found.to_string());
        }
        Command::Report(arguments) => {
            let board = find_board(deployment, &arguments.board).await?;
            let reported = report::report(deployment, &board, &arguments).await?;
            tell(json, &reported.to_json(), &reported.to_string());
        }
        Command::Generate(_) => unreachable!("it needs no stores, and was done without"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Does what may be done again, until it is done: others may be at the same, or at work on the same boards.
async fn patiently<T, F>(again: impl Fn() -> F) -> entity::Result<T>
where
    F: Future<Output = entity::Result<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match again().await {
            Err(error) if error.is_for_now() && Instant::now() < deadline => sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// The board of that slug; every board, by slug, where none is named.
async fn find_boards(deployment: &Deployment, slug: Option<&str>) -> Result<Vec<board::Model>> {
    match slug {
        Some(slug) => Ok(vec![find_board(deployment, slug).await?]),
        None => Ok(board::living().order_by_asc(board::Column::Slug).all(&deployment.db).await?),
    }
}

async fn find_board(deployment: &Deployment, slug: &str) -> Result<board::Model> {
    let row = board::living().filter(board::Column::Slug.eq(slug)).one(&deployment.db).await?;
    row.with_context(|| format!("there is no board {slug:?}"))
}

fn tell(json: bool, value: &serde_json::Value, text: &str) {
    if json {
        println!("{value}");
    } else {
        println!("{text}");
    }
}

/// A path as an argument shows it.
fn shown(path: &std::path::Path) -> String {
    path.display().to_string()
}
