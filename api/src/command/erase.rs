//! `laurel erase`: a member erased from SQL, Redis and the archive, and the receipts of that.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use engine::audit::{Begun, of_command};
use engine::deployment::Deployment;
use engine::erasure::{Erased, erase, waits_for_files};
use engine::settings::StoreArguments;
use engine::settings::stores::Missing;
use entity::member::erasure::{self, Mode, Model, Step};
use jiff::Timestamp;
use ranking::id::MemberId;
use sea_orm::ActiveEnum;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{batch, connect, open};
use crate::background::erased_files::FILES_TIMEOUT;
use crate::background::program::Program;

/// How long the command works on an erasure before it leaves the rest to the background work.
const ERASE_TIMEOUT: Duration = Duration::from_secs(600);

/// How long to wait before it goes on with an erasure that another process works on.
const AGAIN: Duration = Duration::from_millis(200);

/// The most receipts that are listed.
const RECEIPTS_MAX: u64 = 1000;

#[derive(Debug, Subcommand)]
pub enum EraseCommand {
    /// Erases a member: its scores, entries, friends, tokens, bans and all else that names it. It
    /// cannot be taken back. Prints the receipt as JSON.
    Member {
        /// The key of the member.
        key: String,
        /// Keeps the scores, as those of a member with a new random key.
        #[arg(long)]
        anonymize: bool,
        /// Confirms that all of it may go.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        stores: Box<StoreArguments>,
    },
    /// Lists the newest receipts, one JSON object a line; none names its member.
    Receipts {
        #[command(flatten)]
        stores: Box<StoreArguments>,
    },
}

/// Runs a command.
///
/// # Errors
/// If a store does not answer, or the member cannot be erased.
pub async fn run(command: EraseCommand, environment: Vec<(String, OsString)>) -> Result<()> {
    let (EraseCommand::Member { stores, .. } | EraseCommand::Receipts { stores }) = &command;
    stores.log.start("warn")?;
    let db = connect(stores, Missing::Refuse).await?;
    let EraseCommand::Member { key, yes, anonymize, .. } = &command else {
        for row in erasure::receipts(&db, RECEIPTS_MAX).await? {
            println!("{}", receipt(&row)?);
        }
        return Ok(());
    };
    let member = MemberId::new(key)?;
    let mode = if *anonymize { Mode::Anonymize } else { Mode::Delete };
    if !yes {
        bail!("erasing a member cannot be taken back: confirm with --yes");
    }
    let deployment = open(stores, db).await?;
    // The audit log tells of the act, and not of the member.
    let act = of_command("laurel erase member", &deployment.clock);
    let begun = Begun::new(&deployment.db, act).await?;
    let erased = erase_from(&deployment, &member, mode, environment).await;
    begun.finish(&erased.as_ref().map_err(|_| "the member was not erased")).await;
    deployment.close().await;
    println!("{}", receipt(&erased?)?);
    Ok(())
}

async fn erase_from(
    deployment: &Deployment,
    member: &MemberId,
    mode: Mode,
    environment: Vec<(String, OsString)>,
) -> Result<Model> {
    let deadline = Instant::now() + ERASE_TIMEOUT;
    loop {
        let erased = erase(deployment, member, mode, deadline).await;
        let row = match erased.context("the member was not erased")? {
            Erased::Done(row) => return Ok(row),
            Erased::UnderWay(row) => row,
            Erased::NoSuchMember => bail!("no such member: expected the key of a member"),
        };
        if waits_for_files(deployment, &row).await? {
            erase_files(&environment).await.context(
                "the member is erased once files of the archive are written again: run `laurel erase-files`",
            )?;
        } else {
            // The background work may have gone on with it, and may end it.
            sleep(AGAIN).await;
        }
        let now = erasure::find(&deployment.db, &row.id).await?.unwrap_or(row);
        if now.step == Step::Done || Instant::now() >= deadline {
            return Ok(now);
        }
    }
}

/// Has the other program write the archive's files again.
async fn erase_files(environment: &[(String, OsString)]) -> Result<()> {
    let named = std::env::var_os("LAUREL_ANALYTICS").map(PathBuf::from);
    let program = Program { path: batch::program(named)?, environment: environment.to_vec() };
    if !program.path.is_file() {
        bail!("{} is missing: build it with `make analytics`", program.path.display());
    }
    let (_running, mut stop) = watch::channel(false);
    match program.run("erase-files", FILES_TIMEOUT, &mut stop).await? {
        Some((status, said)) if !status.success() => bail!("it ended with {status}: {said}"),
        _ => Ok(()),
    }
}

/// The receipt of an erasure, or its state.
fn receipt(row: &Model) -> Result<Value> {
    let time = |ms: i64| Timestamp::from_millisecond(ms).map(|time| format!("{time:.3}"));
    Ok(json!({
        "id": row.id,
        "mode": row.mode.to_value(),
        "done": row.step == Step::Done,
        "startedAt": time(row.started_at_ms)?,
        "erasedAt": row.erased_at_ms.map(time).transpose()?,
        "salt": row.salt,
        "hash": row.hash,
        "counts": row.counts()?,
    }))
}
