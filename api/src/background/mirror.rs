//! The lake: every some minutes `laurel-analytics` mirrors the events that it lacks, in one process
//! of the deployment at a time.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, bail};
use engine::deployment::Deployment;
use engine::job;
use engine::settings::{DailyDiffSettings, MirrorSettings};
use entity::job::{MIRROR, last_ended};
use tokio::sync::watch;
use tokio::time::sleep;

use super::program::Program;
use crate::command::batch;

/// The interval at which a process checks whether a run is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The longest run: the first one mirrors the whole history.
const MIRROR_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The runs of a process that mirrors.
#[derive(Debug)]
pub(crate) struct Mirror {
    program: Program,
    interval_ms: i64,
}

impl Mirror {
    /// The runs that the settings ask for; `None` without a lake.
    ///
    /// # Errors
    /// If the program is missing.
    pub(crate) fn new(
        settings: &MirrorSettings,
        diff: &DailyDiffSettings,
        environment: &[(String, OsString)],
    ) -> Result<Option<Self>> {
        if settings.mirror.is_none() {
            return Ok(None);
        }
        let path = batch::program(diff.analytics.clone())?;
        if !path.is_file() {
            bail!(
                "LAUREL_MIRROR needs {}: build it with `make analytics`, or name it by LAUREL_ANALYTICS",
                path.display()
            );
        }
        let program = Program { path, environment: environment.to_vec() };
        Ok(Some(Self { program, interval_ms: settings.mirror_minutes as i64 * 60_000 }))
    }

    /// Mirrors whenever a run is due, until the process stops.
    pub(crate) async fn work(&self, deployment: &Deployment, mut stop: watch::Receiver<bool>) {
        let mut well = true;
        while !*stop.borrow() {
            let looked = self.look(deployment, &mut stop).await;
            let was_well = std::mem::replace(&mut well, looked.is_ok());
            match looked {
                Err(error) if was_well => tracing::warn!("the mirror: {error:#}"),
                Ok(()) if !was_well => tracing::info!("the mirror works again"),
                _ => {}
            }
            tokio::select! {
                () = sleep(LOOK_INTERVAL) => {}
                _ = stop.changed() => {}
            }
        }
    }

    /// Runs the program if that is due and no process does so.
    async fn look(&self, deployment: &Deployment, stop: &mut watch::Receiver<bool>) -> Result<()> {
        let (db, now_ms) = (&deployment.db, deployment.clock.now_ms());
        let last = last_ended(db, MIRROR).await?.and_then(|job| job.finished_at_ms);
        let is_due = last.is_none_or(|ended_ms| {
            // A clock that stepped back does not hold the next run up.
            !(0..self.interval_ms).contains(&(now_ms - ended_ms))
        });
        if !is_due || job::running(db, MIRROR, None).await?.is_some() {
            return Ok(());
        }
        match self.program.run("mirror", MIRROR_TIMEOUT, stop).await? {
            // Another process may have begun a run at the same time.
            Some((status, said))
                if !status.success() && !said.contains("another job is running") =>
            {
                bail!("{} ended with {status}: {said}", self.program.path.display())
            }
            _ => Ok(()),
        }
    }
}
