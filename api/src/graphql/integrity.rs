//! Integrity: what comparing history, SQL and Redis found. For whoever runs the server.

use std::sync::Arc;

use async_graphql::connection::Edge;
use async_graphql::{Context, Enum, ID, Object, Result};
use entity::integrity::{integrity_finding as finding_row, integrity_run as row};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, Select};

use super::board::{self, Board};
use super::job::JOBS_DEFAULT;
use super::request::{app, state};
use super::types::connection::{Connection, PageCursor, first_rows, limit_or, number_of};
use super::types::global_id::GlobalId;
use super::types::scalar::{DateTime, Decimal, int};
use crate::access::Scope;
use crate::cache::boards::KnownBoard;
use crate::error::Error;

/// How long a page of findings is that does not say.
pub const FINDINGS_DEFAULT: usize = 50;

/// The kind of a difference.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// The history has the entry; a store does not.
    Missing,
    /// A store has the entry; the history does not.
    Phantom,
    /// The score is another one.
    WrongScore,
    /// The score is right; the time in the tie-break is another one.
    WrongTieBreak,
    /// The entry stands in a period that it does not belong to, and not where it does.
    WrongWindow,
    /// Something that this server does not know: a newer program found it.
    Other,
}

/// Where a difference was found.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingPlace {
    /// Standings in Redis, or the table of them in SQL.
    Entry,
    /// The sealed entries of a past period, in SQL.
    Sealed,
    /// What archived events add up to, in SQL.
    Archived,
    /// A file of the archive.
    File,
    /// A key of Redis that is no standings of Laurel's.
    Key,
    /// The list of a window's periods, in Redis.
    Periods,
    /// Something that this server does not know: a newer program found it.
    Other,
}

/// A run of the integrity diff over a board, or over all of them.
pub struct IntegrityRun(row::Model);

/// A run of the integrity diff over a board, or over all of them.
#[Object]
impl IntegrityRun {
    /// Its global id: "integrityRun:<number>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::IntegrityRun(self.0.id).to_text().into()
    }

    /// The board; null where it is about all of them, or the board was deleted since.
    async fn board(&self, ctx: &Context<'_>) -> Result<Option<Board>> {
        Ok(board::of_number(ctx, self.0.board_no).await?)
    }

    /// When it began.
    async fn started_at(&self) -> DateTime {
        DateTime(self.0.started_at_ms)
    }

    /// When it ended; null while it is running, and where it did not get to its end.
    async fn finished_at(&self) -> Option<DateTime> {
        self.0.finished_at_ms.map(DateTime)
    }

    /// How many entries were compared; 2147483647 where they are that many or more.
    async fn checked(&self) -> i32 {
        at_most(self.0.checked)
    }

    /// How many differences were found; 2147483647 where they are that many or more.
    async fn found(&self) -> i32 {
        at_most(self.0.found)
    }

    /// How many of them were repaired; 2147483647 where they are that many or more.
    async fn repaired(&self) -> i32 {
        at_most(self.0.repaired)
    }

    /// What was found, in the order of the run.
    async fn findings(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, at most 1,000.", default = 50)] first: Option<i32>,
        #[graphql(desc = "Only those after this cursor.")] after: Option<String>,
    ) -> Result<Connection<Finding, FindingTotal>> {
        Ok(findings_page(ctx, self.0.id, first, after.as_deref()).await?)
    }
}

/// One difference between history, SQL and Redis.
pub struct Finding {
    row: finding_row::Model,
    /// Also where it was deleted since; `None` where what was found belongs to no board.
    known: Option<Arc<KnownBoard>>,
}

/// One difference between history, SQL and Redis.
#[Object]
impl Finding {
    /// Its kind.
    async fn kind(&self) -> FindingKind {
        match self.row.kind.as_str() {
            "MISSING" => FindingKind::Missing,
            "PHANTOM" => FindingKind::Phantom,
            "WRONG_SCORE" => FindingKind::WrongScore,
            "WRONG_TIE_BREAK" => FindingKind::WrongTieBreak,
            "WRONG_WINDOW" => FindingKind::WrongWindow,
            _ => FindingKind::Other,
        }
    }

    /// Where it was found.
    async fn place(&self) -> FindingPlace {
        match self.row.place.as_str() {
            "ENTRY" => FindingPlace::Entry,
            "SEALED" => FindingPlace::Sealed,
            "ARCHIVED" => FindingPlace::Archived,
            "FILE" => FindingPlace::File,
            "KEY" => FindingPlace::Key,
            "PERIODS" => FindingPlace::Periods,
            _ => FindingPlace::Other,
        }
    }

    /// What else there is to say: what is wrong with a file, or that the history is what is doubted.
    async fn note(&self) -> Option<&str> {
        self.row.note.as_deref()
    }

    /// The board; null where what was found belongs to none, or it was deleted since.
    async fn board(&self) -> Option<Board> {
        let known = self.known.clone()?;
        known.row.deleted_at_ms.is_none().then_some(Board(known))
    }

    /// Whose entry; "*" where it is a whole key of Redis.
    async fn member(&self) -> &str {
        &self.row.member
    }

    /// The window's name; the key of Redis where it is the name of no standings.
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

    /// The score by the history; null where that has none.
    async fn history(&self) -> Option<Decimal> {
        self.decimal(self.row.history)
    }

    /// The score in the table of standings, which has "all" only; null where that has none, or none that makes sense.
    async fn sql(&self) -> Option<Decimal> {
        self.decimal(self.row.sql)
    }

    /// The score in Redis; null where that has none, or none that makes sense.
    async fn redis(&self) -> Option<Decimal> {
        self.decimal(self.row.redis)
    }

    /// Whether the run repaired it.
    async fn repaired(&self) -> bool {
        self.row.repaired
    }
}

impl Finding {
    /// A raw score with the board's decimals.
    fn decimal(&self, raw: Option<i64>) -> Option<Decimal> {
        let known = self.known.as_ref();
        let decimals = known.map_or(0, |known| known.board.rules.decimals);
        raw.map(|raw| Decimal::of(raw, decimals))
    }
}

/// The run of a number.
pub(crate) async fn find(ctx: &Context<'_>, id: i64) -> crate::error::Result<Option<IntegrityRun>> {
    state(ctx).require(Scope::Admin)?;
    let row = row::Entity::find_by_id(id);
    Ok(row.one(&app(ctx).deployment.db).await?.map(IntegrityRun))
}

/// The run of a global id, or of its number alone, as `analytics diff` prints it.
pub(crate) async fn find_named(
    ctx: &Context<'_>,
    text: &str,
) -> crate::error::Result<Option<IntegrityRun>> {
    let number = match GlobalId::parse(text) {
        Some(GlobalId::IntegrityRun(number)) => Some(number),
        Some(_) => None,
        None => text.parse().ok(),
    };
    let number = number.ok_or_else(|| {
        Error::bad_input("this is no id of a run; \"integrityRun:1\" or \"1\" is accepted")
    })?;
    find(ctx, number).await
}

/// A page of the runs over a board alone, or of all runs; newest first.
pub(crate) async fn list(
    ctx: &Context<'_>,
    slug: Option<&str>,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<IntegrityRun, IntegrityRunTotal>> {
    state(ctx).require(Scope::Admin)?;
    let limit = limit_or("first", first, JOBS_DEFAULT)?;
    let mut meant = row::Entity::find();
    if let Some(slug) = slug {
        let board = board::named(ctx, slug).await?;
        meant = meant.filter(row::Column::BoardNo.eq(board.row.no));
    }
    let mut select = meant.clone().order_by_desc(row::Column::Id);
    if let Some(after) = after {
        select = select.filter(row::Column::Id.lt(number_of(after)?));
    }
    let (rows, has_next) = first_rows(&app(ctx).deployment.db, select, limit).await?;
    let total = IntegrityRunTotal(meant);
    let mut connection = Connection::with_additional_fields(after.is_some(), has_next, total);
    let edges =
        rows.into_iter().map(|row| Edge::new(PageCursor(row.id.to_string()), IntegrityRun(row)));
    connection.edges.extend(edges);
    Ok(connection)
}

async fn findings_page(
    ctx: &Context<'_>,
    run_id: i64,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<Finding, FindingTotal>> {
    use finding_row::Column::{FindingIndex, RunId};
    let limit = limit_or("first", first, FINDINGS_DEFAULT)?;
    let mut select =
        finding_row::Entity::find().filter(RunId.eq(run_id)).order_by_asc(FindingIndex);
    if let Some(after) = after {
        select = select.filter(FindingIndex.gt(number_of(after)?));
    }
    let (rows, has_next) = first_rows(&app(ctx).deployment.db, select, limit).await?;
    let numbers = rows.iter().map(|row| row.board_no).collect();
    let boards = state(ctx).loaders.boards(numbers).await?;
    let total = FindingTotal(run_id);
    let mut connection = Connection::with_additional_fields(after.is_some(), has_next, total);
    let edges = rows.into_iter().map(|row| {
        let known = boards.get(&row.board_no).cloned();
        Edge::new(PageCursor(row.finding_index.to_string()), Finding { row, known })
    });
    connection.edges.extend(edges);
    Ok(connection)
}

/// A count of the schema, up to what GraphQL's Int can hold.
fn at_most(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The total of a connection of runs, counted when it is asked for.
pub struct IntegrityRunTotal(Select<row::Entity>);

#[Object]
impl IntegrityRunTotal {
    /// How many runs there are.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let count = self.0.clone().count(&app(ctx).deployment.db);
        Ok(int(count.await.map_err(Error::from)?)?)
    }
}

/// The total of a connection of findings, counted when it is asked for.
pub struct FindingTotal(i64);

#[Object]
impl FindingTotal {
    /// How many findings of the run are kept.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let of_run = finding_row::Entity::find().filter(finding_row::Column::RunId.eq(self.0));
        let count = of_run.count(&app(ctx).deployment.db);
        Ok(int(count.await.map_err(Error::from)?)?)
    }
}
