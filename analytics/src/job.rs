//! A job: its row in SQL if it changes something, its progress bar on a terminal, its outcome.

pub(crate) mod part;
pub(crate) mod side_by_side;
pub(crate) mod stop;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use engine::deployment::Deployment;
use engine::job::shared::RunningPart;
use engine::job::{self, Begun, Reporter, Running};
use entity::job::Model;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::sleep;

/// How often a waiting job checks whether the other one has ended.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);

/// The share of a part's remaining work that each stage is assumed to be, as the number of stages
/// is not known ahead.
const STAGE_SHARE: f64 = 0.25;

/// True if progress bars are hidden.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// A running job.
pub struct Job {
    /// Its row, if it has one.
    record: Option<Record>,
    bar: ProgressBar,
    progress: Mutex<Progress>,
}

/// The row of a job, or that of a part.
enum Record {
    Whole(Running),
    Part(Box<RunningPart>),
}

impl Record {
    fn reporter(&self) -> &Reporter {
        match self {
            Self::Whole(running) => running.reporter(),
            Self::Part(running) => running.reporter(),
        }
    }
}

/// An estimate of progress: a job goes through equal parts, and through stages in each.
#[derive(Debug, Clone, Copy)]
struct Progress {
    part: usize,
    parts: usize,
    /// The share of this part that lies before the stage.
    before: f64,
    /// True if the part has begun its first stage.
    is_begun: bool,
    done: usize,
    steps: usize,
}

/// Hides the progress bars of this process from here on.
pub fn hide_progress() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

impl Job {
    /// Begins a job of a kind, such as REBUILD, on a board or on all.
    ///
    /// # Errors
    /// If a job that excludes it is running; the message names it.
    pub async fn begin(deployment: &Deployment, kind: &str, board_no: Option<i64>) -> Result<Self> {
        match job::begin(&deployment.db, &deployment.clock, kind, board_no).await? {
            Begun::Running(running) => Self::new(Some(Record::Whole(running))),
            Begun::Taken(other) => bail!(in_the_way(&other)),
        }
    }

    /// As [`Self::begin`], but waits for a running job of that kind to end.
    pub async fn begin_in_turn(deployment: &Deployment, kind: &str) -> Result<Self> {
        let mut is_reported = false;
        loop {
            match job::begin(&deployment.db, &deployment.clock, kind, None).await? {
                Begun::Running(running) => return Self::new(Some(Record::Whole(running))),
                Begun::Taken(other) if !is_reported => {
                    eprintln!("another job is running: {other}; waiting for it to end");
                    is_reported = true;
                }
                Begun::Taken(_) => {}
            }
            sleep(WAIT_INTERVAL).await;
        }
    }

    /// Begins a job that changes nothing and has no row.
    pub fn unrecorded() -> Result<Self> {
        Self::new(None)
    }

    fn new(record: Option<Record>) -> Result<Self> {
        let bar = ProgressBar::no_length();
        if IS_QUIET.load(Ordering::Relaxed) {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.set_style(ProgressStyle::with_template(
            "{spinner} {msg} {bar:30} {human_pos}/{human_len} {per_sec} {eta}",
        )?);
        bar.enable_steady_tick(Duration::from_millis(100));
        Ok(Self { record, bar, progress: Mutex::new(Progress::new()) })
    }

    /// Begins one of `parts` equal parts, counted from 0. The stages that follow belong to it.
    pub fn part(&self, part: usize, parts: usize) {
        self.progress().begin_part(part, parts);
        self.record_progress();
    }

    /// Begins a stage of some number of steps; 0 if the number is unknown.
    pub fn stage(&self, what: &str, steps: usize) {
        self.bar.set_message(what.to_owned());
        self.bar.set_length(steps as u64);
        self.bar.set_position(0);
        self.bar.reset_eta();
        self.progress().begin_stage(steps);
        if let Some(record) = &self.record {
            record.reporter().at_stage(what.to_owned());
        }
        self.record_progress();
    }

    /// Counts steps as done.
    pub fn advance(&self, steps: usize) {
        self.bar.inc(steps as u64);
        self.progress().done += steps;
        self.record_progress();
    }

    /// Ends the job, records the outcome and returns it.
    ///
    /// # Errors
    /// Those of the outcome, or else of SQL.
    pub async fn end<T: std::fmt::Display>(&self, outcome: Result<T>) -> Result<T> {
        self.bar.finish_and_clear();
        let Some(Record::Whole(record)) = &self.record else {
            return outcome;
        };
        let said = match &outcome {
            Ok(done) => Ok(done.to_string()),
            Err(error) => Err(format!("{error:#}")),
        };
        let ended = record.end(said.as_deref().map_err(String::as_str)).await;
        let outcome = outcome?;
        ended?;
        Ok(outcome)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_progress(&self) {
        if let Some(record) = &self.record {
            let now = self.progress().share();
            record.reporter().progressed(now);
        }
    }
}

/// Says which job is in the way, and for how long.
fn in_the_way(other: &Model) -> String {
    match other.parts {
        None => format!(
            "another job is running: {other}; run this again when it has ended (at most a minute after its process is gone)"
        ),
        Some(parts) => format!(
            "another job is running: {other}; expected --part K/{parts} for each part that is not done, or this command when it has ended (at most {} minutes after the last of its processes is gone)",
            job::shared::SILENCE_MS / 60_000
        ),
    }
}

impl Progress {
    fn new() -> Self {
        Self { part: 0, parts: 1, before: 0.0, is_begun: false, done: 0, steps: 0 }
    }

    fn begin_part(&mut self, part: usize, parts: usize) {
        *self = Self { part: part.min(parts), parts: parts.max(1), ..Self::new() };
    }

    fn begin_stage(&mut self, steps: usize) {
        if self.is_begun {
            self.before += (1.0 - self.before) * STAGE_SHARE;
        }
        (self.is_begun, self.done, self.steps) = (true, 0, steps);
    }

    /// From 0 to 1.
    fn share(&self) -> f64 {
        let of_stage = match self.steps {
            0 => 0.0,
            steps => (self.done as f64 / steps as f64).min(1.0),
        };
        let of_part = self.before + (1.0 - self.before) * STAGE_SHARE * of_stage;
        (self.part as f64 + of_part) / self.parts as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_never_goes_back_and_never_gets_there_by_itself() {
        let mut progress = Progress::new();
        let mut last = progress.share();
        assert_eq!(last, 0.0);
        let mut check = |progress: &Progress| {
            let share = progress.share();
            assert!((last..1.0).contains(&share), "{last} {share}");
            last = share;
        };
        for part in 0..3 {
            progress.begin_part(part, 3);
            check(&progress);
            for steps in [0, 10, 4, 0] {
                progress.begin_stage(steps);
                check(&progress);
                // More steps than announced, too.
                for _ in 0..6 {
                    progress.done += 2;
                    check(&progress);
                }
            }
        }
        assert!(last > 0.8, "{last}");
    }
}
