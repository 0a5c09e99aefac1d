//! The search for members by a prefix of their key or name.

use async_graphql::connection::Edge;
use async_graphql::{Context, Object, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entity::member::{Column, Entity, Model, fold_name};
use ranking::id::MemberId;
use sea_orm::{
    ColumnTrait, Condition, DatabaseConnection, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use serde::{Deserialize, Serialize};

use super::Member;
use crate::error::Error;
use crate::graphql::request::{app, state};
use crate::graphql::types::connection::{Connection, Page, PageCursor};
use crate::graphql::types::scalar::int;

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
            Self::Found(prefix) => prefix.count(&app(ctx).deployment.db).await?,
        };
        Ok(int(count)?)
    }
}

/// The prefix of a search, as it is for keys, and in lower case for names.
#[derive(Clone)]
pub struct Prefix {
    key: String,
    name: String,
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
    let db = &app(ctx).deployment.db;
    MemberId::new(prefix).map_err(|_| {
        Error::bad_input("invalid prefix: expected 1 to 128 bytes without control characters")
    })?;
    let prefix = Prefix { key: prefix.to_owned(), name: fold_name(prefix) };
    let limit = match Page::new(first, None, None, None)? {
        Page::Forward { limit, .. } | Page::Backward { limit, .. } => limit,
    };
    let place = after.as_deref().map(Place::decode).transpose()?;
    let mut found: Vec<(Place, Model)> = vec![];
    if !matches!(place, Some(Place::Name(..))) {
        let mut by_key = Entity::find().filter(prefix.of_key());
        if let Some(Place::Key(key)) = &place {
            by_key = by_key.filter(Column::Key.gt(key));
        }
        let rows = by_key.order_by_asc(Column::Key).limit(limit as u64 + 1);
        let place = |row: Model| (Place::Key(row.key.clone()), row);
        found.extend(rows.all(db).await?.into_iter().map(place));
    }
    if found.len() <= limit {
        let mut by_name = Entity::find().filter(prefix.of_name_only());
        if let Some(Place::Name(name, key)) = &place {
            let same_name =
                Condition::all().add(Column::NameFolded.eq(name)).add(Column::Key.gt(key));
            let later = Condition::any().add(Column::NameFolded.gt(name)).add(same_name);
            by_name = by_name.filter(later);
        }
        let rows = by_name
            .order_by_asc(Column::NameFolded)
            .order_by_asc(Column::Key)
            .limit((limit + 1 - found.len()) as u64);
        let place = |row: Model| {
            let name = row.name_folded.clone().unwrap_or_default();
            (Place::Name(name, row.key.clone()), row)
        };
        found.extend(rows.all(db).await?.into_iter().map(place));
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let total = MemberTotal::Found(prefix);
    let mut connection = Connection::with_additional_fields(place.is_some(), more, total);
    for (place, row) in found {
        connection.edges.push(Edge::new(place.encode(), Member::of_row(row)));
    }
    Ok(connection)
}

impl Prefix {
    fn of_key(&self) -> Condition {
        starts_with(Column::Key, &self.key)
    }

    fn of_name_only(&self) -> Condition {
        starts_with(Column::NameFolded, &self.name).add(self.of_key().not())
    }

    async fn count(&self, db: &DatabaseConnection) -> crate::error::Result<u64> {
        let by_key = Entity::find().filter(self.of_key()).count(db).await?;
        let by_name = Entity::find().filter(self.of_name_only()).count(db).await?;
        Ok(by_key + by_name)
    }
}

impl Place {
    fn encode(&self) -> PageCursor {
        let json = serde_json::to_vec(self).expect("texts have a JSON form");
        PageCursor(URL_SAFE_NO_PAD.encode(json))
    }

    /// True if every database accepts the place as text.
    fn is_text(&self) -> bool {
        let (Self::Key(key) | Self::Name(_, key)) = self;
        let name = if let Self::Name(name, _) = self { name } else { key };
        MemberId::new(key).is_ok() && !name.chars().any(char::is_control)
    }

    fn decode(text: &str) -> crate::error::Result<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .filter(Self::is_text)
            .ok_or_else(|| {
                Error::bad_input(
                    "invalid page cursor: expected one from pageInfo or an edge of searchMembers",
                )
            })
    }
}

/// The condition as a range, which an index can answer, as text is compared by bytes.
fn starts_with(column: Column, prefix: &str) -> Condition {
    let range = Condition::all().add(column.gte(prefix));
    match end_of(prefix) {
        Some(end) => range.add(column.lt(end)),
        None => range,
    }
}

/// The first text after all that begin with a prefix; `None` if there is none.
fn end_of(prefix: &str) -> Option<String> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_holds_the_texts_that_begin_with_the_prefix(prefix in "\\PC{1,3}|[\u{D7FE}\u{D7FF}\u{10FFFE}\u{10FFFF}]{1,3}", text in "\\PC{0,5}|[\u{D7FE}\u{D7FF}\u{10FFFE}\u{10FFFF}]{0,4}", with: bool) {
            let text = if with { format!("{prefix}{text}") } else { text };
            let in_range = text >= prefix && end_of(&prefix).is_none_or(|end| text < end);
            prop_assert_eq!(in_range, text.starts_with(&prefix));
        }
    }
}
