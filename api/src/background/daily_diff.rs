//! The daily diff: once a day in the whole deployment, `laurel-analytics` compares history, SQL and
//! Redis of all boards.
//!
//! It is another program, as this one lacks polars. The process that claims the row of `schedule`
//! starts it as a child with the same stores. A missed time is made up for; after a failure the
//! next attempt follows some minutes later, a few times a day.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use engine::deployment::Deployment;
use engine::job;
use engine::settings::{DailyDiffSettings, DiffAt};
use entity::deployment;
use entity::job::schedule;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::program::Program;
use crate::command::batch;
use crate::metrics::{METRICS, Schedule};

/// The interval at which a process checks whether a diff is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The longest time that SQL may take to hand out the work, or to note its end. A silent connection
/// must not end all diffs.
const SCHEDULE_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest run of a diff.
const DIFF_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// The diff's name in the table `schedule`, and the kind of its job.
const NAME: &str = entity::job::DIFF;

/// The exit status for differences found.
const DIFFERENCES: i32 = 3;

/// The daily part of the background work.
#[derive(Debug, Default)]
pub enum Daily {
    /// The settings switch the diff off.
    #[default]
    Off,
    /// The program is missing, which would be this file.
    Missing(PathBuf),
    /// This process runs the diff.
    On(DailyDiff),
}

/// The daily diff, in a process that runs it.
#[derive(Debug)]
pub struct DailyDiff {
    minute_of_day: u16,
    program: Program,
}

impl Daily {
    /// The daily work of this process: none if the settings switch it off or the program is
    /// missing. The metrics tell which, and the log once it works.
    ///
    /// # Errors
    /// If the settings name a program that does not exist.
    pub fn new(settings: &DailyDiffSettings, environment: Vec<(String, OsString)>) -> Result<Self> {
        let DiffAt::Minute(minute_of_day) = settings.diff_at else {
            METRICS.set_schedule(Schedule::Off);
            return Ok(Self::Off);
        };
        let program = batch::program(settings.analytics.clone())?;
        if !program.is_file() {
            if settings.analytics.is_some() {
                bail!(
                    "invalid LAUREL_ANALYTICS {}: expected the path of {}",
                    program.display(),
                    batch::PROGRAM
                );
            }
            METRICS.set_schedule(Schedule::NoProgram);
            return Ok(Self::Missing(program));
        }
        METRICS.set_schedule(Schedule::On);
        Ok(Self::On(DailyDiff { minute_of_day, program: Program { path: program, environment } }))
    }

    /// The program, in a process that runs it.
    pub(crate) fn program(&self) -> Option<Program> {
        match self {
            Self::On(diff) => Some(diff.program.clone()),
            Self::Off | Self::Missing(_) => None,
        }
    }

    /// Runs the daily diff until the process stops.
    pub async fn work(self, deployment: &Deployment, stop: watch::Receiver<bool>) {
        match self {
            Self::Off => {}
            // Said once the stores are open: a start that fails has a reason of its own to give.
            Self::Missing(program) => tracing::warn!(
                "no daily diff, as {} is not there: build it with `make analytics`, name it by LAUREL_ANALYTICS, or set LAUREL_DIFF_AT=off",
                program.display()
            ),
            Self::On(diff) => diff.work(deployment, stop).await,
        }
    }
}

impl DailyDiff {
    async fn work(self, deployment: &Deployment, mut stop: watch::Receiver<bool>) {
        let (mut well, mut known) = (true, Known::default());
        while !*stop.borrow() {
            let looked = self.look(deployment, &mut known, &mut stop).await;
            let was_well = std::mem::replace(&mut well, looked.is_ok());
            if let Err(error) = looked
                && was_well
            {
                tracing::warn!("the daily diff: {error:#}");
            }
            tokio::select! {
                () = sleep(LOOK_INTERVAL) => {}
                _ = stop.changed() => {}
            }
        }
    }

    /// Runs the diff if it is due and no other process runs one.
    async fn look(
        &self,
        deployment: &Deployment,
        known: &mut Known,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<()> {
        let (db, now_ms) = (&deployment.db, deployment.clock.now_ms());
        let due_at_ms = schedule::last_due_ms(self.minute_of_day, now_ms);
        let take = timeout(SCHEDULE_TIMEOUT, take(deployment, known, due_at_ms, now_ms)).await;
        if !take.context("the database took too long")?? {
            return Ok(());
        }
        tracing::info!("the daily diff begins");
        let ran = self.program.run("diff", DIFF_TIMEOUT, stop).await?;
        let Some((status, said)) = ran else {
            tracing::info!("the daily diff is interrupted; the next start makes up for it");
            return Ok(schedule::give_back(db, NAME, due_at_ms).await?);
        };
        match status.code() {
            Some(0) => tracing::info!("the daily diff: everything agrees"),
            Some(DIFFERENCES) => tracing::error!(
                "the daily diff found differences: integrityRuns has them, or `laurel diff`"
            ),
            _ => bail!("{} ended with {status}: {said}", self.program.path.display()),
        }
        let finished = timeout(SCHEDULE_TIMEOUT, schedule::finish(db, NAME, due_at_ms)).await;
        finished.context("the database took too long to note the end")??;
        Ok(())
    }
}

/// The answers of SQL that stay as they are.
#[derive(Debug, Default)]
struct Known {
    /// When the deployment was created, in Unix milliseconds.
    born_ms: Option<i64>,
    /// The last due time whose diff is done, in Unix milliseconds.
    done_ms: Option<i64>,
}

/// Claims the diff that was due at an instant, unless it is claimed or one is running.
async fn take(
    deployment: &Deployment,
    known: &mut Known,
    due_at_ms: i64,
    now_ms: i64,
) -> Result<bool> {
    let db = &deployment.db;
    if known.born_ms.is_none() {
        known.born_ms = deployment::find(db).await?.map(|born| born.created_at_ms);
    }
    // A diff that was due before the deployment existed is not made up for.
    if known.born_ms.is_none_or(|born_ms| due_at_ms < born_ms) || known.done_ms == Some(due_at_ms) {
        return Ok(false);
    }
    if schedule::is_finished(db, NAME, due_at_ms).await? {
        known.done_ms = Some(due_at_ms);
        return Ok(false);
    }
    Ok(job::running(db, NAME, None).await?.is_none()
        && schedule::take(db, NAME, due_at_ms, now_ms).await?)
}
