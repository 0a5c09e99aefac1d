//! Lists of entries, and connections of them.
//!
//! A page has up to 1,000 entries, and async-graphql creates a future for each field of each entry,
//! which is most of the cost of a page. If a query selects only fields that need no look-up, they
//! are computed here for the whole list at once. Otherwise the entries are resolved one by one, as
//! everything else is.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use async_graphql::connection::{Edge, EmptyFields, PageInfo};
use async_graphql::parser::types::{Field, Selection, SelectionSet};
use async_graphql::registry::Registry;
use async_graphql::resolver_utils::resolve_list;
use async_graphql::{
    Context, ContextSelectionSet, Object, OutputType, Positioned, Result, ServerResult, Value,
};
use async_graphql_value::Name;
use indexmap::IndexMap;
use ranking::store::read::RankedEntry;

use super::Standings;
use super::entry::Entry;
use super::score_range::ScoreRange;
use crate::app::SharedApp;
use crate::graphql::price;
use crate::graphql::request::RequestState;
use crate::graphql::sight::{hidden_among, sees_everyone};
use crate::graphql::types::connection::PageCursor;
use crate::graphql::types::scalar::int;

/// A list of entries.
pub struct Entries(pub Vec<Entry>);

impl OutputType for Entries {
    fn type_name() -> Cow<'static, str> {
        Vec::<Entry>::type_name()
    }

    fn qualified_type_name() -> String {
        Vec::<Entry>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        Vec::<Entry>::create_type_info(registry)
    }

    async fn resolve(
        &self,
        ctx: &ContextSelectionSet<'_>,
        field: &Positioned<Field>,
    ) -> ServerResult<Value> {
        let mut picks = Picks::default();
        if picks.add(ctx, &ctx.item.node) {
            let state = ctx.data_unchecked::<RequestState>();
            let app = ctx.data_unchecked::<SharedApp>();
            let keys = self.0.iter().map(Entry::member_key);
            let hidden = match sees_everyone(app, state) {
                true => vec![],
                false => hidden_among(app, state, keys).await,
            };
            let values = self.0.iter().enumerate().map(|(index, entry)| {
                let is_hidden = hidden.get(index).copied().unwrap_or(false);
                picks.of(entry, (!is_hidden).then(|| entry.member_key()), state.now_ms)
            });
            if let Some(values) = values.collect() {
                return Ok(Value::List(values));
            }
        }
        resolve_list(ctx, field, &self.0, Some(self.0.len())).await
    }
}

/// The selected fields of an entry that need no look-up, by response key.
#[derive(Debug, Default)]
struct Picks(Vec<(Name, Pick)>);

#[derive(Debug)]
enum Pick {
    TypeName,
    Rank,
    Score,
    FormattedScore,
    Value,
    ReachedAt,
    Member(Vec<(Name, bool)>),
}

impl Picks {
    /// Adds the selected fields. Returns false if one of them needs a look-up, or has the response
    /// key of another.
    fn add(&mut self, ctx: &ContextSelectionSet<'_>, selected: &SelectionSet) -> bool {
        let fragments = &ctx.query_env.fragments;
        selected.items.iter().all(|selection| match &selection.node {
            Selection::Field(field) => {
                let key = &field.node.response_key().node;
                let is_plain = field.node.arguments.is_empty()
                    && field.node.directives.is_empty()
                    && self.0.iter().all(|(known, _)| known != key);
                let pick = Pick::of(&field.node).filter(|_| is_plain);
                self.0.extend(pick.map(|pick| (key.clone(), pick)));
                self.0.last().is_some_and(|(last, _)| last == key) && is_plain
            }
            Selection::FragmentSpread(spread) if spread.node.directives.is_empty() => fragments
                .get(&spread.node.fragment_name.node)
                .filter(|fragment| fragment.node.type_condition.node.on.node == "Entry")
                .is_some_and(|fragment| self.add(ctx, &fragment.node.selection_set.node)),
            _ => false,
        })
    }

    /// The selected fields of an entry, without its member if the client does not see that; `None`
    /// if one of them cannot be computed.
    fn of(&self, entry: &Entry, member: Option<&str>, now_ms: i64) -> Option<Value> {
        let mut fields = IndexMap::with_capacity(self.0.len());
        for (key, pick) in &self.0 {
            let value = match pick {
                Pick::TypeName => Value::from("Entry"),
                Pick::Rank => Value::from(entry.ordinal_rank().ok()?),
                Pick::Score => Value::String(entry.shown_score(now_ms).0),
                Pick::FormattedScore => Value::String(entry.formatted_score_at(now_ms)),
                Pick::Value => Value::from(entry.shown_value(now_ms)),
                Pick::ReachedAt => entry
                    .shown_reached_at()
                    .map_or(Value::Null, |at| async_graphql::ScalarType::to_value(&at)),
                Pick::Member(asked) => {
                    let Some(member_key) = member else {
                        fields.insert(key.clone(), Value::Null);
                        continue;
                    };
                    let member = asked.iter().map(|(key, is_type)| {
                        let text = if *is_type { "Member" } else { member_key };
                        (key.clone(), Value::from(text))
                    });
                    Value::Object(member.collect())
                }
            };
            fields.insert(key.clone(), value);
        }
        Some(Value::Object(fields))
    }
}

impl Pick {
    fn of(field: &Field) -> Option<Self> {
        Some(match field.name.node.as_str() {
            "__typename" => Self::TypeName,
            "rank" => Self::Rank,
            "score" => Self::Score,
            "formattedScore" => Self::FormattedScore,
            "value" => Self::Value,
            "reachedAt" => Self::ReachedAt,
            "member" => Self::Member(member_picks(&field.selection_set.node)?),
            _ => return None,
        })
    }
}

/// The response keys of a member's `key` (false) and `__typename` (true); `None` if other fields
/// are selected.
fn member_picks(selected: &SelectionSet) -> Option<Vec<(Name, bool)>> {
    let pick = |selection: &Positioned<Selection>| match &selection.node {
        Selection::Field(field) if field.node.directives.is_empty() => {
            let is_type = match field.node.name.node.as_str() {
                "__typename" => true,
                "key" => false,
                _ => return None,
            };
            Some((field.node.response_key().node.clone(), is_type))
        }
        _ => None,
    };
    selected.items.iter().map(pick).collect()
}

/// A page of entries.
pub struct EntryConnection {
    /// The standings.
    pub(crate) list: Standings,
    /// The entries that were read, which other pages of the request may share.
    pub(crate) read: Arc<[RankedEntry]>,
    /// The places of the page among them.
    pub(crate) shown: Range<usize>,
    /// The position of the first entry.
    pub(crate) first: u64,
    /// True if there are entries before the page.
    pub(crate) has_previous: bool,
    /// True if there are entries after the page.
    pub(crate) has_next: bool,
    /// The scores that the whole list is limited to.
    pub(crate) range: ScoreRange,
}

impl EntryConnection {
    /// The page as one of a list that is limited to a range of scores.
    pub(crate) fn within(self, range: ScoreRange) -> Self {
        Self { range, ..self }
    }

    async fn cursor(
        &self,
        ctx: &Context<'_>,
        entry: &RankedEntry,
    ) -> crate::error::Result<PageCursor> {
        price::pay_text(ctx, self.list.id_bytes() + 3 * entry.member.as_str().len()).await?;
        Ok(self.list.cursor_of(ctx, entry.key, &entry.member).await)
    }

    fn placed(&self) -> &[RankedEntry] {
        self.read.get(self.shown.clone()).unwrap_or_default()
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.list.entries(self.placed().to_vec(), self.first)
    }
}

/// A page of entries.
#[Object]
impl EntryConnection {
    /// Information to aid in pagination.
    async fn page_info(&self, ctx: &Context<'_>) -> Result<PageInfo> {
        let mut ends = [None, None];
        for (end, entry) in ends.iter_mut().zip([self.placed().first(), self.placed().last()]) {
            if let Some(entry) = entry {
                *end = Some(self.cursor(ctx, entry).await?.0);
            }
        }
        let [start_cursor, end_cursor] = ends;
        Ok(PageInfo {
            has_previous_page: self.has_previous,
            has_next_page: self.has_next,
            start_cursor,
            end_cursor,
        })
    }

    /// A list of edges.
    async fn edges(&self, ctx: &Context<'_>) -> Result<Vec<Edge<PageCursor, Entry, EmptyFields>>> {
        let mut edges = Vec::with_capacity(self.shown.len());
        for (placed, entry) in self.placed().iter().zip(self.entries()) {
            edges.push(Edge::new(self.cursor(ctx, placed).await?, entry));
        }
        Ok(edges)
    }

    /// A list of nodes.
    async fn nodes(&self) -> Entries {
        Entries(self.entries().collect())
    }

    /// The number of entries on all pages.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        if self.range.is_all() {
            return Ok(int(self.list.count(ctx).await?)?);
        }
        Ok(int(Box::pin(self.list.count_of_scores(ctx, self.range)).await?)?)
    }
}
