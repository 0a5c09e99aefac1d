//! The segments of a board: standings of their own, as connections of them.

use async_graphql::connection::{Edge, EmptyFields};
use async_graphql::{Context, Result};
use entity::board::check_segment;
use entity::standings::standing;
use ranking::attribute::{check_segmented_by, segment_of};

use super::Board;
use crate::error::Error;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::standings::{Choice, Standings};
use crate::graphql::types::connection::{Connection, PageCursor, limit};

/// A page of the standings of each segment that has entries in "all", ordered by segment.
pub(crate) async fn segments_page(
    ctx: &Context<'_>,
    board: &Board,
    choice: Choice,
    attribute: Option<&str>,
    first: Option<i32>,
    after: Option<&str>,
) -> Result<Connection<Standings, EmptyFields>, Error> {
    let _reading = state(ctx).loaders.reading();
    if choice.segment.is_some() {
        let message = "invalid segment: expected none, as all of them are listed";
        return Err(Error::bad_input(message).at("of.segment"));
    }
    let limit = limit("first", first)?;
    let after_segment = after.map(PageCursor::place::<String>).transpose();
    let after_segment = after_segment.map_err(|error| error.at("after"))?;
    if let Some(segment) = &after_segment {
        check_segment(&board.0.row.slug, &board.0.segment_by, segment)
            .map_err(|error| Error::from(error).at("after"))?;
    }
    state(ctx).spend((limit as u64 + 1) * price::select(1)).await?;
    let (db, no) = (&app(ctx).deployment.reads, board.0.row.no);
    let segment_by = &board.0.segment_by;
    if let Some(attribute) = attribute {
        check_segmented_by(segment_by, attribute)
            .map_err(|error| Error::from(error).at("attribute"))?;
    }
    // The segments of an attribute begin with its name and a colon. Everyone is the empty segment,
    // which comes before all others.
    let begin = attribute.map(|name| segment_of(name, "")).unwrap_or_default();
    let after_segment = after_segment.unwrap_or_default().max(begin.clone());
    let mut found = match segment_by.is_empty() {
        true => vec![],
        false => standing::segments_after(db, no, after_segment, limit + 1).await?,
    };
    found.retain(|segment| segment.starts_with(&begin));
    let has_next = found.len() > limit;
    found.truncate(limit);
    price::pay_texts(ctx, found.iter().map(String::len).sum()).await?;
    let mut connection = Connection::new(after.is_some(), has_next);
    for segment in found {
        let cursor = PageCursor::of(&segment);
        let choice = Choice { segment: Some(segment), ..choice.clone() };
        let standings = Standings::choose(ctx, &board.0, choice).await?;
        connection.edges.push(Edge::new(cursor, standings));
    }
    Ok(connection)
}
