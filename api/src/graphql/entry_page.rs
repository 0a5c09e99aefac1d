//! Pages of a standings' entries.

use async_graphql::connection::Edge;
use async_graphql::{Context, Object, Result};
use futures::FutureExt;
use ranking::store::read::{Placed, Split};

use super::connection::{Connection, EntryCursor, Page};
use super::entry::Entry;
use super::request::{app, state};
use super::scalar::int;
use super::standings::Standings;
use crate::loader::{Bound, Found};

/// The total of a connection of entries, counted when it is asked for.
pub struct Total(Standings);

#[Object]
impl Total {
    /// How many entries the standings has.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        Ok(int(state(ctx)
            .loaders
            .count(Bound {
                standings: self.0.read.clone(),
                key: None,
            })
            .await?)?)
    }
}

impl Standings {
    pub(super) async fn page(
        &self,
        ctx: &Context<'_>,
        page: Page,
        offset: Option<u64>,
    ) -> crate::error::Result<Connection<Entry, Total>> {
        let app = app(ctx);
        let _reading = state(ctx).loaders.reading();
        match page {
            Page::Forward { limit, after } => {
                let (list, after) = match after {
                    Some(cursor) => self
                        .resume(app, &cursor)
                        .map(|(list, place)| (list, Some(place)))?,
                    None => (self.clone(), None),
                };
                let (from, mut entries) = app
                    .read(|store| {
                        list.forward(store, after.as_ref(), offset.unwrap_or(0), limit + 2)
                            .boxed()
                    })
                    .await?;
                let mut position = from.position();
                if after.is_some() && entries.first() == after.as_ref() {
                    entries.remove(0);
                    position += 1;
                }
                let has_next = entries.len() > limit;
                entries.truncate(limit);
                Ok(list.connection(entries, position, position > 0, has_next))
            }
            Page::Backward { limit, before } => {
                let (list, before) = match before {
                    Some(cursor) => self
                        .resume(app, &cursor)
                        .map(|(list, place)| (list, Some(place)))?,
                    None => (self.clone(), None),
                };
                let (from, mut entries) = app
                    .read(|store| list.backward(store, before.as_ref(), limit + 1).boxed())
                    .await?;
                let has_previous = entries.len() > limit;
                let entries = entries.split_off(entries.len().saturating_sub(limit));
                let position = from.position().saturating_sub(entries.len() as u64);
                Ok(list.connection(entries, position, has_previous, before.is_some()))
            }
        }
    }

    async fn forward(
        &self,
        store: &ranking::store::Store,
        after: Option<&Placed>,
        offset: u64,
        limit: usize,
    ) -> ranking::Result<(Split, Vec<Placed>)> {
        let from = match after {
            Some(place) => store.split_at(&self.read, place).await?,
            None => store.split_at_position(&self.read, offset).await?,
        };
        let entries = store.forward(&self.read, &from, limit).await?;
        Ok((from, entries))
    }

    async fn backward(
        &self,
        store: &ranking::store::Store,
        before: Option<&Placed>,
        limit: usize,
    ) -> ranking::Result<(Split, Vec<Placed>)> {
        let from = match before {
            Some(place) => store.split_at(&self.read, place).await?,
            None => store.end(&self.read).await?,
        };
        let entries = store.backward(&self.read, &from, limit).await?;
        Ok((from, entries))
    }

    pub(super) async fn entry_of_position(
        &self,
        ctx: &Context<'_>,
        position: u64,
    ) -> crate::error::Result<Option<Entry>> {
        let _reading = state(ctx).loaders.reading();
        let (_, placed) = app(ctx)
            .read(|store| self.forward(store, None, position, 1).boxed())
            .await?;
        Ok(self.entries(placed, position).next())
    }

    pub(super) fn entries(&self, placed: Vec<Placed>, first: u64) -> impl Iterator<Item = Entry> {
        let with_position = placed.into_iter().zip(first..);
        with_position.map(|(Placed { key, member }, position)| {
            Entry::new(self.clone(), member, Found { key, position })
        })
    }

    fn connection(
        &self,
        placed: Vec<Placed>,
        first: u64,
        has_previous: bool,
        has_next: bool,
    ) -> Connection<Entry, Total> {
        let mut connection =
            Connection::with_additional_fields(has_previous, has_next, Total(self.clone()));
        let cursors: Vec<_> = placed
            .iter()
            .map(|entry| EntryCursor::new(&self.read.id, entry.key, &entry.member).encode())
            .collect();
        connection.edges.extend(
            cursors
                .into_iter()
                .zip(self.entries(placed, first))
                .map(|(cursor, entry)| Edge::new(cursor, entry)),
        );
        connection
    }
}
