//! Periods: the half-open spans of time that a window's standings cover.

use async_graphql::connection::Edge;
use async_graphql::{Context, ID, Object, Result, SimpleObject};
use ranking::store::read::Range;
use ranking::window::ListedPeriod;
use ranking::window::Window as RankingWindow;

use super::Standings;
use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::types::connection::{Connection, Page, PageCursor, no_cursor};
use crate::graphql::types::global_id::{BoardName, GlobalId};
use crate::graphql::types::scalar::{DateTime, int};
use crate::loader::In;
use crate::loader::totals::Total;

/// A half-open span of time that a window's standings cover.
#[derive(SimpleObject, Debug, Clone)]
pub struct Period {
    /// The global id: "period:<slug>.<number>:<window>:<label>".
    #[graphql(owned)]
    pub(crate) id: ID,
    /// The label: "2025-09-03", "2025-W36" or "2025-08-31/P7D", "2025-09", "2025-Q3", "2025",
    /// "2025-10-26T02+01:00", the name of a season, "all".
    label: String,
    /// The first instant of the period; null for "all".
    start: Option<DateTime>,
    /// The first instant after the period; null for "all".
    end: Option<DateTime>,
    /// The start of the next period, if this is the present one; null for any other, and for "all".
    next_reset_at: Option<DateTime>,
    /// True if the final standings are stored in SQL and have left Redis.
    sealed: bool,
}

impl Period {
    pub(crate) fn new(
        board: &CachedBoard,
        window: RankingWindow,
        period: &ranking::window::Period,
        now_ms: i64,
    ) -> Self {
        let is_on = |_: &i64| period.is_present(now_ms);
        let start = period.end_ms.map(|_| DateTime(period.start_ms));
        let (name, window_name) = (BoardName::of(board), window.to_string());
        Self {
            id: GlobalId::Period(name, window_name, period.label.clone()).to_text().into(),
            label: period.label.clone(),
            start,
            end: period.end_ms.map(DateTime),
            next_reset_at: period.end_ms.filter(is_on).map(DateTime),
            sealed: period.present_from_ms < board.board.sealed(window).sealed_before_ms,
        }
    }
}

/// The total of a connection of periods, counted only if a query asks for it.
pub struct PeriodTotal(Standings);

#[Object]
impl PeriodTotal {
    /// The number of periods that have entries.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let (read, state) = (&self.0.read, state(ctx));
        if !read.id.window.has_periods() {
            return Ok(i32::from(self.0.count(ctx).await? > 0));
        }
        let total =
            Total::Periods(In { standings: read.clone(), key: after_begun_ms(state.now_ms) });
        let counted = |count| price::counted_periods(read, count);
        let count = price::total(state, total, counted).await?;
        Ok(int(count)?)
    }
}

/// A page of the periods that have entries, newest first, of the board, segment and window of
/// `standings`.
pub(crate) async fn periods_page(
    ctx: &Context<'_>,
    standings: Standings,
    page: Page,
) -> crate::error::Result<Connection<Period, PeriodTotal>> {
    let _reading = state(ctx).loaders.reading();
    let (window, rules) = (standings.read.id.window, standings.read.rules.clone());
    let start_of = |cursor: &String| {
        let label: String = PageCursor::place(cursor)?;
        let period = window.period_named(&label, &rules.calendar).map_err(|_| no_cursor(cursor))?;
        Ok::<_, Error>(period.present_from_ms)
    };
    let (limit, range, cursor) = match &page {
        Page::Forward { limit, after } => {
            let start_ms = after.as_ref().map(start_of).transpose()?;
            let after_ms = start_ms.map_or(begun(state(ctx).now_ms), Range::Before);
            (*limit, after_ms, after)
        }
        Page::Backward { limit, before } => {
            let start_ms = before.as_ref().map(start_of).transpose()?;
            (*limit, Range::After(start_ms.unwrap_or(i64::MIN)), before)
        }
    };
    price::pay_fold_of_periods(ctx, &standings.read).await?;
    let mut found = match (window, cursor) {
        (window, Some(_)) if !window.has_periods() => vec![],
        _ => periods(ctx, &standings, range, limit + 1).await?,
    };
    let more = found.len() > limit;
    found.truncate(limit);
    let (has_previous, has_next) = match page {
        Page::Forward { .. } => (cursor.is_some(), more),
        Page::Backward { .. } => (more, cursor.is_some()),
    };
    if matches!(range, Range::After(_)) {
        found.reverse();
    }
    let board = standings.board.clone();
    let total = PeriodTotal(standings);
    let mut connection = Connection::with_additional_fields(has_previous, has_next, total);
    for began in found {
        // Another process may know a season that this one does not know yet.
        let Ok(period) = window.period_named(&began.label, &rules.calendar) else { continue };
        connection.edges.push(Edge::new(
            PageCursor::of(&began.label),
            Period::new(&board, window, &period, state(ctx).now_ms),
        ));
    }
    Ok(connection)
}

/// The range of periods that have begun.
fn begun(now_ms: i64) -> Range {
    Range::Before(after_begun_ms(now_ms))
}

/// The first instant after all at which periods have begun.
fn after_begun_ms(now_ms: i64) -> i64 {
    now_ms.saturating_add(1)
}

async fn periods(
    ctx: &Context<'_>,
    standings: &Standings,
    range: Range,
    limit: usize,
) -> crate::error::Result<Vec<ListedPeriod>> {
    let read = &standings.read;
    if read.id.window.has_periods() {
        state(ctx).spend(price::periods(read, limit)).await?;
        let periods = app(ctx).reader().periods(read, range, limit);
        let mut periods = state(ctx).loaders.read(periods).await?;
        // The roller makes the next period of a rolling window ahead of time.
        periods.retain(|listed| listed.present_from_ms <= state(ctx).now_ms);
        return Ok(periods);
    }
    let all = ListedPeriod {
        present_from_ms: read.period.present_from_ms,
        label: read.period.label.clone(),
    };
    // Not by a look-up that waits for reads, as this is one of them.
    state(ctx).spend(price::size(app(ctx), read)).await?;
    let size = state(ctx).loaders.read(app(ctx).reader().size(read)).await?;
    Ok(if size > 0 { vec![all] } else { vec![] })
}
