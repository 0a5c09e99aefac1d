//! Pages of entries.

use async_graphql::Context;
use ranking::store::read::RankedEntry;

use super::Standings;
use super::entries::EntryConnection;
use super::entry::Entry;
use crate::graphql::request::{app, state};
use crate::graphql::types::connection::Page;
use crate::loader::Found;

impl Standings {
    pub(crate) async fn page(
        &self,
        ctx: &Context<'_>,
        page: Page,
        offset: Option<u64>,
    ) -> crate::error::Result<EntryConnection> {
        let app = app(ctx);
        let _reading = state(ctx).loaders.reading();
        match page {
            Page::Forward { limit, after } => {
                let (list, after) = self.resume(app, after.as_deref())?;
                let (mut position, mut entries) = match &after {
                    Some(place) => app.reader.forward(&list.read, place, limit + 2).await?,
                    None => {
                        let offset = offset.unwrap_or(0);
                        let page = app.pages.page_from(&app.reader, &list.read, offset, limit + 2);
                        let (entries, good_until) = page.await?;
                        state(ctx).good_until.limit(good_until);
                        (offset, entries.to_vec())
                    }
                };
                if after.is_some() && entries.first() == after.as_ref() {
                    entries.remove(0);
                    position += 1;
                }
                let has_next = entries.len() > limit;
                entries.truncate(limit);
                Ok(list.connection(entries, position, position > 0, has_next))
            }
            Page::Backward { limit, before } => {
                let (list, before) = self.resume(app, before.as_deref())?;
                let (end, mut entries) =
                    app.reader.backward(&list.read, before.as_ref(), limit + 1).await?;
                let has_previous = entries.len() > limit;
                let entries = entries.split_off(entries.len().saturating_sub(limit));
                let position = end.saturating_sub(entries.len() as u64);
                Ok(list.connection(entries, position, has_previous, before.is_some()))
            }
        }
    }

    pub(crate) async fn entry_of_position(
        &self,
        ctx: &Context<'_>,
        position: u64,
    ) -> crate::error::Result<Option<Entry>> {
        let _reading = state(ctx).loaders.reading();
        let placed = app(ctx).reader.forward_from(&self.read, position, 1).await?;
        Ok(self.entries(placed, position).next())
    }

    pub(crate) fn entries(
        &self,
        placed: Vec<RankedEntry>,
        first: u64,
    ) -> impl Iterator<Item = Entry> {
        let with_position = placed.into_iter().zip(first..);
        with_position.map(|(RankedEntry { key, member }, position)| {
            Entry::new(self.clone(), member, Found { key, position })
        })
    }

    fn connection(
        &self,
        placed: Vec<RankedEntry>,
        first: u64,
        has_previous: bool,
        has_next: bool,
    ) -> EntryConnection {
        EntryConnection { list: self.clone(), placed, first, has_previous, has_next }
    }
}
