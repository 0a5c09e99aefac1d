//! Commands of other programs: `laurel rebuild …` runs `laurel-analytics rebuild …`, and `laurel
//! ingest …` and `laurel feed …` run `laurel-ingest`, as git and cargo run their programs.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

/// The name of the program that does batch jobs.
pub const PROGRAM: &str = "laurel-analytics";

/// The name of the program that takes scores from queues, and events to them.
pub const INGEST: &str = "laurel-ingest";

/// Commands whose arguments another program reads: `laurel-ingest` those of the first two,
/// and `laurel-analytics` those of the batch jobs.
#[derive(Debug, Subcommand)]
pub enum BatchCommand {
    /// Takes scores from a queue of RabbitMQ, a topic of Kafka or a stream of NATS JetStream.
    Ingest(Passed),
    /// Publishes events to a queue of RabbitMQ, a topic of Kafka or a stream of NATS JetStream.
    Feed(Passed),
    /// Takes events from a CSV, NDJSON or Parquet file.
    Import(Passed),
    /// Writes the standings of a board to a file, in rank order.
    Export(Passed),
    /// Writes everything that is kept of a member, as one JSON document.
    ExportMember(Passed),
    /// Rebuilds standings from the history, or moves a board to another number of shards.
    Rebuild(Passed),
    /// Folds a board on an engine such as Spark: a plan, statements, and a check of the states.
    Fold(Passed),
    /// Compares the history with the standings in SQL and in Redis, and repairs them.
    Diff(Passed),
    /// Loads Redis from SQL and the archive.
    Restore(Passed),
    /// Moves old events from SQL to Parquet files.
    Archive(Passed),
    /// Copies events to Parquet files in a directory or on an object store.
    Mirror(Passed),
    /// Finishes erasures of members that have events in files.
    EraseFiles(Passed),
    /// Moves rolling windows on to the present; the background work does it, too.
    Roll(Passed),
    /// Moves past periods that no window retains from Redis to SQL; the background work does it,
    /// too.
    Seal(Passed),
    /// Compares the standings of a board with those under other rules.
    WhatIf(Passed),
    /// Writes a page of charts about a board.
    Report(Passed),
    /// Writes all commits with their events to a file, which verify checks.
    History(Passed),
    /// Verifies a history file against signed checkpoints, without any store.
    Verify(Passed),
    /// Writes synthetic events to a file.
    Generate(Passed),
}

/// The arguments of a batch job, its --help among them.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0.., hide = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process with the other program.
pub fn run(command: BatchCommand) -> Result<()> {
    let (name, passed) = match command {
        BatchCommand::Ingest(passed) => return ingest(&[], passed),
        BatchCommand::Feed(passed) => return ingest(&["feed"], passed),
        BatchCommand::Import(passed) => ("import", passed),
        BatchCommand::Export(passed) => ("export", passed),
        BatchCommand::ExportMember(passed) => ("export-member", passed),
        BatchCommand::Rebuild(passed) => ("rebuild", passed),
        BatchCommand::Fold(passed) => ("fold", passed),
        BatchCommand::Diff(passed) => ("diff", passed),
        BatchCommand::Restore(passed) => ("restore", passed),
        BatchCommand::Archive(passed) => ("archive", passed),
        BatchCommand::Mirror(passed) => ("mirror", passed),
        BatchCommand::EraseFiles(passed) => ("erase-files", passed),
        BatchCommand::Roll(passed) => ("roll", passed),
        BatchCommand::Seal(passed) => ("seal", passed),
        BatchCommand::WhatIf(passed) => ("what-if", passed),
        BatchCommand::Report(passed) => ("report", passed),
        BatchCommand::History(passed) => ("history", passed),
        BatchCommand::Verify(passed) => ("verify", passed),
        BatchCommand::Generate(passed) => ("generate", passed),
    };
    let named = std::env::var_os("LAUREL_ANALYTICS").map(PathBuf::from);
    let program = program(named)?;
    if !program.is_file() {
        bail!(
            "{} is missing: build it with `make analytics`, or name it by LAUREL_ANALYTICS",
            program.display()
        );
    }
    become_program(Command::new(program).arg(name).args(passed.arguments))
}

/// Replaces this process with the program for brokers, which lies beside it. `command` names the
/// other one of its two commands.
fn ingest(command: &[&str], passed: Passed) -> Result<()> {
    let program = beside(INGEST)?;
    if !program.is_file() {
        bail!("{} is missing: build it with `make ingest`", program.display());
    }
    become_program(Command::new(program).args(command).args(passed.arguments))
}

fn become_program(command: &mut Command) -> Result<()> {
    let error = command.exec();
    Err(error).with_context(|| format!("{} cannot be started", command.get_program().display()))
}

/// The path of the program of batch jobs: the one that is named, else the one beside this program.
pub fn program(named: Option<PathBuf>) -> Result<PathBuf> {
    match named {
        Some(named) => Ok(named),
        None => beside(PROGRAM),
    }
}

/// The path of a program beside this one.
fn beside(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own path is not known")?;
    Ok(own.with_file_name(name))
}
