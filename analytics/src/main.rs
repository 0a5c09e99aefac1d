//! `analytics`: batch jobs over the whole history, with polars.
//!
//! | module | has |
//! |---|---|
//! | [`history`], [`events`] | the events of a board as a frame, from SQL and the archive |
//! | [`fold`] | the fold as polars expressions: events → standings |
//! | [`rebuild`] | standings from history, put in the place of those in Redis and SQL |
//! | [`reshard`] | a board moved to another number of shards |
//! | [`diff`], [`finding`] | history, SQL and Redis, compared three ways |
//! | [`archive`], [`parquet`] | old events into files, and out of SQL |
//! | [`restore`] | Redis from SQL and the archive |
//! | [`import`] | events from a file, into the ordinary path |
//! | [`generate`] | synthetic events into a file |
//! | [`export`], [`listing`], [`choice`] | standings into a file; their entries page by page; which are meant |
//! | [`file_format`], [`frame_file`], [`out_file`] | CSV, NDJSON or Parquet; frames into a file; a file that is there whole or not at all |
//! | [`what_if`] | standings under other rules |
//! | [`report`] | a page of pictures about a board |
//! | [`job`] | a job's row, its progress bar, its outcome |

mod archive;
mod choice;
mod crash;
mod diff;
mod events;
mod export;
mod file_format;
mod finding;
mod fold;
mod frame_file;
mod generate;
mod history;
mod import;
mod job;
mod listing;
mod out_file;
mod parquet;
mod rebuild;
mod report;
mod reshard;
mod restore;
mod what_if;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, Subcommand};
use entity::board;
use entity::deployment::{Deployment, Settings, parse_arguments, refuse_unknown_variables};
use migration::{Migrator, MigratorTrait};
use ranking::window::Window;
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder};
use tracing_subscriber::EnvFilter;

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
        #[arg(long)]
        shards: Option<u16>,
    },
    /// Compares the history with the standings in SQL and in Redis. Exit status 3 where they differ.
    Diff {
        /// The board's slug; every board by default.
        #[arg(long)]
        board: Option<String>,
    },
    /// Moves rolling windows on to the present and prepares the period after it. The API's background work does it by itself.
    Roll,
    /// Seals past periods that their windows do not retain: their final standings move from Redis to SQL. The API does it by itself.
    Seal,
    /// Makes Redis from SQL and the archive: partitions that are not level with SQL are loaded from it. The API does it by itself.
    Restore {
        /// The board's slug: all its standings are made anew from its history.
        #[arg(long)]
        board: Option<String>,
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

fn main() -> ExitCode {
    let arguments = parse_arguments::<Arguments>();
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(arguments: Arguments) -> Result<ExitCode> {
    refuse_unknown_variables(&[
        "LAUREL_LOG",
        "LAUREL_LOG_FORMAT",
        "LAUREL_LISTEN",
        "LAUREL_PUBLIC_READS",
    ])?;
    let Ok(filter) = EnvFilter::try_new(&arguments.log) else {
        bail!(
            "LAUREL_LOG: {:?} is no filter; info is accepted",
            arguments.log
        )
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    if let Command::Generate(generated) = &arguments.command {
        let generated = generate::generate(generated)?;
        tell(arguments.json, &generated.to_json(), &generated.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let db = arguments
        .settings
        .connect_sql()
        .await
        .context("the database cannot be opened (LAUREL_DATABASE_URL)")?;
    Migrator::up(&db, None)
        .await
        .context("the database cannot be migrated")?;
    let deployment = arguments
        .settings
        .open(db)
        .await
        .context("the stores cannot be opened")?;
    let outcome = tokio::select! {
        outcome = work(&deployment, arguments.command, arguments.json) => outcome,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("stopped; nothing is half done, run it again")),
    };
    deployment.close().await;
    outcome
}

async fn work(deployment: &Deployment, command: Command, json: bool) -> Result<ExitCode> {
    match command {
        Command::Rebuild {
            board,
            shards: Some(shards),
            ..
        } => {
            let board = find_board(deployment, &board).await?;
            let moved = reshard::reshard(deployment, &board, shards).await?;
            tell(json, &reshard::to_json(&moved), &moved.to_string());
        }
        Command::Rebuild { board, window, .. } => {
            let board = find_board(deployment, &board).await?;
            let rebuilt = rebuild::rebuild(deployment, &board, window).await?;
            tell(json, &rebuilt.to_json(), &rebuilt.to_string());
        }
        Command::Diff { board } => {
            let boards = find_boards(deployment, board.as_deref()).await?;
            let found = diff::diff(deployment, &boards).await?;
            tell(json, &found.to_json(), &found.to_string());
            if !found.is_clean() {
                return Ok(ExitCode::from(DIFFERENCES));
            }
        }
        Command::Roll => {
            let job = job::Job::begin(&deployment.db, "ROLL", None).await?;
            let rolled = entity::roll::roll(deployment, deployment.clock.now_ms()).await;
            let text =
                |boards| format!("the rolling windows of {boards} boards are at the present");
            let done = job.end(rolled.map(text).map_err(Into::into)).await?;
            tell(json, &serde_json::json!({ "done": done }), &done);
        }
        Command::Seal => {
            let job = job::Job::begin(&deployment.db, "SEAL", None).await?;
            let sealed = entity::seal::seal(deployment, deployment.clock.now_ms()).await;
            let sealed = job.end(sealed.map_err(anyhow::Error::from)).await?;
            tell(
                json,
                &serde_json::json!({ "windows": sealed.windows, "standings": sealed.standings, "entries": sealed.entries }),
                &sealed.to_string(),
            );
        }
        Command::Restore { board: None } => {
            let restored = restore::restore(deployment).await?;
            tell(json, &restored.to_json(), &restored.to_string());
        }
        Command::Restore { board: Some(slug) } => {
            let board = find_board(deployment, &slug).await?;
            let rebuilt = restore::restore_board(deployment, &board).await?;
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

/// The board of that slug; every board, by slug, where none is named.
async fn find_boards(deployment: &Deployment, slug: Option<&str>) -> Result<Vec<board::Model>> {
    match slug {
        Some(slug) => Ok(vec![find_board(deployment, slug).await?]),
        None => Ok(board::living()
            .order_by_asc(board::Column::Slug)
            .all(&deployment.db)
            .await?),
    }
}

async fn find_board(deployment: &Deployment, slug: &str) -> Result<board::Model> {
    let row = board::living()
        .filter(board::Column::Slug.eq(slug))
        .one(&deployment.db)
        .await?;
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
