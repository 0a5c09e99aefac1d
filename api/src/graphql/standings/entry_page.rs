//! Pages of entries, and single ones.

use std::ops::Range;
use std::sync::Arc;

use async_graphql::Context;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::store::read::RankedEntry;
use tokio::time::Instant;

use super::cursor::Side;
use super::entries::EntryConnection;
use super::entry::Entry;
use super::score_range::ScoreRange;
use super::{Read, Standings};
use crate::graphql::price::{self, LookUp};
use crate::graphql::request::{app, state};
use crate::graphql::sight::is_hidden;
use crate::graphql::types::connection::Page;
use crate::loader::{Bound, Found, Place};

impl Standings {
    pub(crate) async fn page(
        &self,
        ctx: &Context<'_>,
        page: Page,
        offset: Option<u64>,
    ) -> crate::error::Result<EntryConnection> {
        let (app, state) = (app(ctx), state(ctx));
        let _reading = state.loaders.reading();
        match page {
            Page::Forward { limit, after } => {
                let (list, after) = self.resume(ctx, after.as_deref(), Side::After).await?;
                let (position, read): (u64, Arc<[RankedEntry]>) = match &after {
                    Some(place) => {
                        state.spend(price::page(app, &list.read, limit)).await?;
                        let page = app.reader().forward(&list.read, place, limit + 2);
                        let page = state.loaders.read(page);
                        let scanned = price::scanned(ctx, &list.read, page, |page| page.0);
                        let (position, read) = scanned.await?;
                        (position, read.into())
                    }
                    None => {
                        let offset = offset.unwrap_or(0);
                        let (read, good_until) = list.page_at(ctx, offset, limit + 2).await?;
                        state.good_until.limit(good_until);
                        (offset, read)
                    }
                };
                let start = usize::from(after.is_some() && read.first() == after.as_ref());
                let shown = start..read.len().min(start + limit);
                let has_next = read.len() > shown.end;
                let position = position + start as u64;
                Ok(list.connection((read, shown), position, position > 0, has_next))
            }
            Page::Backward { limit, before } => {
                let (list, before) = self.resume(ctx, before.as_deref(), Side::Before).await?;
                state.spend(price::page(app, &list.read, limit)).await?;
                let page = app.reader().backward(&list.read, before.as_ref(), limit + 1);
                let page = state.loaders.read(page);
                let (end, read) = price::scanned(ctx, &list.read, page, |page| page.0).await?;
                let shown = read.len().saturating_sub(limit)..read.len();
                let has_previous = shown.start > 0;
                let position = end.saturating_sub(shown.len() as u64);
                let page = (read.into(), shown);
                Ok(list.connection(page, position, has_previous, before.is_some()))
            }
        }
    }

    pub(crate) async fn entry_of_position(
        &self,
        ctx: &Context<'_>,
        position: u64,
    ) -> crate::error::Result<Option<Entry>> {
        let _reading = state(ctx).loaders.reading();
        let (placed, _) = self.page_at(ctx, position, 1).await?;
        Ok(self.entries(placed.to_vec(), position).next())
    }

    /// The number of entries, by the loader of the request.
    pub(crate) async fn count(&self, ctx: &Context<'_>) -> crate::error::Result<u64> {
        price::pay(state(ctx), LookUp::Size(&self.read.id), price::size(app(ctx), &self.read))
            .await?;
        state(ctx).loaders.count(Bound { standings: self.read.clone(), key: None }).await
    }

    /// Up to `limit` entries from a position on, by the loader of the request.
    pub(crate) async fn page_at(
        &self,
        ctx: &Context<'_>,
        position: u64,
        limit: usize,
    ) -> crate::error::Result<(Arc<[RankedEntry]>, Instant)> {
        let price = price::page_at(app(ctx), &self.read, position, limit);
        price::pay(state(ctx), LookUp::Page(&self.read.id, position, limit), price).await?;
        state(ctx).loaders.page(&self.read, position, limit).await
    }

    /// A member's entry, if the client sees the member.
    pub(crate) async fn seen_entry_of(
        &self,
        ctx: &Context<'_>,
        member: MemberId,
    ) -> crate::error::Result<Option<Entry>> {
        let is_hidden = is_hidden(ctx, member.as_str()).await;
        let found = find(ctx, &self.read, &member, is_hidden).await?;
        Ok(found.map(|found| Entry::new(self.clone(), member, found)))
    }

    /// A member's entry, by the loader of the request.
    pub(crate) async fn entry_of(
        &self,
        ctx: &Context<'_>,
        member: MemberId,
    ) -> crate::error::Result<Option<Entry>> {
        let found = find(ctx, &self.read, &member, false).await?;
        Ok(found.map(|found| Entry::new(self.clone(), member, found)))
    }

    /// The entries around a member, its own included, by the loader of the request.
    pub(crate) async fn around(
        &self,
        ctx: &Context<'_>,
        member: MemberId,
        above: usize,
        below: usize,
    ) -> crate::error::Result<Vec<Entry>> {
        let _reading = state(ctx).loaders.reading();
        let price = price::around(app(ctx), &self.read, above + below);
        let look_up = LookUp::Around(&self.read.id, &member, above, below);
        let is_new = price::pay(state(ctx), look_up, price).await?;
        if is_hidden(ctx, member.as_str()).await {
            return Ok(vec![]);
        }
        let around = state(ctx).loaders.around(&self.read, member, above, below);
        let around = match is_new {
            true => {
                let first = |around: &Option<_>| around.as_ref().map_or(0, |(first, _)| *first);
                price::scanned(ctx, &self.read, around, first).await?
            }
            false => around.await?,
        };
        let Some((first, placed)) = around else { return Ok(vec![]) };
        Ok(self.entries(placed.to_vec(), first).collect())
    }

    /// The number of entries before the place of a key and a member, there or not.
    pub(crate) async fn position_of(
        &self,
        ctx: &Context<'_>,
        key: RankKey,
        member: &MemberId,
    ) -> crate::error::Result<u64> {
        let _reading = state(ctx).loaders.reading();
        state(ctx).spend(price::page(app(ctx), &self.read, 1)).await?;
        let place = RankedEntry { key, member: member.clone() };
        let page = state(ctx).loaders.read(app(ctx).reader().forward(&self.read, &place, 1));
        let (position, _) = price::scanned(ctx, &self.read, page, |page| page.0).await?;
        Ok(position)
    }

    /// As [`Self::around`], and where one end of the standings is near, more entries of the other
    /// side instead.
    pub(crate) async fn around_filled(
        &self,
        ctx: &Context<'_>,
        member: MemberId,
        above: usize,
        below: usize,
    ) -> crate::error::Result<Vec<Entry>> {
        let around = self.around(ctx, member.clone(), above, below).await?;
        let Some(own) = around.iter().position(|entry| entry.member_key() == member.as_str())
        else {
            return Ok(around);
        };
        let missing = [above - own.min(above), below - (around.len() - 1 - own).min(below)];
        match missing {
            [0, 0] => Ok(around),
            [more_below, more_above] => {
                self.around(ctx, member, above + more_above, below + more_below).await
            }
        }
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

    /// A page of entries that were read; those at some places are shown.
    pub(crate) fn connection(
        &self,
        (read, shown): (Arc<[RankedEntry]>, Range<usize>),
        first: u64,
        has_previous: bool,
        has_next: bool,
    ) -> EntryConnection {
        let range = ScoreRange::default();
        EntryConnection { list: self.clone(), read, shown, first, has_previous, has_next, range }
    }
}

/// A member's place in standings, by the loader of the request. One that the client does not see
/// costs as much as one that there is not.
pub(super) async fn find(
    ctx: &Context<'_>,
    read: &Arc<Read>,
    member: &MemberId,
    is_hidden: bool,
) -> crate::error::Result<Option<Found>> {
    price::pay(state(ctx), LookUp::Entry(&read.id, member), price::entries(read, 1)).await?;
    let place = Place { standings: read.clone(), key: member.clone() };
    let finding = async {
        match is_hidden {
            true => Ok(None),
            false => state(ctx).loaders.entry(place).await,
        }
    };
    let position = |found: &Option<Found>| found.as_ref().map_or(0, |found| found.position);
    price::counted(ctx, read, finding, position).await
}

/// All of some entries, as a page.
pub(crate) fn whole(entries: Vec<RankedEntry>) -> (Arc<[RankedEntry]>, Range<usize>) {
    let all = 0..entries.len();
    (entries.into(), all)
}
