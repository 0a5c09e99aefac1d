//! Batch jobs, running and ended.

use std::fmt;

use sea_orm::entity::prelude::*;

/// A row of `job`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "job")]
pub struct Model {
    /// Its number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What it does.
    pub kind: String,
    /// The board; none for all.
    pub board_no: Option<i64>,
    /// RUNNING, DONE or FAILED.
    pub state: String,
    /// From 0 to 1; it never goes back.
    pub progress: f64,
    /// When, in Unix milliseconds.
    pub started_at_ms: i64,
    /// When, in Unix milliseconds; none while it runs.
    pub finished_at_ms: Option<i64>,
    /// What it is at; once it has ended its figures, or why it failed.
    pub summary: Option<String>,
    /// While it runs, what no other running job may have.
    pub running: Option<String>,
    /// While it runs, the process that runs it.
    pub holder: Option<String>,
    /// While it runs, when its process last said so, in Unix milliseconds.
    pub heartbeat_at_ms: Option<i64>,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl fmt::Display for Model {
    /// As for whoever has to wait for it: what, since when, how far.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (crate::now_ms() - self.started_at_ms).max(0) / 1000;
        let percent = (self.progress * 100.0).floor();
        write!(f, "{} (job {})", self.kind, self.id)?;
        if let Some(no) = self.board_no {
            write!(f, " of board no {no}")?;
        }
        write!(f, ", begun {seconds} s ago, {percent} % done")?;
        match &self.summary {
            Some(doing) => write!(f, ": {doing}"),
            None => Ok(()),
        }
    }
}
