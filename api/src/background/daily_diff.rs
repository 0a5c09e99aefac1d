//! The daily diff: once a day in the whole deployment, the program `analytics` compares history, SQL and Redis of all boards.
//!
//! It is another program, as this one has no polars. Whoever moves the row of `schedule` on starts it as a child, niced, with the same stores.
//! A time that was missed is made up for; what failed is tried again some minutes later, a few times a day.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use engine::deployment::{Deployment, Settings};
use engine::job;
use entity::{deployment, schedule};
use sea_orm::EntityTrait;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::metrics::{METRICS, Schedule};

/// How often it is looked whether a diff is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// How long a diff may take.
const DIFF_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// How long the program may take to stop when it is told to; then it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How much is kept of what the program prints, in bytes.
const PRINTED_BYTES_MAX: usize = 4096;

/// The diff's name in the table.
const NAME: &str = "DIFF";

/// The exit status that says that there are differences.
const DIFFERENCES: i32 = 3;

/// When what is compared daily. Each is an environment variable, or the flag of the same name.
#[derive(Debug, Clone, clap::Args)]
pub struct ScheduleSettings {
    /// When the background work compares history, SQL and Redis of all boards each day: a time of day in UTC such as 03:30; off for never.
    #[arg(long, env = "LAUREL_DIFF_AT", default_value = "03:30", value_parser = parse_time)]
    diff_at: DiffAt,
    /// The program that does it. By default analytics beside this program.
    #[arg(long, env = "LAUREL_ANALYTICS")]
    analytics: Option<PathBuf>,
}

/// The environment variables of [`ScheduleSettings`].
pub const SETTING_NAMES: [&str; 2] = ["LAUREL_DIFF_AT", "LAUREL_ANALYTICS"];

/// When the diff is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffAt {
    /// Never.
    Off,
    /// At a minute of each day, in UTC.
    Minute(u16),
}

/// What background work does daily.
#[derive(Debug, Default)]
pub struct Daily(Option<DailyDiff>);

/// The daily diff of a process that sees to it.
#[derive(Debug)]
struct DailyDiff {
    minute_of_day: u16,
    program: PathBuf,
    environment: Vec<(&'static str, OsString)>,
}

impl ScheduleSettings {
    /// What this process is to see to: nothing where it was told not to, or has no program to do it with. Says so in the log and the metrics.
    ///
    /// # Errors
    /// Where a program is named that is not there.
    pub fn daily(&self, settings: &Settings) -> Result<Daily> {
        let DiffAt::Minute(minute_of_day) = self.diff_at else {
            METRICS.set_schedule(Schedule::Off);
            return Ok(Daily::default());
        };
        let program = match &self.analytics {
            Some(named) if named.is_file() => named.clone(),
            Some(named) => bail!(
                "LAUREL_ANALYTICS: {} is no file; the path of the program analytics is accepted",
                named.display()
            ),
            None => std::env::current_exe()
                .context("this program's own path is not known")?
                .with_file_name("analytics"),
        };
        if !program.is_file() {
            METRICS.set_schedule(Schedule::NoProgram);
            tracing::warn!(
                "no boards are compared daily, as {} is not there: build it with `cargo build --release -p analytics`, name it by LAUREL_ANALYTICS, or say LAUREL_DIFF_AT=off",
                program.display()
            );
            return Ok(Daily::default());
        }
        METRICS.set_schedule(Schedule::On);
        Ok(Daily(Some(DailyDiff { minute_of_day, program, environment: settings.environment() })))
    }
}

/// Reads "HH:MM", or "off".
fn parse_time(text: &str) -> Result<DiffAt, String> {
    if text == "off" {
        return Ok(DiffAt::Off);
    }
    let minute = || {
        let (hour, minute) = text.split_once(':')?;
        let has_two =
            |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let (hour, minute): (u16, u16) = match has_two(hour) && has_two(minute) {
            true => (hour.parse().ok()?, minute.parse().ok()?),
            false => return None,
        };
        (hour < 24 && minute < 60).then_some(DiffAt::Minute(hour * 60 + minute))
    };
    minute().ok_or_else(|| {
        format!("{text:?} is no time of day; 00:00 to 23:59, in UTC, or off is accepted")
    })
}

impl Daily {
    /// Sees to it until it is told to stop.
    pub async fn work(self, deployment: &Deployment, stop: watch::Receiver<bool>) {
        if let Some(diff) = self.0 {
            diff.work(deployment, stop).await;
        }
    }
}

impl DailyDiff {
    async fn work(self, deployment: &Deployment, mut stop: watch::Receiver<bool>) {
        let mut well = true;
        while !*stop.borrow() {
            let looked = self.look(deployment, &mut stop).await;
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

    /// Compares, where that is due and nobody else is at it.
    async fn look(&self, deployment: &Deployment, stop: &mut watch::Receiver<bool>) -> Result<()> {
        let (db, now_ms) = (&deployment.db, deployment.clock.now_ms());
        let due_at_ms = schedule::last_due_ms(self.minute_of_day, now_ms);
        let born = deployment::Entity::find_by_id(1).one(db).await?;
        // What was due before there was anything is not made up for.
        if born.is_none_or(|born| due_at_ms < born.created_at_ms)
            || job::running(db, NAME, None).await?.is_some()
            || !schedule::take(db, NAME, due_at_ms, now_ms).await?
        {
            return Ok(());
        }
        tracing::info!("the daily diff begins");
        let Some((status, said)) = self.run(stop).await? else {
            tracing::info!("the daily diff is cut short; the next start makes up for it");
            return Ok(schedule::give_back(db, NAME, due_at_ms).await?);
        };
        match status.code() {
            Some(0) => tracing::info!("the daily diff: everything agrees"),
            Some(DIFFERENCES) => tracing::error!(
                "the daily diff found differences: integrityRuns has them, or `analytics diff`"
            ),
            _ => bail!("{} ended with {status}: {said}", self.program.display()),
        }
        schedule::finish(db, NAME, due_at_ms).await?;
        Ok(())
    }

    /// Runs the program to its end: how that was, and what it complained of. Nothing where it was told to stop first.
    async fn run(&self, stop: &mut watch::Receiver<bool>) -> Result<Option<(ExitStatus, String)>> {
        // As `nice` becomes what it starts, the child's id stays the same.
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
        // It stops by itself, and takes its temporary files along; dropped, it is killed.
        drop(stdin);
        let _ = timeout(STOP_TIMEOUT, ending).await;
        Ok(None)
    }

    /// A command with what the program is to do, and where.
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

/// Reads all there is, and keeps the start of it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_has_two_digits_twice() {
        assert_eq!(parse_time("00:00"), Ok(DiffAt::Minute(0)));
        assert_eq!(parse_time("03:30"), Ok(DiffAt::Minute(210)));
        assert_eq!(parse_time("23:59"), Ok(DiffAt::Minute(1439)));
        assert_eq!(parse_time("off"), Ok(DiffAt::Off));
        for wrong in ["", "3:30", "24:00", "12:60", "+1:00", "0330", "03:30:00", "OFF", "noon"] {
            assert!(parse_time(wrong).unwrap_err().contains("accepted"), "{wrong}");
        }
    }
}
