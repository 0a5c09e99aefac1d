//! The search for members by a prefix of their key or name.

use std::collections::HashSet;

use async_graphql::connection::Edge;
use async_graphql::{Context, Object, Result};
use entity::member::Model;
use entity::member::search::{LOOKED_AT_MAX, Prefix};
use ranking::id::MemberId;
use sea_orm::{ConnectionTrait, DbErr};
use serde::{Deserialize, Serialize};

use super::Member;
use crate::error::{Error, ErrorCode};
use crate::graphql::price::{self, LookUp};
use crate::graphql::request::{app, state};
use crate::graphql::sight::searcher;
use crate::graphql::types::connection::{Connection, Page, PageCursor, no_cursor};
use crate::graphql::types::scalar::int;
use crate::loader::totals::Total;

/// The members that are looked at together where few of them may be shown.
const LOOKED_AT_ONCE: usize = 200;

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
                if prefix.viewer().is_some() && state(ctx).loaders.is_new(&LookUp::Total(&total)) {
                    // Members whom the client does not see are looked at, and not counted.
                    state(ctx).spend(price::select(0)).await?;
                    let _place = state(ctx).budget.scan().await;
                    let looking = prefix.count_looked_at(&app(ctx).deployment.reads);
                    let looked_at = state(ctx).budget.settle(looking).await?;
                    // In steps: the exact number would tell how many are hidden.
                    let looked_at = looked_at.max(LOOKED_AT_ONCE as u64);
                    let looked_at = looked_at.next_multiple_of(looked_at.next_power_of_two() / 8);
                    state(ctx).owe(looked_at * price::HIDDEN_AT_ONCE).await?;
                }
                price::total(state(ctx), total, price::counted_rows).await?
            }
        };
        Ok(int(count)?)
    }
}

/// A place in the results of a search: first members found by key, ordered by key; then those found
/// by name, ordered by name in lower case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    let prefix = Prefix::new(prefix, viewer);
    let limit = match Page::new(first, None, None, None)? {
        Page::Forward { limit, .. } | Page::Backward { limit, .. } => limit,
    };
    let place = after.as_deref().map(Place::decode).transpose()?;
    let (mut found, mut looked_at, mut last) = (vec![], 0, place.clone());
    while found.len() <= limit {
        if looked_at >= LOOKED_AT_MAX {
            return Err(too_many_hidden());
        }
        let wanted = limit + 1 - found.len();
        let is_again = last != place;
        let wanted = match prefix.viewer().is_some() || is_again {
            true => wanted.max(LOOKED_AT_ONCE),
            false => wanted,
        };
        state(ctx).spend(2 * price::select(wanted)).await?;
        if prefix.viewer().is_some() {
            // For so many as are asked for: the rows found would tell how many are hidden.
            state(ctx).spend(price::HIDDEN * wanted as u64).await?;
        }
        let mut rows = rows_after(db, &prefix, last.as_ref(), wanted).await?;
        let is_last = rows.len() < wanted;
        looked_at += if prefix.viewer().is_some() { rows.len() } else { 0 };
        last = rows.last().map(|(place, _)| place.clone());
        rows.retain(|(place, row)| matches!(place, Place::Key(_)) || !prefix.finds_key(&row.key));
        if let Some(viewer) = prefix.viewer() {
            let keys: Vec<String> = rows.iter().map(|(_, row)| row.key.clone()).collect();
            let hidden: HashSet<String> = viewer.hidden_of(db, &keys).await?.into_iter().collect();
            rows.retain(|(_, row)| !hidden.contains(&row.key));
        }
        found.append(&mut rows);
        if is_last {
            break;
        }
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

/// Members that a search finds behind a place, at most `limit`, also those by name that were found
/// by key before, and those that the client does not see.
async fn rows_after(
    db: &impl ConnectionTrait,
    prefix: &Prefix,
    place: Option<&Place>,
    limit: usize,
) -> Result<Vec<(Place, Model)>, DbErr> {
    let mut found = vec![];
    if !matches!(place, Some(Place::Name(..))) {
        let after = match place {
            Some(Place::Key(key)) => Some(key.as_str()),
            _ => None,
        };
        let rows = prefix.by_key(db, after, limit).await?;
        found.extend(rows.into_iter().map(|row| (Place::Key(row.key.clone()), row)));
    }
    if found.len() < limit {
        let after = match place {
            Some(Place::Name(name, key)) => Some((name.as_str(), key.as_str())),
            _ => None,
        };
        let rows = prefix.by_name(db, after, limit - found.len()).await?;
        let place = |row: Model| {
            let name = row.name_folded.clone().unwrap_or_default();
            (Place::Name(name, row.key.clone()), row)
        };
        found.extend(rows.into_iter().map(place));
    }
    Ok(found)
}

/// The answer to a search that would look at too many members whom the client does not see.
fn too_many_hidden() -> Error {
    Error::new(
        ErrorCode::LimitExceeded,
        format!(
            "a search looks at {LOOKED_AT_MAX} members at most, and you do not see many of them; expected a longer prefix"
        ),
    )
    .at("prefix")
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
