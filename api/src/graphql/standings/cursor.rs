//! Page cursors of standings: their making, and the place where a page continues.
//!
//! A cursor names an entry by its key and its member. Where the client does not see the member, it
//! has the sealed key of it instead. A client could also write cursors of its own, to learn between
//! which members an anonymous entry of a known key lies. So as long as a member is hidden from it,
//! a cursor counts only if its entry is there; else the page continues beside all entries with that
//! key.

use async_graphql::Context;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::store::read::RankedEntry;

use super::Standings;
use crate::error::Result;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::sight::{is_hidden, sees_everyone};
use crate::graphql::types::connection::{EntryCursor, PageCursor, no_cursor};

/// The side of a cursor on which the page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Behind it.
    After,
    /// Ahead of it.
    Before,
}

impl Side {
    /// A place from which the page has all entries of the key.
    fn end_of(self, key: RankKey) -> Result<RankedEntry> {
        let member = match self {
            // No member sorts before a space, and none behind as many of the last character.
            Self::After => " ".to_owned(),
            Self::Before => "\u{10FFFF}".repeat(32),
        };
        Ok(RankedEntry { key, member: MemberId::new(&member)? })
    }
}

impl Standings {
    /// The page cursor of an entry. It hides a member that the client does not see.
    pub(crate) async fn cursor_of(
        &self,
        ctx: &Context<'_>,
        key: RankKey,
        member: &MemberId,
    ) -> PageCursor {
        let id = &self.read.id;
        let cursor = match is_hidden(ctx, member.as_str()).await {
            true => {
                let sealed = app(ctx).visibilities.sealing().seal(id, member);
                EntryCursor::sealed(id, Some(key), &sealed)
            }
            false => EntryCursor::new(id, Some(key), member),
        };
        cursor.encode()
    }

    /// The place of a page cursor, if there is one, and the standings in which the page continues.
    pub(crate) async fn resume(
        &self,
        ctx: &Context<'_>,
        cursor: Option<&str>,
        side: Side,
    ) -> Result<(Self, Option<RankedEntry>)> {
        let Some(text) = cursor else {
            return Ok((self.clone(), None));
        };
        let (list, cursor) = self.list_of(app(ctx), text)?;
        price::pay_fold(ctx, &list.read).await?;
        if let Some(seal) = cursor.seal() {
            let member = app(ctx).visibilities.sealing().open(&list.read.id, seal);
            let cursor = cursor.opened(&member.ok_or_else(|| no_cursor(text))?);
            return Ok((list, Some(cursor.place()?)));
        }
        let place = cursor.place()?;
        if sees_everyone(app(ctx), state(ctx)) {
            return Ok((list, Some(place)));
        }
        let place = match Box::pin(list.has(ctx, &place)).await? {
            true => place,
            false => side.end_of(place.key)?,
        };
        Ok((list, Some(place)))
    }

    /// True if a place is that of an entry whose member the client sees. It is a read of its own,
    /// as the page that it is for has begun, and holds up the loaders.
    async fn has(&self, ctx: &Context<'_>, place: &RankedEntry) -> Result<bool> {
        state(ctx).spend(price::entries(&self.read, 1)).await?;
        let members = [place.member.clone()];
        let keys = app(ctx).reader().rank_keys(&self.read, &members);
        let keys = state(ctx).loaders.read(keys).await?;
        let is_there = keys.first().copied().flatten() == Some(place.key);
        Ok(is_there && !is_hidden(ctx, place.member.as_str()).await)
    }
}
