//! Batch jobs, running and ended.

use std::fmt;

use sea_orm::entity::prelude::*;

use crate::clock::Clock;

/// A row of `job`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "job")]
pub struct Model {
    /// The job's number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The kind of the job, such as REBUILD.
    pub kind: String,
    /// The board; none if the job covers all boards.
    pub board_no: Option<i64>,
    /// RUNNING, DONE or FAILED.
    pub state: String,
    /// Progress from 0 to 1; it never decreases.
    pub progress: f64,
    /// Start time, in Unix milliseconds.
    pub started_at_ms: i64,
    /// End time, in Unix milliseconds; none while it runs.
    pub finished_at_ms: Option<i64>,
    /// The present stage. Once the job has ended: its figures, or why it failed.
    pub summary: Option<String>,
    /// While the job runs, the name of its lease, which no other running job may have.
    pub running: Option<String>,
    /// While the job runs, the process that holds its lease.
    pub holder: Option<String>,
    /// While the job runs, the time of its last heartbeat, in Unix milliseconds.
    pub heartbeat_at_ms: Option<i64>,
}

/// Required by SeaORM; no query follows a relation.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl fmt::Display for Model {
    /// One line for a client that has to wait for the job: its kind, age and progress.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (Clock::default().now_ms() - self.started_at_ms).max(0) / 1000;
        let percent = (self.progress * 100.0).floor();
        write!(f, "{} (job {})", self.kind, self.id)?;
        if let Some(no) = self.board_no {
            write!(f, " of board no {no}")?;
        }
        write!(f, ", started {seconds} s ago, {percent}% done")?;
        match &self.summary {
            Some(doing) => write!(f, ": {doing}"),
            None => Ok(()),
        }
    }
}
