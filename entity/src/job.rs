//! Batch jobs, running and ended.

pub mod part;
pub mod schedule;

use std::fmt;

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use crate::deployment::clock::Clock;
use crate::sql::first_rows;

/// The kinds that this program knows. A newer program may write others.
pub const KINDS: [&str; 8] = [REBUILD, RESTORE, DIFF, ARCHIVE, MIRROR, ROLL, SEAL, IMPORT];

/// Rebuilds standings from the history.
pub const REBUILD: &str = "REBUILD";
/// Makes Redis level with SQL, or rebuilds the standings of a board.
pub const RESTORE: &str = "RESTORE";
/// Compares history, SQL and Redis.
pub const DIFF: &str = "DIFF";
/// Moves old events to files.
pub const ARCHIVE: &str = "ARCHIVE";
/// Copies events to files on an object store.
pub const MIRROR: &str = "MIRROR";
/// Rolls windows to the present.
pub const ROLL: &str = "ROLL";
/// Moves past periods from Redis to SQL.
pub const SEAL: &str = "SEAL";
/// Imports events from a file.
pub const IMPORT: &str = "IMPORT";

/// Stands for every kind that is not in [`KINDS`]; no row has it.
pub const OTHER: &str = "OTHER";

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// The job is running.
    #[sea_orm(string_value = "RUNNING")]
    Running,
    /// The job is done.
    #[sea_orm(string_value = "DONE")]
    Done,
    /// The job failed, was stopped, or its process died.
    #[sea_orm(string_value = "FAILED")]
    Failed,
}

/// A row of `job`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "job")]
pub struct Model {
    /// The job's number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The kind of the job, such as [`REBUILD`].
    pub kind: String,
    /// The board; none if the job covers all boards.
    pub board_no: Option<i64>,
    /// The state.
    pub state: State,
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
    /// The number of its parts, each run by a process; none if one process runs all of it.
    pub parts: Option<i32>,
    /// The terms that the processes of its parts must agree on, as JSON of [`part::Terms`].
    pub terms: Option<String>,
}

no_relations!();

impl fmt::Display for Model {
    /// One line for a client that has to wait for the job: its kind, age and progress.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (Clock::default().now_ms() - self.started_at_ms).max(0) / 1000;
        let percent = (self.progress * 100.0).floor();
        write!(f, "{} (job {})", self.kind, self.id)?;
        if let Some(no) = self.board_no {
            write!(f, " of board no {no}")?;
        }
        if let Some(parts) = self.parts {
            write!(f, " in {parts} parts")?;
        }
        write!(f, ", started {seconds} s ago, {percent}% done")?;
        match &self.summary {
            Some(doing) => write!(f, ": {doing}"),
            None => Ok(()),
        }
    }
}

/// The job of a number.
pub async fn find(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).one(db).await
}

/// A page of the jobs of one board or all, and of one kind or all, newest first: at most `limit`
/// with numbers below `before`; and true if there are more.
pub async fn page(
    db: &impl ConnectionTrait,
    board_no: Option<i64>,
    kind: Option<&str>,
    before: Option<i64>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let mut select = jobs(board_no, kind).order_by_desc(Column::Id);
    if let Some(before) = before {
        select = select.filter(Column::Id.lt(before));
    }
    first_rows(db, select, limit).await
}

/// The number of the jobs of one board or all, and of one kind or all.
pub async fn count(
    db: &impl ConnectionTrait,
    board_no: Option<i64>,
    kind: Option<&str>,
) -> Result<u64, DbErr> {
    jobs(board_no, kind).count(db).await
}

fn jobs(board_no: Option<i64>, kind: Option<&str>) -> Select<Entity> {
    let jobs = match board_no {
        Some(no) => Entity::find().filter(Column::BoardNo.eq(no)),
        None => Entity::find(),
    };
    match kind {
        Some(OTHER) => jobs.filter(Column::Kind.is_not_in(KINDS)),
        Some(kind) => jobs.filter(Column::Kind.eq(kind)),
        None => jobs,
    }
}

/// The numbers of jobs that are running or ended after an instant, by kind and state.
pub async fn counts_since(
    db: &impl ConnectionTrait,
    since_ms: i64,
) -> Result<Vec<(String, State, i64)>, DbErr> {
    let lately =
        Condition::any().add(Column::Running.is_not_null()).add(Column::FinishedAtMs.gt(since_ms));
    Entity::find()
        .select_only()
        .column(Column::Kind)
        .column(Column::State)
        .column_as(Column::Id.count(), "count")
        .filter(lately)
        .group_by(Column::Kind)
        .group_by(Column::State)
        .into_tuple()
        .all(db)
        .await
}

/// The last job over all boards of a kind that has ended.
pub async fn last_ended(db: &impl ConnectionTrait, kind: &str) -> Result<Option<Model>, DbErr> {
    ended(kind).one(db).await
}

/// The last job over all boards of a kind that has ended well.
pub async fn last_done(db: &impl ConnectionTrait, kind: &str) -> Result<Option<Model>, DbErr> {
    ended(kind).filter(Column::State.eq(State::Done)).one(db).await
}

/// The jobs over all boards of a kind that have ended, the last one first.
fn ended(kind: &str) -> Select<Entity> {
    Entity::find()
        .filter(Column::FinishedAtMs.is_not_null())
        .filter(Column::Kind.eq(kind))
        .filter(Column::BoardNo.is_null())
        .order_by_desc(Column::Id)
}
