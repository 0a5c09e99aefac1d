//! The search for members by a prefix of their key or name.

use async_graphql::connection::Edge;
use async_graphql::{Context, Object, Result};
use entity::member::Model;
use entity::member::search::Prefix;
use ranking::id::MemberId;
use serde::{Deserialize, Serialize};

use super::Member;
use crate::error::Error;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::sight::searcher;
use crate::graphql::types::connection::{Connection, Page, PageCursor, no_cursor};
use crate::graphql::types::scalar::int;
use crate::loader::totals::Total;

/// The total of a connection of members, counted only if a query asks for it.
pub enum MemberTotal {
    /// A known count.
    Counted(u64),
    /// The members that a search finds.
    Found(Prefix),
}

#[Object]
impl MemberTotal {
    /// The number of members on all pages.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let count = match self {
            Self::Counted(count) => *count,
            Self::Found(prefix) => {
                let total = Total::Members(prefix.clone());
                price::total(state(ctx), total, price::counted_rows).await?
            }
        };
        Ok(int(count)?)
    }
}

/// A place in the results of a search: first members found by key, ordered by key; then those found
/// by name, ordered by name in lower case.
#[derive(Debug, Serialize, Deserialize)]
enum Place {
    #[serde(rename = "k")]
    Key(String),
    #[serde(rename = "n")]
    Name(String, String),
}

/// A page of the members whose key or name begins with a prefix. The case of names does not matter.
pub(crate) async fn search(
    ctx: &Context<'_>,
    prefix: &str,
    first: Option<i32>,
    after: Option<String>,
) -> crate::error::Result<Connection<Member, MemberTotal>> {
    let _reading = state(ctx).loaders.reading();
    let db = &app(ctx).deployment.reads;
    MemberId::new(prefix).map_err(|_| {
        Error::bad_input("invalid prefix: expected 1 to 128 bytes without control characters")
            .at("prefix")
    })?;
    let viewer = searcher(app(ctx), state(ctx)).await?;
    let hides = if viewer.is_some() { price::HIDDEN } else { 0 };
    let prefix = Prefix::new(prefix, viewer);
    let limit = match Page::new(first, None, None, None)? {
        Page::Forward { limit, .. } | Page::Backward { limit, .. } => limit,
    };
    state(ctx).spend(2 * price::select(limit) + hides * limit as u64)?;
    let place = after.as_deref().map(Place::decode).transpose()?;
    let mut found: Vec<(Place, Model)> = vec![];
    if !matches!(place, Some(Place::Name(..))) {
        let after = match &place {
            Some(Place::Key(key)) => Some(key.as_str()),
            _ => None,
        };
        let rows = prefix.by_key(db, after, limit + 1).await?;
        found.extend(rows.into_iter().map(|row| (Place::Key(row.key.clone()), row)));
    }
    if found.len() <= limit {
        let after = match &place {
            Some(Place::Name(name, key)) => Some((name.as_str(), key.as_str())),
            _ => None,
        };
        let rows = prefix.by_name(db, after, limit + 1 - found.len()).await?;
        let place = |row: Model| {
            let name = row.name_folded.clone().unwrap_or_default();
            (Place::Name(name, row.key.clone()), row)
        };
        found.extend(rows.into_iter().map(place));
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let total = MemberTotal::Found(prefix);
    let mut connection = Connection::with_additional_fields(place.is_some(), more, total);
    for (place, row) in found {
        connection.edges.push(Edge::new(PageCursor::of(&place), Member::of_row(row)));
    }
    Ok(connection)
}

impl Place {
    /// True if every database accepts the place as text.
    fn is_text(&self) -> bool {
        let (Self::Key(key) | Self::Name(_, key)) = self;
        let name = if let Self::Name(name, _) = self { name } else { key };
        MemberId::new(key).is_ok() && !name.chars().any(char::is_control)
    }

    fn decode(cursor: &str) -> crate::error::Result<Self> {
        let place: Self = PageCursor::place(cursor)?;
        if place.is_text() { Ok(place) } else { Err(no_cursor(cursor)) }
    }
}
