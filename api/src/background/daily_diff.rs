//! The daily diff: once a day in the whole deployment, `laurel-analytics` compares history, SQL and
//! Redis of all boards.
//!
//! It is another program, as this one lacks polars. The process that claims the row of `schedule`
//! starts it as a child, niced, with the same stores. A missed time is made up for; after a failure
//! the next attempt follows some minutes later, a few times a day.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use engine::deployment::Deployment;
use engine::job;
use engine::settings::{DailyDiffSettings, DiffAt};
use entity::deployment;
use entity::job::schedule;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::command::batch;
use crate::metrics::{METRICS, Schedule};

/// The interval at which a process checks whether a diff is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The longest time that SQL may take to hand out the work, or to note its end. A silent connection
/// must not end all diffs.
const SCHEDULE_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest run of a diff.
const DIFF_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// The longest time for the program to stop by itself; then it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes kept of the program's output.
const PRINTED_BYTES_MAX: usize = 4096;

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
    program: PathBuf,
    environment: Vec<(String, OsString)>,
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
        Ok(Self::On(DailyDiff { minute_of_day, program, environment }))
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
        let Some((status, said)) = self.run(stop).await? else {
            tracing::info!("the daily diff is interrupted; the next start makes up for it");
            return Ok(schedule::give_back(db, NAME, due_at_ms).await?);
        };
        match status.code() {
            Some(0) => tracing::info!("the daily diff: everything agrees"),
            Some(DIFFERENCES) => tracing::error!(
                "the daily diff found differences: integrityRuns has them, or `laurel diff`"
            ),
            _ => bail!("{} ended with {status}: {said}", self.program.display()),
        }
        let finished = timeout(SCHEDULE_TIMEOUT, schedule::finish(db, NAME, due_at_ms)).await;
        finished.context("the database took too long to note the end")??;
        Ok(())
    }

    /// Runs the program to its end, and returns its exit status and its complaint; `None` if this
    /// process stops first.
    async fn run(&self, stop: &mut watch::Receiver<bool>) -> Result<Option<(ExitStatus, String)>> {
        // `nice` replaces itself with the program, so the child's id stays the same.
        let mut niced = Command::new("nice");
        niced.args(["-n", "10"]).arg(&self.program);
        let mut child = match self.settle(&mut niced).spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.settle(&mut Command::new(&self.program)).spawn()
            }
            spawned => spawned,
        }
        .with_context(|| format!("{} cannot be started", self.program.display()))?;
        let stdin = child.stdin.take();
        let (printed, complained) = (child.stdout.take(), child.stderr.take());
        let mut ending = std::pin::pin!(async {
            let (status, _, complaint) =
                tokio::join!(child.wait(), start_of(printed), start_of(complained));
            anyhow::Ok((status?, complaint))
        });
        tokio::select! {
            ended = timeout(DIFF_TIMEOUT, &mut ending) => {
                let ended = ended.with_context(|| {
                    format!("it took longer than {} h and was killed", DIFF_TIMEOUT.as_secs() / 3600)
                })?;
                return Ok(Some(ended?));
            }
            _ = stop.changed() => {}
        }
        // At the end of its standard input the program stops by itself and removes its temporary
        // files; after the timeout, dropping the child kills it.
        drop(stdin);
        let _ = timeout(STOP_TIMEOUT, ending).await;
        Ok(None)
    }

    /// Adds the program's arguments and environment to a command.
    fn settle<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LAUREL_") {
                command.env_remove(name);
            }
        }
        command
            .args(["diff", "--json", "--stop-with-stdin"])
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
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

/// Reads to the end, and keeps the start.
async fn start_of(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else {
        return String::new();
    };
    let (mut kept, mut part) = (vec![], [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        let left = PRINTED_BYTES_MAX - kept.len();
        kept.extend_from_slice(&part[..count.min(left)]);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}
