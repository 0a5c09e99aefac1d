//! `laurel backup`: a copy of SQL and the archive in files, and a deployment made of one.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Subcommand;
use engine::backup::{Manifest, apply, create};
use engine::settings::StoreArguments;
use engine::settings::sql::IDLE_JOB_TIMEOUT;

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Copies SQL, as of one moment, and the files of the archive to a new directory, beside the
    /// processes that write.
    Create(Box<BackupArguments>),
    /// Makes a deployment of a backup, in an empty database and an empty data directory.
    Apply(Box<BackupArguments>),
}

#[derive(Debug, clap::Args)]
pub struct BackupArguments {
    /// The directory of the backup.
    directory: PathBuf,
    #[command(flatten)]
    stores: StoreArguments,
}

/// Runs a command.
///
/// # Errors
/// If a store is not as the command expects it, or fails. Then there is no backup, or the stores
/// are as empty as before.
pub async fn run(command: BackupCommand) -> Result<()> {
    let (BackupCommand::Create(arguments) | BackupCommand::Apply(arguments)) = &command;
    arguments.stores.log.start("warn")?;
    let mut settings = arguments.stores.settings.clone();
    settings.sql.idle_transaction_timeout = IDLE_JOB_TIMEOUT;
    let mut progress = |line: String| eprintln!("{line}");
    let directory = &arguments.directory;
    match &command {
        BackupCommand::Create(_) => {
            let db = settings.sql.connect_without_upgrade().await;
            let db = db.context("the database cannot be opened")?;
            let made = create::create(&settings, &db, directory, &mut progress).await;
            // The rest is closed with the process.
            let _ = db.close().await;
            let made = made.context("no backup was made")?;
            println!("{} is a backup: {}", directory.display(), summary(&made));
        }
        BackupCommand::Apply(_) => {
            let applied = apply::apply(&settings, directory, &mut progress).await;
            let applied = applied.context("the backup was not applied")?;
            println!("applied {}; the next start loads Redis from SQL", summary(&applied));
        }
    }
    Ok(())
}

fn summary(manifest: &Manifest) -> String {
    format!(
        "deployment {}, {} rows of {} tables, {} files of the archive",
        manifest.deployment,
        manifest.rows(),
        manifest.tables.len(),
        manifest.archive.len()
    )
}
