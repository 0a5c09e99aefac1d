//! The friends of a member, and their ranking.

use async_graphql::connection::PageInfo;
use async_graphql::{Context, Object, Result, SimpleObject};
use entity::member;
use ranking::id::MemberId;
use ranking::shown;
use ranking::store::read::RankedEntry;

use super::Member;
use crate::access::Scope;
use crate::error::{Error, ErrorCode};
use crate::graphql::price::{self, LookUp};
use crate::graphql::request::{app, state};
use crate::graphql::standings::Standings;
use crate::graphql::standings::entry::Entry;
use crate::graphql::types::connection::{EntryCursor, limit};
use crate::graphql::types::scalar::int;
use crate::loader::friends::FriendPlace as Place;
use crate::loader::{self, Found};

/// An entry in the ranking of a member's friends.
#[derive(SimpleObject)]
pub struct FriendEntry {
    /// The position among the friends, from 1.
    position: i32,
    /// The entry, with its rank among all members.
    entry: Entry,
    /// True for the member whose friends these are.
    is_self: bool,
}

/// An edge in a page of friends.
#[derive(SimpleObject)]
pub struct FriendEntryEdge {
    /// The page cursor.
    cursor: String,
    /// The entry.
    node: FriendEntry,
}

/// A page of friends in rank order.
pub struct FriendEntryConnection {
    edges: Vec<FriendEntryEdge>,
    missing: Vec<Member>,
    page_info: PageInfo,
    total: usize,
}

/// The result of `addFriend` and `removeFriend`.
#[derive(SimpleObject)]
pub struct FriendPayload {
    /// The member.
    member: Member,
    /// The friend.
    friend: Member,
}

/// A page of friends in rank order.
#[Object]
impl FriendEntryConnection {
    /// Information about this page. With `includeMissing`, its cursors count friends without a
    /// score too.
    async fn page_info(&self) -> &PageInfo {
        &self.page_info
    }

    /// The entries with their cursors.
    async fn edges(&self) -> &[FriendEntryEdge] {
        &self.edges
    }

    /// The entries.
    async fn nodes(&self) -> Vec<&FriendEntry> {
        self.edges.iter().map(|edge| &edge.node).collect()
    }

    /// The friends of this page that have no score in these standings, ordered by key. They come
    /// after all friends that have one. Empty unless `includeMissing` is true.
    async fn missing(&self) -> &[Member] {
        &self.missing
    }

    /// The number of friends on all pages; with `includeMissing`, those without a score too.
    async fn total_count(&self) -> Result<i32> {
        Ok(int(self.total as u64)?)
    }
}

/// The arguments of a page of friends.
pub(crate) struct FriendsPage {
    pub(crate) first: Option<i32>,
    pub(crate) after: Option<String>,
    pub(crate) include_self: bool,
    pub(crate) include_missing: bool,
}

/// A page of a member's friends in standings, of the ranking that the request's loader finds; one
/// pipeline counts the ranks of the page.
pub(crate) async fn friends_page(
    ctx: &Context<'_>,
    standings: &Standings,
    member: &str,
    page: FriendsPage,
) -> crate::error::Result<FriendEntryConnection> {
    let _reading = state(ctx).loaders.reading();
    let app = app(ctx);
    let member = MemberId::new(member)?;
    let limit = limit("first", page.first)?;
    let (list, after) = match &page.after {
        Some(cursor) => {
            let (list, cursor) = standings.list_of(app, cursor)?;
            (list, Some(place_of(&cursor)?))
        }
        None => (standings.clone(), None),
    };
    let look_up = LookUp::FriendRanking(&list.read.id, &member);
    let is_new = state(ctx).loaders.is_new(&look_up);
    state(ctx).spend(if is_new { price::FRIENDS } else { 0 })?;
    let of = loader::Place { standings: list.read.clone(), key: member.clone() };
    let (all, good_until) = state(ctx).loaders.ranking(of).await?;
    state(ctx).good_until.limit(good_until);
    let friends = if is_new { price::friend_ranking(&list.read, all.len()) } else { 0 };
    state(ctx).spend(friends + price::entries(&list.read, limit.min(all.len())))?;
    let is_wanted = |place: &&Place| {
        (page.include_missing || place.ranked().is_some())
            && (page.include_self || *place.member() != member)
    };
    let places: Vec<&Place> = all.iter().filter(is_wanted).collect();
    let start = after.map_or(0, |after| places.partition_point(|place| **place <= after));
    let total = places.len();
    let page = &places[start..total.min(start + limit)];
    let mut connection = FriendEntryConnection {
        edges: vec![],
        missing: vec![],
        page_info: PageInfo {
            has_previous_page: start > 0,
            has_next_page: start + page.len() < total,
            start_cursor: page.first().map(|place| cursor_of(&list, place)),
            end_cursor: page.last().map(|place| cursor_of(&list, place)),
        },
        total,
    };
    let mut positions = positions_of(ctx, &list, page).await?.into_iter();
    for (place, position_of_friend) in page.iter().zip(start as u64 + 1..) {
        let placed = match place {
            Place::Ranked(placed) => placed,
            Place::Missing(member) => {
                connection.missing.push(Member::named(member.as_str()));
                continue;
            }
        };
        // A friend that left the standings between the two reads is on no page.
        let Some(position) = positions.next().flatten() else {
            continue;
        };
        let found = Found { key: placed.key, position };
        let node = FriendEntry {
            position: int(position_of_friend)?,
            is_self: placed.member == member,
            entry: Entry::new(list.clone(), placed.member.clone(), found),
        };
        connection.edges.push(FriendEntryEdge { cursor: cursor_of(&list, place), node });
    }
    Ok(connection)
}

/// The positions of the entries on a page among all members, in order; `None` for one that has
/// left since.
async fn positions_of(
    ctx: &Context<'_>,
    list: &Standings,
    page: &[&Place],
) -> crate::error::Result<Vec<Option<u64>>> {
    let ranked: Vec<RankedEntry> =
        page.iter().filter_map(|place| place.ranked()).cloned().collect();
    let positions = app(ctx).reader.positions(&list.read, &ranked);
    let positions = state(ctx).loaders.read(positions).await?;
    let deepest = positions.iter().flatten().max().copied().unwrap_or(0);
    price::pay_position(ctx, &list.read, deepest)?;
    Ok(positions)
}

fn place_of(cursor: &EntryCursor) -> crate::error::Result<Place> {
    Ok(match cursor.without_score()? {
        Some(member) => Place::Missing(member),
        None => Place::Ranked(cursor.place()?),
    })
}

fn cursor_of(list: &Standings, place: &Place) -> String {
    let (key, member) = match place {
        Place::Ranked(placed) => (Some(placed.key), &placed.member),
        Place::Missing(member) => (None, member),
    };
    EntryCursor::new(&list.read.id, key, member).encode().0
}

/// Makes two members friends.
pub(crate) async fn add_friend(
    ctx: &Context<'_>,
    member: &str,
    friend: &str,
) -> crate::error::Result<FriendPayload> {
    let ([a, b], payload) = both(ctx, member, friend).await?;
    let app = app(ctx);
    for key in [&a, &b] {
        // A member whose first score came a moment ago may have no row yet.
        member::insert_missing(&app.deployment.db, key.as_str(), app.deployment.clock.now_ms())
            .await?;
    }
    app.friends.add(&app.deployment, &a, &b).await?;
    state(ctx).loaders.clear().await;
    Ok(payload)
}

/// Ends a friendship.
pub(crate) async fn remove_friend(
    ctx: &Context<'_>,
    member: &str,
    friend: &str,
) -> crate::error::Result<FriendPayload> {
    let ([a, b], payload) = both(ctx, member, friend).await?;
    let app = app(ctx);
    app.friends.remove(&app.deployment.db, &a, &b).await?;
    state(ctx).loaders.clear().await;
    Ok(payload)
}

/// Checks that the client may change this friendship, and that it is between two members.
async fn both(
    ctx: &Context<'_>,
    member: &str,
    friend: &str,
) -> crate::error::Result<([MemberId; 2], FriendPayload)> {
    let principal = state(ctx).require(Scope::Submit)?;
    if let Some(own) = principal.member.as_deref().filter(|own| *own != member) {
        return Err(Error::forbidden(format!(
            "this access token may change friendships of {own} only"
        )));
    }
    let ids = [MemberId::new(member)?, MemberId::new(friend)?];
    if ids[0] == ids[1] {
        return Err(Error::bad_input("a member cannot be its own friend: expected two members"));
    }
    let keys = ids.each_ref().map(ToString::to_string);
    let found = Member::find(ctx, &keys).await?;
    let mut found = keys.iter().zip(found).map(|(key, member)| {
        let unknown = || {
            Error::new(
                ErrorCode::NotFound,
                format!(
                    "there is no member {}; upsertMembers or a first score creates it",
                    shown(key)
                ),
            )
        };
        member.ok_or_else(unknown)
    });
    let mut next = || found.next().unwrap_or_else(|| Err(Error::bad_input("expected two members")));
    let payload = FriendPayload { member: next()?, friend: next()? };
    Ok((ids, payload))
}
