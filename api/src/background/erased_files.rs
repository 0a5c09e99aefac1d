//! Files of the archive and of the lake that erasures wait for: `laurel-analytics` writes them
//! again.
//!
//! A process does so if it runs the daily diff, as it has the program then, and if it can reach the
//! archive's directory. Any other one leaves that to `laurel erase member`, `laurel erase-files`
//! and `laurel archive`, and says so.

use std::time::Duration;

use anyhow::{Result, bail};
use engine::board::agenda::Agenda;
use engine::deployment::Deployment;
use engine::erasure::waits_for_files;
use engine::history::archive::erasing::{is_in_the_way, some_file};
use entity::member::erasure;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::program::Program;

/// The longest run of the program.
pub(crate) const FILES_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// How long after a failure the program is started again.
const FILES_AGAIN_AFTER: Duration = Duration::from_secs(300);

/// The pause after a look that found an erasure.
const FILES_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the program whenever an erasure waits for files, until `stop` is set.
pub(crate) async fn work(
    program: Option<Program>,
    deployment: &Deployment,
    agenda: &Agenda,
    (mut refreshed, mut stop): (watch::Receiver<()>, watch::Receiver<bool>),
) {
    let (mut well, mut after) = (true, Instant::now());
    while !*stop.borrow() {
        tokio::select! {
            told = refreshed.changed() => if told.is_err() {
                return;
            },
            _ = stop.changed() => return,
        }
        if agenda.signs().erasures == 0 || Instant::now() < after {
            continue;
        }
        let looked = look(program.as_ref(), deployment, &mut stop).await;
        let was_well = std::mem::replace(&mut well, looked.is_ok());
        if let Err(error) = looked {
            after =
                Instant::now() + if program.is_some() { FILES_AGAIN_AFTER } else { FILES_INTERVAL };
            if was_well {
                tracing::warn!("erasures: {error:#}");
            }
        }
        tokio::select! {
            () = sleep(FILES_INTERVAL) => {}
            _ = stop.changed() => {}
        }
    }
}

/// Runs the program if an erasure waits for files.
async fn look(
    program: Option<&Program>,
    deployment: &Deployment,
    stop: &mut watch::Receiver<bool>,
) -> Result<()> {
    let Some(row) = waiting(deployment).await? else { return Ok(()) };
    let directory = &deployment.archive_dir;
    let is_here = match some_file(&deployment.db).await? {
        Some(file) => directory.join(file.path).is_file(),
        // The lake needs no directory of the archive.
        None => {
            directory.is_dir() || !is_in_the_way(&deployment.db, row.member_id()?.as_str()).await?
        }
    };
    let Some(program) = program.filter(|_| is_here) else {
        bail!(
            "erasure {} waits for files of the archive: run `laurel erase-files` where {} has them",
            row.id,
            directory.display()
        );
    };
    let ran = program.run("erase-files", FILES_TIMEOUT, stop).await?;
    match ran {
        Some((status, said)) if !status.success() => {
            bail!("{} ended with {status}: {said}", program.path.display())
        }
        _ => Ok(()),
    }
}

/// An erasure that waits for files.
async fn waiting(deployment: &Deployment) -> Result<Option<erasure::Model>> {
    for row in erasure::under_way(&deployment.db, i64::MAX).await? {
        if waits_for_files(deployment, &row).await? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}
