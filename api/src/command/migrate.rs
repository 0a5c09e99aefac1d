//! `laurel migrate`: the SQL schema, a step at a time.

use anyhow::{Result, bail};
use clap::Subcommand;
use engine::settings::stores::tzdb;
use entity::deployment;

use super::SqlArguments;

#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// Applies every step that is missing.
    Up(SqlArguments),
    /// Takes back the last step, and everything that its tables hold.
    Down {
        /// Confirms that the data may go.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        sql: SqlArguments,
    },
    /// Lists the steps, applied or pending.
    Status(SqlArguments),
    /// Takes this program's version of the time zone database for the deployment's, once all
    /// processes with another one have stopped.
    TimeZones(SqlArguments),
}

/// Runs a command.
pub async fn run(command: MigrateCommand) -> Result<()> {
    match command {
        MigrateCommand::Up(sql) => upgrade(&sql).await?,
        MigrateCommand::Down { yes: false, .. } => {
            bail!("the last step's tables and all their rows would go: confirm with --yes")
        }
        MigrateCommand::Down { yes: true, sql } => {
            migration::down(&connect(&sql).await?).await?;
        }
        MigrateCommand::Status(sql) => {
            for (name, state) in migration::status(&connect(&sql).await?).await? {
                println!("{state}  {name}");
            }
        }
        MigrateCommand::TimeZones(sql) => {
            sql.log.start("info")?;
            let db = sql.sql.connect().await?;
            let Some(row) = deployment::find(&db).await? else {
                bail!(
                    "there is no deployment in this database: expected one that `laurel serve` made"
                )
            };
            deployment::accept_tzdb(&db, tzdb()).await?;
            println!("time zone database {}, before {}", tzdb(), row.tzdb);
            println!("check boards whose zone has changed between the two: laurel diff");
        }
    }
    Ok(())
}

async fn upgrade(arguments: &SqlArguments) -> Result<()> {
    Ok(arguments.sql.upgrade(&connect(arguments).await?).await?)
}

async fn connect(arguments: &SqlArguments) -> Result<sea_orm::DatabaseConnection> {
    arguments.log.start("info")?;
    Ok(arguments.sql.connect_without_upgrade().await?)
}
