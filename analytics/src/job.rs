//! A job: its row in SQL where it changes something, its progress bar on a terminal, its outcome.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use engine::job::{self, Begun, Running};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sea_orm::DatabaseConnection;
use tokio::time::sleep;

/// How often it is looked whether a job that is waited for has ended.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);

/// How much of what is left of a part each of its stages is taken to be: nobody knows how many there will be.
const STAGE_SHARE: f64 = 0.25;

/// Whether no progress bar is wanted.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// A job that is running.
pub struct Job {
    /// Its row.
    record: Option<Running>,
    bar: ProgressBar,
    progress: Mutex<Progress>,
}

/// How far a job is, as far as one can tell: it goes through equal parts, and through stages in each.
#[derive(Debug, Clone, Copy)]
struct Progress {
    part: usize,
    parts: usize,
    /// Of this part, how much lies before the stage.
    before: f64,
    /// Whether the part has begun its first stage.
    is_begun: bool,
    done: usize,
    steps: usize,
}

/// From here on, no job of this process shows a progress bar.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

impl Job {
    /// Begins a job of a kind, such as REBUILD, on a board or on all.
    ///
    /// # Errors
    /// Where one is running, naming it; what SQL says.
    pub async fn begin(db: &DatabaseConnection, kind: &str, board_no: Option<i64>) -> Result<Self> {
        match job::begin(db, kind, board_no).await? {
            Begun::Running(running) => Self::new(Some(running)),
            Begun::Taken(other) => bail!(
                "another job is at it: {other}; run this again when it has ended, and if its process is gone, a minute later at most"
            ),
        }
    }

    /// As [`Self::begin`], but where one of that kind is running, for it to end first.
    pub async fn begin_in_turn(db: &DatabaseConnection, kind: &str) -> Result<Self> {
        let mut is_told = false;
        loop {
            match job::begin(db, kind, None).await? {
                Begun::Running(running) => return Self::new(Some(running)),
                Begun::Taken(other) if !is_told => {
                    eprintln!("another job is at it: {other}; this one waits");
                    is_told = true;
                }
                Begun::Taken(_) => {}
            }
            sleep(WAIT_INTERVAL).await;
        }
    }

    /// Begins a job that changes nothing, and leaves no row.
    ///
    /// # Errors
    /// None but a broken template.
    pub fn unrecorded() -> Result<Self> {
        Self::new(None)
    }

    fn new(record: Option<Running>) -> Result<Self> {
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

    /// Says that it begins one of so many equal parts, from 0: the stages that follow belong to that.
    pub fn part(&self, part: usize, parts: usize) {
        self.progress().begin_part(part, parts);
        self.tell();
    }

    /// Says what it is at, and how many steps that has; 0 where nobody knows.
    pub fn stage(&self, what: &str, steps: usize) {
        self.bar.set_message(what.to_owned());
        self.bar.set_length(steps as u64);
        self.bar.set_position(0);
        self.bar.reset_eta();
        self.progress().begin_stage(steps);
        if let Some(record) = &self.record {
            record.at_stage(what.to_owned());
        }
        self.tell();
    }

    /// Some steps are done.
    pub fn advance(&self, steps: usize) {
        self.bar.inc(steps as u64);
        self.progress().done += steps;
        self.tell();
    }

    /// Ends the job with what came of it, and gives that back.
    ///
    /// # Errors
    /// That of the outcome; else what SQL says.
    pub async fn end<T: std::fmt::Display>(&self, outcome: Result<T>) -> Result<T> {
        self.bar.finish_and_clear();
        let Some(record) = &self.record else {
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

    fn tell(&self) {
        if let Some(record) = &self.record {
            let now = self.progress().share();
            record.progressed(now);
        }
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
                // More than was said, too.
                for _ in 0..6 {
                    progress.done += 2;
                    check(&progress);
                }
            }
        }
        assert!(last > 0.8, "{last}");
    }
}
