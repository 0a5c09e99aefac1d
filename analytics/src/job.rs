//! A job: its row in SQL where it changes something, its progress bar on a terminal, its outcome.

use std::time::Duration;

use anyhow::Result;
use entity::job;
use indicatif::{ProgressBar, ProgressStyle};
use sea_orm::{ActiveValue::Set, DatabaseConnection, EntityTrait};

/// A job that is running.
pub struct Job {
    /// Its row.
    record: Option<(DatabaseConnection, i64)>,
    bar: ProgressBar,
}

impl Job {
    /// Begins a job of a kind, such as REBUILD, on a board or on all.
    ///
    /// # Errors
    /// What SQL says.
    pub async fn begin(db: &DatabaseConnection, kind: &str, board_no: Option<i64>) -> Result<Self> {
        let row = job::ActiveModel {
            kind: Set(kind.to_owned()),
            board_no: Set(board_no),
            state: Set("RUNNING".to_owned()),
            progress: Set(0.0),
            started_at_ms: Set(entity::now_ms()),
            ..Default::default()
        };
        let id = job::Entity::insert(row).exec(db).await?.last_insert_id;
        Ok(Self {
            record: Some((db.clone(), id)),
            ..Self::unrecorded()?
        })
    }

    /// Begins a job that changes nothing, and leaves no row.
    ///
    /// # Errors
    /// None but a broken template.
    pub fn unrecorded() -> Result<Self> {
        let bar = ProgressBar::no_length();
        bar.set_style(ProgressStyle::with_template(
            "{spinner} {msg} {bar:30} {human_pos}/{human_len} {per_sec} {eta}",
        )?);
        bar.enable_steady_tick(Duration::from_millis(100));
        Ok(Self { record: None, bar })
    }

    /// Says what it is at, and how many steps that has.
    pub fn stage(&self, what: &str, steps: usize) {
        self.bar.set_message(what.to_owned());
        self.bar.set_length(steps as u64);
        self.bar.set_position(0);
    }

    /// Some steps are done.
    pub fn advance(&self, steps: usize) {
        self.bar.inc(steps as u64);
    }

    /// Ends the job with what came of it, and gives that back.
    ///
    /// # Errors
    /// That of the outcome; else what SQL says.
    pub async fn end<T: std::fmt::Display>(self, outcome: Result<T>) -> Result<T> {
        self.bar.finish_and_clear();
        let Some((db, id)) = self.record else {
            return outcome;
        };
        let (state, summary, progress) = match &outcome {
            Ok(done) => ("DONE", done.to_string(), 1.0),
            Err(error) => ("FAILED", format!("{error:#}"), 0.0),
        };
        let mut row = job::ActiveModel {
            id: Set(id),
            state: Set(state.to_owned()),
            finished_at_ms: Set(Some(entity::now_ms())),
            summary: Set(Some(summary)),
            ..Default::default()
        };
        if outcome.is_ok() {
            row.progress = Set(progress);
        }
        let ended = job::Entity::update(row).exec_without_returning(&db).await;
        let outcome = outcome?;
        ended?;
        Ok(outcome)
    }
}
