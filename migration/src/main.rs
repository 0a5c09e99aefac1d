//! `migration up | down | status`: moves the SQL schema.

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use migration::Migrator;
use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::Database;

/// Moves Laurel's SQL schema.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The database; by default SQLite in ./data/laurel.sqlite.
    #[arg(
        long,
        env = "LAUREL_DATABASE_URL",
        hide_env_values = true,
        default_value = "sqlite://data/laurel.sqlite?mode=rwc"
    )]
    database_url: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Applies every step that is missing.
    Up,
    /// Takes back the last step, and everything that its tables hold.
    Down {
        /// Yes, drop the data.
        #[arg(long)]
        yes: bool,
    },
    /// Says which steps are applied.
    Status,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let db =
        Database::connect(&arguments.database_url).await.context("the database does not answer")?;
    match arguments.command {
        Command::Up => migration::up(&db).await?,
        Command::Down { yes: true } => Migrator::down(&db, Some(1)).await?,
        Command::Down { yes: false } => bail!("this drops data; say --yes to go on"),
        Command::Status => {
            for step in Migrator::get_migration_with_status(&db).await? {
                println!("{}  {}", step.status(), step.name());
            }
        }
    }
    Ok(())
}
