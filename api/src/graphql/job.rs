//! Jobs: long work on whole boards, and its progress. For operators.

use async_graphql::connection::Edge;
use async_graphql::resolver_utils::EnumType;
use async_graphql::{Context, Enum, ID, Object, Result};
use entity::job as row;

use super::board::{self, Board};
use super::guard::Needs;
use super::price;
use super::request::{app, state};
use super::types::connection::{Connection, PageCursor, limit_or};
use super::types::global_id::GlobalId;
use super::types::scalar::{DateTime, int};
use crate::access::scope::Scope;
use crate::loader::totals::Total;

/// The default length of a page of jobs, integrity runs or partitions.
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
    /// Copies events to files on an object store.
    Mirror,
    /// Rolls windows to the present.
    Roll,
    /// Moves past periods from Redis to SQL.
    Seal,
    /// Imports events from a file.
    Import,
    /// A kind that this server does not know, started by a newer program.
    Other,
}

/// The state of a job.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::job::State")]
pub enum JobState {
    /// The job is running.
    Running,
    /// The job is done.
    Done,
    /// The job failed or was stopped, or its process died; the summary says which.
    Failed,
}

impl JobKind {
    /// The kind of a name in SQL.
    fn of(name: &str) -> Self {
        let mut kinds = Self::items().iter().map(|item| item.value);
        kinds.find(|kind| kind.name() == name).unwrap_or(Self::Other)
    }

    /// The name in SQL.
    fn name(self) -> &'static str {
        match self {
            Self::Rebuild => row::REBUILD,
            Self::Restore => row::RESTORE,
            Self::Diff => row::DIFF,
            Self::Archive => row::ARCHIVE,
            Self::Mirror => row::MIRROR,
            Self::Roll => row::ROLL,
            Self::Seal => row::SEAL,
            Self::Import => row::IMPORT,
            Self::Other => row::OTHER,
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
        self.0.state.into()
    }

    /// The progress from 0 to 1, as far as the job can tell. It never goes back, and is updated
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

    /// The current step of a running job, the figures of a job that is done, or the reason why a
    /// job failed.
    async fn summary(&self) -> Option<&str> {
        self.0.summary.as_deref()
    }
}

/// The job of a number.
pub(crate) async fn find(ctx: &Context<'_>, id: i64) -> crate::error::Result<Option<Job>> {
    Needs::Scope(Scope::Admin).met(ctx)?;
    state(ctx).spend(price::select(1)).await?;
    Ok(row::find(&app(ctx).deployment.reads, id).await?.map(Job))
}

/// A page of the jobs of one board or all, and of one kind or all; newest first.
pub(crate) async fn list(
    ctx: &Context<'_>,
    slug: Option<&str>,
    kind: Option<JobKind>,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<Job, JobTotal>> {
    let limit = limit_or("first", first, JOBS_DEFAULT)?;
    let board_no = match slug {
        Some(slug) => Some(board::named(ctx, slug).await?.row.no),
        None => None,
    };
    let kind = kind.map(JobKind::name);
    let before = after.map(PageCursor::place::<i64>).transpose()?;
    state(ctx).spend(price::select(limit)).await?;
    let db = &app(ctx).deployment.reads;
    let (rows, has_next) = row::page(db, board_no, kind, before, limit).await?;
    let total = JobTotal { board_no, kind };
    let mut connection = Connection::with_additional_fields(after.is_some(), has_next, total);
    let edges = rows.into_iter().map(|row| Edge::new(PageCursor::of(&row.id), Job(row)));
    connection.edges.extend(edges);
    Ok(connection)
}

/// The total of a connection of jobs, counted only if a query asks for it.
pub struct JobTotal {
    board_no: Option<i64>,
    kind: Option<&'static str>,
}

#[Object]
impl JobTotal {
    /// The number of jobs.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let total = Total::Jobs(self.board_no, self.kind);
        Ok(int(price::total(state(ctx), total, price::counted_rows).await?)?)
    }
}
