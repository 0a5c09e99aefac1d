//! The list of boards, and the search in it.

use async_graphql::connection::Edge;
use async_graphql::{Context, Object, Result};
use entity::board as row;
use entity::board::display::Filter;
use entity::board::seen::Seen;
use ranking::id::check_slug;

use super::Board;
use super::display::checked_tags;
use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::graphql::price;
use crate::graphql::request::{RequestState, app, state};
use crate::graphql::types::connection::{Connection, Page, PageCursor, no_cursor};
use crate::graphql::types::scalar::{int, text as checked_text};
use crate::loader::totals::Total;

/// A page of the boards of a filter, ordered by slug.
///
/// # Errors
/// `LIMIT_EXCEEDED` if the points of the request are spent.
pub(crate) async fn list(
    ctx: &Context<'_>,
    filter: Filter,
    page: Page,
) -> crate::error::Result<Connection<Board, BoardTotal>> {
    let _reading = state(ctx).loaders.reading();
    let slug_of = |cursor: &String| {
        let slug: String = PageCursor::place(cursor)?;
        check_slug(&slug).map_err(|_| no_cursor(cursor))?;
        Ok::<_, Error>(slug)
    };
    let db = &app(ctx).deployment.reads;
    let (Page::Forward { limit, .. } | Page::Backward { limit, .. }) = &page;
    state(ctx).spend(price::select(*limit)).await?;
    if filter.is_search() {
        pay_search(ctx, &filter).await?;
    }
    let (rows, has_previous, has_next) = match page {
        Page::Forward { limit, after } => {
            let after = after.as_ref().map(slug_of).transpose()?;
            let (rows, more) = row::page_after(db, &filter, after.as_deref(), limit).await?;
            (rows, after.is_some(), more)
        }
        Page::Backward { limit, before } => {
            let before = before.as_ref().map(slug_of).transpose()?;
            let (rows, more) = row::page_before(db, &filter, before.as_deref(), limit).await?;
            (rows, more, before.is_some())
        }
    };
    price::pay_boards(ctx, &rows).await?;
    let total = BoardTotal(filter);
    let mut connection = Connection::with_additional_fields(has_previous, has_next, total);
    for row in rows {
        connection.edges.push(Edge::new(PageCursor::of(&row.slug), Board(CachedBoard::new(row)?)));
    }
    Ok(connection)
}

/// The filter of a search for boards that the client may see.
///
/// # Errors
/// `BAD_USER_INPUT`, `LIMIT_EXCEEDED` for too many tags.
pub(crate) fn filter(
    state: &RequestState,
    text: Option<String>,
    tags: &[String],
) -> crate::error::Result<Filter> {
    let text = text.map(|text| checked_text("query", text)).transpose()?;
    Ok(Filter { seen: state.seen().clone(), text, tags: checked_tags(tags)? })
}

/// Pays for a search, in which SQL may look at every board.
async fn pay_search(ctx: &Context<'_>, filter: &Filter) -> crate::error::Result<()> {
    let every = Filter { seen: Seen::All, ..Filter::default() };
    let all = price::total(state(ctx), Total::Boards(every), |_| 0).await?;
    let patterns = filter.tags.len() + usize::from(filter.text.is_some());
    state(ctx).spend(price::searched_rows(all, patterns as u64)).await
}

/// The total of a connection of boards, counted only if a query asks for it.
pub struct BoardTotal(Filter);

#[Object]
impl BoardTotal {
    /// The number of boards on all pages.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        if self.0.is_search() {
            pay_search(ctx, &self.0).await?;
        }
        let total = Total::Boards(self.0.clone());
        Ok(int(price::total(state(ctx), total, price::counted_rows).await?)?)
    }
}
