//! Members, which boards rank.

pub mod ban;
pub mod boards;
pub mod erasure;
mod existing;
pub mod friend;
pub mod friendship;
pub mod input;
pub mod merge;
pub mod quarantine;
pub mod report;
pub mod search;
pub mod visibility;

use std::sync::Arc;

use async_graphql::connection::Edge;
use async_graphql::{Context, ID, Object, Result, SimpleObject};
use entity::member as row;
use entity::member::merge::target_of;
use ranking::id::MemberId;

use super::board;
use super::event::{EventTotal, ScoreEvent, events_page};
use super::guard::Needs;
use super::member::ban::{MemberBan, bans_of};
use super::member::boards::MemberBoards;
use super::member::search::MemberTotal;
use super::member::visibility::{MemberVisibility, visibility_of};
use super::price::{self, LookUp};
use super::request::{app, state};
use super::sight::{hidden_among, is_hidden, sees_everyone};
use super::standings::entry::Entry;
use super::standings::{Choice, Standings, StandingsOf};
use super::types::connection::{Connection, Page, PageCursor};
use super::types::global_id::GlobalId;
use super::types::scalar::DateTime;
use crate::access::scope::Scope;
use crate::error::Error;

/// The most boards in one field `entries`.
const BOARDS_MAX: usize = 100;

/// An attribute of a member, by which boards may have segments.
#[derive(SimpleObject)]
pub struct MemberAttribute {
    /// The name.
    name: String,
    /// The value.
    value: String,
}

/// A participant that boards rank, such as a player or a team.
#[derive(Clone)]
pub struct Member {
    key: String,
    row: Option<row::Model>,
}

impl Member {
    /// The member of a key that is known to exist. Its row is looked up when a field needs it.
    pub(crate) fn named(key: &str) -> Self {
        Self { key: key.to_owned(), row: None }
    }

    pub(crate) fn of_row(row: row::Model) -> Self {
        Self { key: row.key.clone(), row: Some(row) }
    }

    /// The members of keys, in their order; `None` for keys without a member, and for those that
    /// the client does not see.
    pub(crate) async fn find(
        ctx: &Context<'_>,
        keys: &[String],
    ) -> crate::error::Result<Vec<Option<Self>>> {
        let mut found = Self::existing(ctx, keys).await?;
        for member in &mut found {
            if let Some(key) = member.as_ref().map(|member| member.key.as_str())
                && is_hidden(ctx, key).await
            {
                *member = None;
            }
        }
        Ok(found)
    }

    /// The row; `None` if SQL has none yet or does not answer, or the client does not see the
    /// member.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if the points of the request are spent.
    async fn row(&self, ctx: &Context<'_>) -> crate::error::Result<Option<row::Model>> {
        if is_hidden(ctx, &self.key).await {
            return Ok(None);
        }
        if self.row.is_some() {
            return Ok(self.row.clone());
        }
        price::pay(state(ctx), LookUp::Row(&self.key), price::member_row()).await?;
        Ok(state(ctx).loaders.member(&self.key).await.ok().flatten())
    }

    async fn friends_page(
        &self,
        ctx: &Context<'_>,
        page: Page,
    ) -> crate::error::Result<Connection<Member, MemberTotal>> {
        let _reading = state(ctx).loaders.reading();
        let member = MemberId::new(&self.key)?;
        let is_new = state(ctx).loaders.is_new(&LookUp::Friends(&member));
        state(ctx).spend(if is_new { price::FRIENDS } else { 0 }).await?;
        let (friends, good_until) = state(ctx).loaders.friends(member).await?;
        state(ctx).good_until.limit(good_until);
        if is_new {
            state(ctx).owe(price::friends(friends.len())).await?;
        }
        let sees_everyone = sees_everyone(app(ctx), state(ctx));
        state(ctx).spend(price::friends_passed(friends.len(), sees_everyone)).await?;
        let friends = self.seen_friends(ctx, friends).await?;
        let key_of = |cursor: &String| PageCursor::place::<String>(cursor);
        let part = match &page {
            Page::Forward { limit, after } => {
                let after = after.as_ref().map(key_of).transpose()?;
                let start = after.map_or(0, |after| {
                    friends.partition_point(|friend| friend.as_str() <= after.as_str())
                });
                start..friends.len().min(start + limit)
            }
            Page::Backward { limit, before } => {
                let before = before.as_ref().map(key_of).transpose()?;
                let end = before.map_or(friends.len(), |before| {
                    friends.partition_point(|friend| friend.as_str() < before.as_str())
                });
                end.saturating_sub(*limit)..end
            }
        };
        state(ctx).spend(price::friends_named(part.len())).await?;
        let total = MemberTotal::Counted(friends.len() as u64);
        let mut connection =
            Connection::with_additional_fields(part.start > 0, part.end < friends.len(), total);
        for friend in &friends[part] {
            let cursor = PageCursor::of(&friend.as_str());
            connection.edges.push(Edge::new(cursor, Self::named(friend.as_str())));
        }
        Ok(connection)
    }

    /// Those of the member's friends whom the client sees; none if it does not see the member.
    async fn seen_friends(
        &self,
        ctx: &Context<'_>,
        friends: Arc<[MemberId]>,
    ) -> crate::error::Result<Arc<[MemberId]>> {
        if sees_everyone(app(ctx), state(ctx)) {
            return Ok(friends);
        }
        if is_hidden(ctx, &self.key).await {
            return Ok(Arc::new([]));
        }
        let keys = friends.iter().map(MemberId::as_str);
        let hidden = hidden_among(app(ctx), state(ctx), keys).await;
        let seen = friends.iter().zip(hidden).filter(|(_, hidden)| !hidden);
        Ok(seen.map(|(friend, _)| friend.clone()).collect())
    }

    async fn entry_in(
        &self,
        ctx: &Context<'_>,
        slug: &str,
        choice: Choice,
    ) -> crate::error::Result<Option<Entry>> {
        let Some(board) = board::find(app(ctx), state(ctx), slug).await? else {
            return Ok(None);
        };
        let standings = Standings::choose(ctx, &board, choice).await?;
        standings.seen_entry_of(ctx, MemberId::new(&self.key)?).await
    }
}

/// A participant that boards rank, such as a player or a team.
#[Object]
impl Member {
    /// The global id: "member:<key>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Member(self.key.clone()).to_text().into()
    }

    /// The id that the client gave the member: 1 to 128 bytes, no control characters.
    async fn key(&self) -> &str {
        &self.key
    }

    /// The display name; the key until `upsertMembers` sets a name.
    async fn name(&self, ctx: &Context<'_>) -> Result<String> {
        let name = self.row(ctx).await?.and_then(|row| row.name);
        Ok(name.unwrap_or_else(|| self.key.clone()))
    }

    /// The region; null until `upsertMembers` sets one.
    async fn region(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.row(ctx).await?.and_then(|row| row.region))
    }

    /// The attributes besides the region, ordered by name; none until `upsertMembers` sets some.
    async fn attributes(&self, ctx: &Context<'_>) -> Result<Vec<MemberAttribute>> {
        let row = self.row(ctx).await?;
        let attributes = row.map(|row| row.other_attributes()).unwrap_or_default();
        Ok(attributes.into_iter().map(|(name, value)| MemberAttribute { name, value }).collect())
    }

    /// The address of a picture of the member; null until `upsertMembers` sets one.
    async fn avatar_url(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.row(ctx).await?.and_then(|row| row.avatar_url))
    }

    /// The visibility to others, which `setVisibility` sets; public at first. Hidden for a client
    /// that does not see the member.
    async fn visibility(&self, ctx: &Context<'_>) -> Result<MemberVisibility> {
        Ok(visibility_of(ctx, &self.key).await?)
    }

    /// The time of creation; null for a moment after the first score of the member.
    async fn created_at(&self, ctx: &Context<'_>) -> Result<Option<DateTime>> {
        Ok(self.row(ctx).await?.map(|row| DateTime(row.created_at_ms)))
    }

    /// The member that this one was merged into; null if it was not.
    async fn merged_into(&self, ctx: &Context<'_>) -> Result<Option<Member>> {
        state(ctx).spend(price::select(1)).await?;
        let target = target_of(&app(ctx).deployment.reads, &self.key).await;
        let target: Vec<String> = target.map_err(Error::from)?.into_iter().collect();
        Ok(Box::pin(Member::find(ctx, &target)).await?.pop().flatten())
    }

    /// The bans of the member, that from all boards first; at most 101. Needs scope moderate.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Moderate)")]
    async fn bans(&self, ctx: &Context<'_>) -> Result<Option<Vec<MemberBan>>> {
        Ok(Some(Box::pin(bans_of(ctx, &self.key)).await?))
    }

    /// The member's friends whom the client sees, ordered by key. For the member's own token and
    /// services of scope friends, unless `LAUREL_MEMBERS` is public.
    #[graphql(guard = "Needs::FriendsOf(&self.key)")]
    async fn friends(
        &self,
        ctx: &Context<'_>,
        #[graphql(default = 10, desc = "The number of items from the front, at most 1,000.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the back, at most 1,000; instead of `first`.")]
        last: Option<i32>,
        #[graphql(desc = "Only items before this page cursor.")] before: Option<String>,
    ) -> Result<Option<Connection<Member, MemberTotal>>> {
        let page = Page::new(first, after, last, before)?;
        Ok(Some(Box::pin(self.friends_page(ctx, page)).await?))
    }

    /// The members who ask this one for its friendship, ordered by key, if `LAUREL_FRIENDSHIPS` is
    /// mutual-consent; `addFriend` accepts, and `removeFriend` declines. For the member's own token
    /// and services of scope friends.
    #[graphql(guard = "Needs::FriendRequestsOf(&self.key)")]
    async fn friend_requests(
        &self,
        ctx: &Context<'_>,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<Member, MemberTotal>>> {
        let page = friendship::requests_page(ctx, &self.key, first, after.as_deref());
        Ok(Some(Box::pin(page).await?))
    }

    /// The boards on which the member has an entry in "all", oldest board first. A board is listed
    /// a moment after the member's first score there.
    async fn boards(
        &self,
        ctx: &Context<'_>,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<MemberBoards>> {
        Ok(Some(Box::pin(boards::page(ctx, &self.key, first, after.as_deref())).await?))
    }

    /// The member's history on a board, newest first. An event is listed a moment after it was
    /// accepted. Null if there is no such board. For the member's own token and those of scope
    /// moderate, unless `LAUREL_MEMBERS` is public.
    #[graphql(guard = "Needs::HistoryOf(&self.key)")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board's slug.")] board: String,
        #[graphql(default = 10, desc = "The number of items from the front, at most 1,000.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the back, at most 1,000; instead of `first`.")]
        last: Option<i32>,
        #[graphql(desc = "Only items before this page cursor.")] before: Option<String>,
    ) -> Result<Option<Connection<ScoreEvent, EventTotal>>> {
        let page = Page::new(first, after, last, before)?;
        Ok(Box::pin(events_page(ctx, &board, &self.key, page)).await?)
    }

    /// The member's entry on a board; null if there is no such board, or if the member is not in
    /// these standings.
    async fn entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board's slug.")] board: String,
        #[graphql(desc = "The standings; everyone in \"all\" by default.")] of: Option<StandingsOf>,
    ) -> Result<Option<Entry>> {
        state(ctx).spend(price::ENTRY_ELSEWHERE).await?;
        Ok(Box::pin(self.entry_in(ctx, &board, of.into())).await?)
    }

    /// The member's entries on several boards, at most 100, in the order of `boards`; see `entry`.
    async fn entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The boards' slugs.")] boards: Vec<String>,
        #[graphql(desc = "The standings of each board; everyone in \"all\" by default.")]
        of: Option<StandingsOf>,
    ) -> Result<Option<Vec<Option<Entry>>>> {
        if boards.len() > BOARDS_MAX {
            return Err(Error::limit_exceeded(format!(
                "{} boards requested: expected at most {BOARDS_MAX}",
                boards.len()
            ))
            .at("boards")
            .into());
        }
        let choice = Choice::from(of);
        state(ctx).spend(boards.len() as u64 * price::ENTRY_ELSEWHERE).await?;
        let entries = boards.iter().map(|board| self.entry_in(ctx, board, choice.clone()));
        Ok(Some(Box::pin(futures::future::try_join_all(entries)).await?))
    }
}
