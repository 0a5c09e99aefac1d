//! Integrity runs: the differences that the diff found between history, SQL and Redis. For
//! operators.

use std::sync::Arc;

use async_graphql::connection::Edge;
use async_graphql::{Context, Enum, ID, Object, Result};
use entity::integrity::integrity_finding::{Kind, Location};
use entity::integrity::{integrity_finding as finding_row, integrity_run as row};

use super::board::{self, Board};
use super::guard::Needs;
use super::job::JOBS_DEFAULT;
use super::price;
use super::request::{app, state};
use super::types::connection::{Connection, PageCursor, limit_or};
use super::types::global_id::GlobalId;
use super::types::scalar::{DateTime, Decimal, int};
use crate::access::scope::Scope;
use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::loader::totals::Total;

/// The default length of a page of findings.
pub const FINDINGS_DEFAULT: usize = 50;

/// The kind of a difference.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// The history has the entry, but a store does not.
    Missing,
    /// A store has the entry, but the history does not.
    Phantom,
    /// The score differs.
    WrongScore,
    /// The score is right, but the time in the tie-break differs.
    WrongTieBreak,
    /// The entry is in the wrong period, and missing from the right one.
    WrongWindow,
    /// The content of a commit or event does not match the commit's id.
    Altered,
    /// A kind that this server does not know, reported by a newer program.
    Other,
}

/// The location of a difference.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingPlace {
    /// The standings in Redis, or their table in SQL.
    Entry,
    /// The sealed entries of a past period, in SQL.
    Sealed,
    /// The sums of archived events, in SQL.
    Archived,
    /// A file of the archive.
    File,
    /// A key in Redis that names no standings, or a position in a source among those of a key.
    Key,
    /// The list of the periods of a window, in Redis.
    Periods,
    /// A commit of a partition's history.
    Commit,
    /// An event of the history.
    Event,
    /// A location that this server does not know, reported by a newer program.
    Other,
}

/// A run of the integrity diff over one board or all boards.
pub struct IntegrityRun(row::Model);

/// A run of the integrity diff over one board or all boards.
#[Object]
impl IntegrityRun {
    /// The global id: "integrityRun:<number>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::IntegrityRun(self.0.id).to_text().into()
    }

    /// The board; null if the run covers all boards, or if the board was deleted since.
    async fn board(&self, ctx: &Context<'_>) -> Result<Option<Board>> {
        Ok(board::of_number(ctx, self.0.board_no).await?)
    }

    /// The start of the run.
    async fn started_at(&self) -> DateTime {
        DateTime(self.0.started_at_ms)
    }

    /// The end of the run; null while it is running, and if it was cut short.
    async fn finished_at(&self) -> Option<DateTime> {
        self.0.finished_at_ms.map(DateTime)
    }

    /// The number of entries compared; 2147483647 means that many or more.
    async fn checked(&self) -> i32 {
        at_most(self.0.checked)
    }

    /// The number of differences found; 2147483647 means that many or more.
    async fn found(&self) -> i32 {
        at_most(self.0.found)
    }

    /// The number of differences repaired; 2147483647 means that many or more.
    async fn repaired(&self) -> i32 {
        at_most(self.0.repaired)
    }

    /// The findings, in the order of the run.
    async fn findings(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The number of items, at most 1,000.", default = 50)] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<Finding, FindingTotal>>> {
        Ok(Some(findings_page(ctx, self.0.id, first, after.as_deref()).await?))
    }
}

/// A difference between history, SQL and Redis.
pub struct Finding {
    row: finding_row::Model,
    /// The board, even if it was deleted since; `None` if the finding belongs to no board.
    known: Option<Arc<CachedBoard>>,
}

/// A difference between history, SQL and Redis.
#[Object]
impl Finding {
    /// The global id: "finding:<run>:<index>".
    pub(crate) async fn id(&self) -> ID {
        let (run, index) = (self.row.run_id, i64::from(self.row.finding_index));
        GlobalId::Finding(run, index).to_text().into()
    }

    /// The kind of the difference.
    async fn kind(&self) -> FindingKind {
        match self.row.kind() {
            Some(Kind::Missing) => FindingKind::Missing,
            Some(Kind::Phantom) => FindingKind::Phantom,
            Some(Kind::WrongScore) => FindingKind::WrongScore,
            Some(Kind::WrongTieBreak) => FindingKind::WrongTieBreak,
            Some(Kind::WrongWindow) => FindingKind::WrongWindow,
            Some(Kind::Altered) => FindingKind::Altered,
            None => FindingKind::Other,
        }
    }

    /// The location of the difference.
    async fn place(&self) -> FindingPlace {
        match self.row.location() {
            Some(Location::Entry) => FindingPlace::Entry,
            Some(Location::Sealed) => FindingPlace::Sealed,
            Some(Location::Archived) => FindingPlace::Archived,
            Some(Location::File) => FindingPlace::File,
            Some(Location::Key) => FindingPlace::Key,
            Some(Location::Periods) => FindingPlace::Periods,
            Some(Location::Commit) => FindingPlace::Commit,
            Some(Location::Event) => FindingPlace::Event,
            None => FindingPlace::Other,
        }
    }

    /// A note, such as the fault found in a file, or a doubt about the history itself.
    async fn note(&self) -> Option<&str> {
        self.row.note.as_deref()
    }

    /// The board; null if the finding belongs to no board, or if the board was deleted since.
    async fn board(&self) -> Option<Board> {
        let known = self.known.clone()?;
        known.row.deleted_at_ms.is_none().then_some(Board(known))
    }

    /// The member whose entry differs; "*" for a whole key in Redis.
    async fn member(&self) -> &str {
        &self.row.member
    }

    /// The window's name; for a key in Redis that names no standings, the key itself.
    async fn window(&self) -> &str {
        &self.row.window
    }

    /// The period's label.
    async fn period(&self) -> &str {
        &self.row.period
    }

    /// The segment; null for everyone.
    async fn segment(&self) -> Option<&str> {
        Some(self.row.segment.as_str()).filter(|segment| !segment.is_empty())
    }

    /// The score according to the history; null if there is none.
    async fn history(&self) -> Option<Decimal> {
        self.decimal(self.row.history)
    }

    /// The score in the standings table of SQL, which covers "all" only; null if there is none, or
    /// an invalid one.
    async fn sql(&self) -> Option<Decimal> {
        self.decimal(self.row.sql)
    }

    /// The score in Redis; null if there is none, or an invalid one.
    async fn redis(&self) -> Option<Decimal> {
        self.decimal(self.row.redis)
    }

    /// True if the run repaired the difference.
    async fn repaired(&self) -> bool {
        self.row.repaired
    }
}

impl Finding {
    /// Converts a raw score, with the decimals of the board; a number of attempts has none.
    fn decimal(&self, raw: Option<i64>) -> Option<Decimal> {
        let counts = self.row.window.parse().ok().and_then(ranking::window::Window::counted);
        let known = self.known.as_ref().filter(|_| counts.is_none());
        let decimals = known.map_or(0, |known| known.board.rules.decimals);
        raw.map(|raw| Decimal::of(raw, decimals))
    }
}

/// The run of a number.
pub(crate) async fn find(ctx: &Context<'_>, id: i64) -> crate::error::Result<Option<IntegrityRun>> {
    Needs::Scope(Scope::Admin).met(ctx)?;
    state(ctx).spend(price::select(1)).await?;
    Ok(row::find(&app(ctx).deployment.reads, id).await?.map(IntegrityRun))
}

/// The run of a global id, or of its number alone, as `laurel diff` prints it.
pub(crate) async fn find_named(
    ctx: &Context<'_>,
    text: &str,
) -> crate::error::Result<Option<IntegrityRun>> {
    let number = match GlobalId::parse(text) {
        Some(GlobalId::IntegrityRun(number)) => Some(number),
        Some(_) => None,
        None => text.parse().ok(),
    };
    let number = number
        .ok_or_else(|| Error::bad_input("invalid run id: expected \"integrityRun:1\" or \"1\""))?;
    find(ctx, number).await
}

/// A page of the runs over one board alone, or of all runs; newest first.
pub(crate) async fn list(
    ctx: &Context<'_>,
    slug: Option<&str>,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<IntegrityRun, IntegrityRunTotal>> {
    let limit = limit_or("first", first, JOBS_DEFAULT)?;
    let board_no = match slug {
        Some(slug) => Some(board::named(ctx, slug).await?.row.no),
        None => None,
    };
    let before = after.map(PageCursor::place::<i64>).transpose()?;
    state(ctx).spend(price::select(limit)).await?;
    let (rows, has_next) = row::page(&app(ctx).deployment.reads, board_no, before, limit).await?;
    let total = IntegrityRunTotal(board_no);
    let mut connection = Connection::with_additional_fields(after.is_some(), has_next, total);
    let edges = rows.into_iter().map(|row| Edge::new(PageCursor::of(&row.id), IntegrityRun(row)));
    connection.edges.extend(edges);
    Ok(connection)
}

/// The finding of a run with an index.
pub(crate) async fn find_finding(
    ctx: &Context<'_>,
    run: i64,
    index: i64,
) -> crate::error::Result<Option<Finding>> {
    Needs::Scope(Scope::Admin).met(ctx)?;
    state(ctx).spend(price::select(1)).await?;
    let after = Some(index.saturating_sub(1));
    let (rows, _) = finding_row::page(&app(ctx).deployment.reads, run, after, 1).await?;
    let Some(row) = rows.into_iter().find(|row| i64::from(row.finding_index) == index) else {
        return Ok(None);
    };
    let known = state(ctx).loaders.boards(vec![row.board_no]).await?.remove(&row.board_no);
    Ok(Some(Finding { row, known }))
}

async fn findings_page(
    ctx: &Context<'_>,
    run_id: i64,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<Finding, FindingTotal>> {
    let limit = limit_or("first", first, FINDINGS_DEFAULT)?;
    let index = after.map(PageCursor::place::<i64>).transpose()?;
    state(ctx).spend(price::select(limit)).await?;
    let (rows, has_next) =
        finding_row::page(&app(ctx).deployment.reads, run_id, index, limit).await?;
    let numbers = rows.iter().map(|row| row.board_no).collect();
    let boards = state(ctx).loaders.boards(numbers).await?;
    let total = FindingTotal(run_id);
    let mut connection = Connection::with_additional_fields(after.is_some(), has_next, total);
    let edges = rows.into_iter().map(|row| {
        let known = boards.get(&row.board_no).cloned();
        Edge::new(PageCursor::of(&row.finding_index), Finding { row, known })
    });
    connection.edges.extend(edges);
    Ok(connection)
}

/// A count, capped at the largest GraphQL Int.
fn at_most(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The total of a connection of runs over one board alone or of all runs, counted only if a query
/// asks for it.
pub struct IntegrityRunTotal(Option<i64>);

#[Object]
impl IntegrityRunTotal {
    /// The number of runs.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let total = Total::IntegrityRuns(self.0);
        Ok(int(price::total(state(ctx), total, price::counted_rows).await?)?)
    }
}

/// The total of a connection of findings, counted only if a query asks for it.
pub struct FindingTotal(i64);

#[Object]
impl FindingTotal {
    /// The number of findings kept for this run.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let total = Total::Findings(self.0);
        Ok(int(price::total(state(ctx), total, price::counted_rows).await?)?)
    }
}
