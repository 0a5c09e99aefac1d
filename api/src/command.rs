//! The commands of the program.

mod adopt;
mod backup;
pub mod batch;
mod checkpoint;
mod demo;
mod erase;
mod manual;
mod migrate;
mod serve;
mod token;
mod worker;

use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use engine::deployment::Deployment;
use engine::settings::stores::Missing;
use engine::settings::{
    DailyDiffSettings, HttpSettings, LogSettings, Parsed, RetentionSettings, ServeSettings,
    SqlSettings, StoreArguments, TraceSettings, WebhookSettings,
};
use sea_orm::DatabaseConnection;

use crate::graphql;

/// The version of the program and its commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("LAUREL_COMMIT"), ")");

/// The version, with the last step of the SQL schema that the program knows.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let step = migration::steps().pop().unwrap_or_default();
    format!("{VERSION}\nSQL schema {step}")
});

/// Laurel, a leaderboard service.
#[derive(Debug, Parser)]
#[command(
    name = "laurel",
    version = VERSION,
    long_version = LONG_VERSION.as_str(),
    propagate_version = true,
    after_help = "The batch jobs, from import to generate, are done by laurel-analytics, ingest and feed by laurel-ingest. Both lie beside this program."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves GraphQL, and does the background work.
    Serve(Box<ServeArguments>),
    /// Does the background work alone: the log into SQL, recovery, upkeep, the daily diff.
    Worker(Box<WorkerArguments>),
    /// Creates the demo boards and loads their events, unless they are there.
    Demo(Box<StoreArguments>),
    /// Signs a checkpoint of each partition's history, and prints them.
    Checkpoint(Box<checkpoint::CheckpointArguments>),
    /// Makes, revokes and lists access tokens.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Moves the SQL schema; serve, demo and import bring it up to date by themselves.
    #[command(subcommand)]
    Migrate(migrate::MigrateCommand),
    /// Copies SQL and the archive to files, and makes a deployment of such a copy.
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Joins a Redis and a database that do not know each other, or are of different pasts; without
    /// --yes it shows what would be lost.
    Adopt(Box<AdoptArguments>),
    /// Erases a member, and lists the receipts of such erasures.
    #[command(subcommand)]
    Erase(erase::EraseCommand),
    /// Prints the GraphQL schema.
    Schema,
    /// Prints the completions of all commands for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Writes a manual page for each command.
    Manual {
        /// The directory; made if it is not there.
        directory: PathBuf,
    },
    #[command(flatten)]
    Batch(batch::BatchCommand),
}

#[derive(Debug, Args)]
struct ServeArguments {
    #[command(flatten)]
    http: HttpSettings,
    #[command(flatten)]
    serve: ServeSettings,
    #[command(flatten)]
    stores: StoreArguments,
}

#[derive(Debug, Args)]
struct WorkerArguments {
    #[command(flatten)]
    daily_diff: DailyDiffSettings,
    #[command(flatten)]
    retention: RetentionSettings,
    #[command(flatten)]
    traces: TraceSettings,
    #[command(flatten)]
    webhooks: WebhookSettings,
    #[command(flatten)]
    stores: StoreArguments,
}

#[derive(Debug, Args)]
struct AdoptArguments {
    /// Confirms that what only Redis has may go.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    stores: StoreArguments,
}

/// A command that needs SQL alone.
#[derive(Debug, Args)]
struct SqlArguments {
    #[command(flatten)]
    sql: SqlSettings,
    #[command(flatten)]
    log: LogSettings,
}

/// Runs a command to its end.
///
/// # Errors
/// The command's; the process then ends with status 1.
pub async fn run(parsed: Parsed<Arguments>) -> Result<()> {
    match parsed.arguments.command {
        Command::Serve(arguments) => serve::serve(*arguments, parsed.environment).await,
        Command::Worker(arguments) => worker::work(*arguments, parsed.environment).await,
        Command::Demo(arguments) => demo::run(*arguments).await,
        Command::Checkpoint(arguments) => checkpoint::run(*arguments).await,
        Command::Token(command) => token::run(command).await,
        Command::Migrate(command) => migrate::run(command).await,
        Command::Backup(command) => backup::run(command).await,
        Command::Adopt(arguments) => adopt::run(*arguments).await,
        Command::Erase(command) => erase::run(command, parsed.environment).await,
        Command::Schema => {
            print!("{}", graphql::sdl());
            Ok(())
        }
        Command::Completions { shell } => {
            manual::complete(shell);
            Ok(())
        }
        Command::Manual { directory } => manual::write_manual(&directory),
        Command::Batch(command) => batch::run(command),
    }
}

/// Connects to SQL.
async fn connect(stores: &StoreArguments, missing: Missing) -> Result<DatabaseConnection> {
    stores.settings.connect_sql(missing).await.context("the database cannot be opened")
}

/// Opens the stores behind a connection.
async fn open(stores: &StoreArguments, db: DatabaseConnection) -> Result<Deployment> {
    stores.settings.open(db).await.context("the stores cannot be opened")
}
