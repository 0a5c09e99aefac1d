//! `laurel-analytics`: batch jobs over the whole history, with polars.
//!
//! | module | has |
//! |---|---|
//! | [`fold`] | the fold on an engine such as Spark: plan, statements, checks, load |
//! | [`frame`] | the history of a board as a frame, from SQL and archive; the fold in polars |
//! | [`rebuild`] | standings from history; a move; Redis from SQL |
//! | [`diff`] | history, SQL and Redis, compared three ways, and repaired |
//! | [`archive`] | old events into files, and out of SQL; files without erased members |
//! | [`mirror`] | all events as files on an object store, beside SQL |
//! | [`chain`] | commits followed from one to the next; histories written to a file, and verified |
//! | [`import`], [`export`], [`generate`] | events from, standings to a file; synthetic events |
//! | [`member`] | all that is kept of a member, as one document |
//! | [`what_if`], [`report`] | standings under other rules; a page of pictures about a board |
//! | [`upkeep`] | windows rolled, past periods sealed |
//! | [`file`] | CSV, NDJSON or Parquet; files that exist whole or not at all |
//! | [`job`] | a job's row, progress bar and outcome; partitions in parallel; early ends |
//! | [`operator`] | a command until its end, and its row in the audit log |

/// mimalloc, as a history, too, consists of many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod archive;
mod chain;
mod diff;
mod export;
mod file;
mod fold;
mod frame;
mod generate;
mod import;
mod job;
mod member;
mod mirror;
mod operator;
mod rebuild;
mod report;
mod upkeep;
mod what_if;

use std::fmt;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use engine::deployment::Deployment;
use engine::settings::sql::IDLE_JOB_TIMEOUT;
use engine::settings::stores::Missing;
use engine::settings::{LogSettings, StoreArguments};
use entity::board;
use futures::FutureExt;
use sea_orm::QueryOrder;
use serde::Serialize;

use job::stop::Stop;
use rebuild::arguments::{RebuildArguments, RestoreArguments};
use rebuild::{reshard, restore};

/// The exit status for differences found.
const DIFFERENCES: u8 = 3;

/// Batch jobs over Laurel's history. Exit status: 0 done, 1 failed, 2 wrong usage, 3 differences
/// found.
#[derive(Debug, Parser)]
#[command(name = "laurel-analytics", bin_name = "laurel", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Rebuilds the standings of a board from its history, in Redis and in SQL; or moves the board
    /// to another number of shards.
    Rebuild(On<RebuildArguments>),
    /// Compares the history with the standings in SQL and in Redis, and repairs them. Exit status 3
    /// if they differ, or still do after --repair.
    Diff(On<diff::Arguments>),
    /// Moves rolling windows on to the present and prepares the period after it. The server's
    /// background work does it by itself.
    Roll(On<NoArguments>),
    /// Seals past periods that their windows do not retain: their final standings move from Redis
    /// to SQL. The server does it by itself.
    Seal(On<NoArguments>),
    /// Loads the partitions of Redis that are not level with SQL, from SQL and the archive. The
    /// server does it by itself.
    Restore(On<RestoreArguments>),
    /// Moves old events from SQL to Parquet files, verified before their rows go.
    Archive(On<archive::Arguments>),
    /// Copies events to Parquet files in a directory or on an object store, verified, without
    /// taking them out of SQL.
    Mirror(On<mirror::Arguments>),
    /// Finishes erasures of members that have events in files: writes those of the archive and of
    /// the lake again without these. `laurel erase member`, `laurel archive` and the server do it
    /// by themselves.
    EraseFiles(On<NoArguments>),
    /// Takes events from a CSV, NDJSON or Parquet file with the columns member, score, at, and
    /// optionally board, event_id, region.
    Import(On<import::Arguments>),
    /// Writes all entries of the standings of a board, in rank order, to a CSV, NDJSON or Parquet
    /// file.
    Export(On<export::Arguments>),
    /// Writes everything that SQL and the archive keep of one member, as one JSON document. It
    /// needs no Redis, and works beside a server.
    ExportMember(On<member::Arguments>),
    /// Computes the standings of a board under other rules, from the same history, and the members
    /// that would move. It changes nothing.
    WhatIf(On<what_if::Arguments>),
    /// Writes a page about a board: the spread of scores, growth, activity, moves at the top, ties,
    /// the share of the top 1 %.
    Report(On<report::Arguments>),
    /// Writes all commits with their events to an NDJSON file, which verify checks.
    History(On<chain::history::Arguments>),
    /// Verifies a history file against signed checkpoints. It needs no store. Exit status 3 if the
    /// history is not what the checkpoints say.
    Verify(Alone<chain::verify::Arguments>),
    /// Folds a board on an engine such as Spark, in steps: a plan, a statement for each window,
    /// their run, a check of the engine's states. `rebuild --plan` loads them.
    #[command(subcommand)]
    Fold(fold::FoldCommand),
    /// Writes synthetic events to a CSV, NDJSON or Parquet file that import takes. It needs no
    /// store.
    Generate(Alone<generate::Arguments>),
}

/// A job's own arguments, and those of every job that opens the stores.
#[derive(Debug, Args)]
struct On<A: Args> {
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    stores: Box<StoreArguments>,
}

/// A job's own arguments, and those of every job that needs no store.
#[derive(Debug, Args)]
struct Alone<A: Args> {
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    log: LogSettings,
}

#[derive(Debug, Args)]
struct NoArguments {}

#[derive(Debug, Args)]
struct OutputArguments {
    /// Prints the outcome as JSON.
    #[arg(long)]
    json: bool,
    /// Stops when standard input ends: the server starts this program so, and may be killed.
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

impl Command {
    /// The arguments common to all jobs; no stores for a job that needs none.
    fn common(&self) -> (&OutputArguments, &LogSettings, Option<&StoreArguments>) {
        fn on<A: Args>(on: &On<A>) -> (&OutputArguments, &LogSettings, Option<&StoreArguments>) {
            (&on.output, &on.stores.log, Some(&on.stores))
        }
        match self {
            Self::Rebuild(job) => on(job),
            Self::Diff(job) => on(job),
            Self::Roll(job) | Self::Seal(job) => on(job),
            Self::Restore(job) => on(job),
            Self::Archive(job) => on(job),
            Self::EraseFiles(job) => on(job),
            Self::Mirror(job) => on(job),
            Self::Import(job) => on(job),
            Self::Export(job) => on(job),
            Self::ExportMember(job) => on(job),
            Self::WhatIf(job) => on(job),
            Self::Report(job) => on(job),
            Self::History(job) => on(job),
            Self::Fold(fold::FoldCommand::Plan(job)) => on(job),
            Self::Fold(fold::FoldCommand::Sql(job)) => (&job.output, &job.log, None),
            Self::Fold(fold::FoldCommand::Run(job)) => (&job.output, &job.log, None),
            Self::Fold(fold::FoldCommand::Check(job)) => (&job.output, &job.log, None),
            Self::Verify(job) => (&job.output, &job.log, None),
            Self::Generate(job) => (&job.output, &job.log, None),
        }
    }

    /// True if Redis answers no other client during the job.
    fn is_exclusive(&self) -> bool {
        match self {
            Self::Rebuild(job) => job.own.exclusive,
            Self::Restore(job) => job.own.exclusive,
            _ => false,
        }
    }

    /// An import makes a deployment if there is none: it may be a newcomer's first command.
    fn if_missing(&self) -> Missing {
        if matches!(self, Self::Import(_)) { Missing::Create } else { Missing::Refuse }
    }
}

/// The stack of a thread, in bytes: polars recurses deep into its plans, deepest without
/// optimization.
const STACK_BYTES: usize = 16 << 20;

fn main() -> ExitCode {
    engine::deployment::files::hide_new_files();
    let arguments: Arguments = engine::settings::parse().arguments;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build();
    let outcome = runtime
        .context("no threads can be started")
        .and_then(|runtime| runtime.block_on(run(arguments.command)));
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<ExitCode> {
    let (output, log, stores) = command.common();
    log.start("warn")?;
    if output.json {
        job::hide_progress();
    }
    let (json, stop) = (output.json, Stop::new(output.stop_with_stdin)?);
    let Some(stores) = stores else {
        return match command {
            Command::Generate(job) => generate::generate_until(stop, job.own, json).await,
            Command::Verify(job) => verify(stop, job.own, json).await,
            Command::Fold(command) => {
                fold::run_alone(stop, command, json).await?;
                Ok(ExitCode::SUCCESS)
            }
            _ => unreachable!("it needs stores"),
        };
    };
    let mut settings = stores.settings.clone();
    settings.sql.idle_transaction_timeout = IDLE_JOB_TIMEOUT;
    let db = settings
        .connect_sql(command.if_missing())
        .await
        .context("the database cannot be opened")?;
    if let Command::ExportMember(job) = command {
        member::export_until(stop, settings, db, job.own, json).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let deployment = settings.open(db).await.context("the stores cannot be opened")?;
    let outcome = operator::work_until(stop, &deployment, command, json).await;
    deployment.close().await;
    outcome
}

/// Verifies history files.
async fn verify(stop: Stop, arguments: chain::verify::Arguments, json: bool) -> Result<ExitCode> {
    let verified = chain::verify::verify_until(stop, arguments).await?;
    print_outcome(json, &verified)?;
    Ok(if verified.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

async fn work(deployment: &Deployment, command: Command, json: bool) -> Result<ExitCode> {
    if command.is_exclusive() {
        deployment.store.load_exclusively();
    }
    match command {
        Command::Rebuild(job) => rebuild(deployment, &job.own, json).boxed().await?,
        Command::Diff(job) => {
            return compare(deployment, job.own, json).boxed().await;
        }
        Command::Roll(_) => print_outcome(json, &upkeep::roll(deployment).await?)?,
        Command::Seal(_) => print_outcome(json, &upkeep::seal(deployment).await?)?,
        Command::Restore(job) => match job.own.board {
            None => print_outcome(json, &restore::restore(deployment).await?)?,
            Some(slug) => {
                let board = find_board(deployment, &slug).await?;
                let rebuilt = restore::restore_board(deployment, &board).boxed().await?;
                print_outcome(json, &rebuilt)?;
            }
        },
        Command::Archive(job) => {
            print_outcome(json, &archive::archive(deployment, &job.own).await?)?;
        }
        Command::Mirror(job) => {
            return mirror::run(deployment, &job.own, json).boxed().await;
        }
        Command::EraseFiles(_) => {
            print_outcome(json, &archive::erasing::erase_files(deployment).await?)?;
        }
        Command::Import(job) => {
            print_outcome(json, &import::import(deployment, &job.own).await?)?;
        }
        Command::Export(job) => {
            let board = find_board(deployment, &job.own.choice.board).await?;
            print_outcome(json, &export::export(deployment, &board, &job.own).await?)?;
        }
        Command::WhatIf(job) => {
            let board = find_board(deployment, &job.own.choice.board).await?;
            print_outcome(json, &what_if::what_if(deployment, &board, &job.own).await?)?;
        }
        Command::Report(job) => {
            let board = find_board(deployment, &job.own.board).await?;
            print_outcome(json, &report::report(deployment, &board, &job.own).await?)?;
        }
        Command::History(job) => {
            print_outcome(json, &chain::history::history(deployment, &job.own).await?)?;
        }
        Command::Fold(fold::FoldCommand::Plan(job)) => {
            fold::plan(deployment, &job.own, json).boxed().await?;
        }
        Command::ExportMember(_) | Command::Fold(_) | Command::Generate(_) | Command::Verify(_) => {
            unreachable!("`run` does them")
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Rebuilds a board, or a part of it, or moves it to another number of shards.
async fn rebuild(deployment: &Deployment, own: &RebuildArguments, json: bool) -> Result<()> {
    let board = find_board(deployment, &own.board).await?;
    if let Some(shards) = own.shards {
        print_outcome(json, &reshard::reshard(deployment, &board, shards).await?)?;
    } else if let Some(part) = own.part {
        let rebuilding = rebuild::shared::rebuild_part(deployment, &board, own.window, part);
        print_outcome(json, &rebuilding.boxed().await?)?;
    } else if let Some(states) = own.states.checked(deployment, &board).boxed().await? {
        let rebuilt = rebuild::rebuild_from(deployment, &board, states).boxed().await?;
        print_outcome(json, &rebuilt)?;
    } else {
        let rebuilt = rebuild::rebuild(deployment, &board, own.window).boxed().await?;
        print_outcome(json, &rebuilt)?;
    }
    Ok(())
}

/// Compares boards, or a part of them.
async fn compare(
    deployment: &Deployment,
    arguments: diff::Arguments,
    json: bool,
) -> Result<ExitCode> {
    let is_clean = match arguments.part {
        Some(part) => {
            let done = diff::shared::diff_part(deployment, &arguments, part).await?;
            print_outcome(json, &done)?;
            done.own.is_clean()
        }
        None => {
            let found = diff::diff(deployment, arguments).await?;
            print_outcome(json, &found)?;
            found.is_clean()
        }
    };
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

/// The board with this slug; every board, by slug, if none is named.
async fn find_boards(deployment: &Deployment, slug: Option<&str>) -> Result<Vec<board::Model>> {
    match slug {
        Some(slug) => Ok(vec![find_board(deployment, slug).await?]),
        None => Ok(board::living().order_by_asc(board::Column::Slug).all(&deployment.db).await?),
    }
}

async fn find_board(deployment: &Deployment, slug: &str) -> Result<board::Model> {
    let row = board::of_slug(&deployment.db, slug).await?;
    row.with_context(|| format!("unknown board {slug:?}: expected the slug of a board"))
}

/// Prints an outcome as JSON or as text.
fn print_outcome(json: bool, outcome: &(impl Serialize + fmt::Display)) -> Result<()> {
    match json {
        true => println!("{}", serde_json::to_value(outcome)?),
        false => println!("{outcome}"),
    }
    Ok(())
}

/// A path as an argument shows it.
fn display_path(path: &std::path::Path) -> String {
    path.display().to_string()
}
