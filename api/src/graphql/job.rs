//! Jobs: long work on whole boards, and its progress. For operators.

use async_graphql::connection::Edge;
use async_graphql::{Context, Enum, ID, Object, Result};
use entity::job as row;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, Select};

use super::board::{self, Board};
use super::request::{app, state};
use super::types::connection::{Connection, PageCursor, first_rows, limit_or, number_of};
use super::types::global_id::GlobalId;
use super::types::scalar::{DateTime, int};
use crate::access::Scope;
use crate::error::Error;

/// The default length of a page of jobs or integrity runs.
pub const JOBS_DEFAULT: usize = 20;

/// The kind of a job.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Rebuilds standings from the history.
    Rebuild,
    /// Makes Redis level with SQL, or rebuilds the standings of a board.
    Restore,
    /// Compares history, SQL and Redis.
    Diff,
    /// Moves old events to files.
    Archive,
    /// Rolls windows to the present.
    Roll,
    /// Moves past periods from Redis to SQL.
    Seal,
    /// Imports events from a file.
    Import,
    /// A kind that this server does not know, begun by a newer program.
    Other,
}

/// The state of a job.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// The job is running.
    Running,
    /// The job is done.
    Done,
    /// The job failed, was stopped, or its process died; the summary says which.
    Failed,
}

/// The kinds by their names in SQL.
const KINDS: [(&str, JobKind); 7] = [
    ("REBUILD", JobKind::Rebuild),
    ("RESTORE", JobKind::Restore),
    ("DIFF", JobKind::Diff),
    ("ARCHIVE", JobKind::Archive),
    ("ROLL", JobKind::Roll),
    ("SEAL", JobKind::Seal),
    ("IMPORT", JobKind::Import),
];

impl JobKind {
    fn of(name: &str) -> Self {
        let known = KINDS.iter().find(|(known, _)| *known == name);
        known.map_or(Self::Other, |(_, kind)| *kind)
    }

    /// Restricts a selection to jobs of this kind.
    fn filter(self, select: Select<row::Entity>) -> Select<row::Entity> {
        match KINDS.iter().find(|(_, kind)| *kind == self) {
            Some((name, _)) => select.filter(row::Column::Kind.eq(*name)),
            None => select.filter(row::Column::Kind.is_not_in(KINDS.map(|(name, _)| name))),
        }
    }
}

/// Long work on one board or all boards, such as a rebuild or a diff.
pub struct Job(row::Model);

/// Long work on one board or all boards, such as a rebuild or a diff.
#[Object]
impl Job {
    /// The global id: "job:<number>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Job(self.0.id).to_text().into()
    }

    /// The kind of the job.
    async fn kind(&self) -> JobKind {
        JobKind::of(&self.0.kind)
    }

    /// The board; null if the job covers all boards, or if the board was deleted since.
    async fn board(&self, ctx: &Context<'_>) -> Result<Option<Board>> {
        Ok(board::of_number(ctx, self.0.board_no).await?)
    }

    /// The state of the job.
    async fn state(&self) -> JobState {
        match self.0.state.as_str() {
            "RUNNING" => JobState::Running,
            "DONE" => JobState::Done,
            _ => JobState::Failed,
        }
    }

    /// The progress from 0 to 1, as far as the job can tell. It never goes back, and is written
    /// once a second.
    async fn progress(&self) -> f64 {
        self.0.progress
    }

    /// The start of the job.
    async fn started_at(&self) -> DateTime {
        DateTime(self.0.started_at_ms)
    }

    /// The end of the job; null while it is running.
    async fn finished_at(&self) -> Option<DateTime> {
        self.0.finished_at_ms.map(DateTime)
    }

    /// The present step of a running job; the figures of a job that is done; the reason why a job
    /// failed.
    async fn summary(&self) -> Option<&str> {
        self.0.summary.as_deref()
    }
}

/// The job of a number.
pub(crate) async fn find(ctx: &Context<'_>, id: i64) -> crate::error::Result<Option<Job>> {
    state(ctx).require(Scope::Admin)?;
    let row = row::Entity::find_by_id(id);
    Ok(row.one(&app(ctx).deployment.db).await?.map(Job))
}

/// A page of the jobs of one board or all, and of one kind or all; newest first.
pub(crate) async fn list(
    ctx: &Context<'_>,
    slug: Option<&str>,
    kind: Option<JobKind>,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<Job, JobTotal>> {
    state(ctx).require(Scope::Admin)?;
    let limit = limit_or("first", first, JOBS_DEFAULT)?;
    let mut of_board = row::Entity::find();
    if let Some(slug) = slug {
        let board = board::named(ctx, slug).await?;
        of_board = of_board.filter(row::Column::BoardNo.eq(board.row.no));
    }
    let meant = kind.map_or(of_board.clone(), |kind| kind.filter(of_board));
    let mut select = meant.clone().order_by_desc(row::Column::Id);
    if let Some(after) = after {
        select = select.filter(row::Column::Id.lt(number_of(after)?));
    }
    let (rows, has_next) = first_rows(&app(ctx).deployment.db, select, limit).await?;
    let total = JobTotal(meant);
    let mut connection = Connection::with_additional_fields(after.is_some(), has_next, total);
    let edges = rows.into_iter().map(|row| Edge::new(PageCursor(row.id.to_string()), Job(row)));
    connection.edges.extend(edges);
    Ok(connection)
}

/// The total of a connection of jobs, counted only if a query asks for it.
pub struct JobTotal(Select<row::Entity>);

#[Object]
impl JobTotal {
    /// The number of jobs.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let count = self.0.clone().count(&app(ctx).deployment.db);
        Ok(int(count.await.map_err(Error::from)?)?)
    }
}
