//! The friends of a member in standings.

use std::iter;
use std::sync::Arc;

use async_graphql::connection::Edge;
use async_graphql::{Context, ID, Object, Result, SelectionField, SimpleObject};
use ranking::id::MemberId;
use ranking::store::read::RankedEntry;

use super::Member;
use crate::error::Error;
use crate::graphql::guard::Needs;
use crate::graphql::price::{self, LookUp};
use crate::graphql::request::{app, state};
use crate::graphql::sight::{hidden_among, is_hidden, sees_everyone};
use crate::graphql::standings::entry::Entry;
use crate::graphql::standings::{Standings, member_id};
use crate::graphql::types::connection::{Connection, EntryCursor, PageCursor, limit};
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::int;
use crate::loader::friends::FriendPlace as Place;
use crate::loader::{self, Found};

/// A friend of a member in standings, or the member itself.
#[derive(SimpleObject)]
pub struct FriendEntry {
    /// The global id: "friendEntry:<slug>.<number>:<window>:<period>:<segment>:<member>:<friend>".
    #[graphql(owned)]
    pub(crate) id: ID,
    /// The position among the member and its friends, from 1; null without an entry.
    position: Option<i32>,
    /// The friend.
    member: Member,
    /// The friend's entry, with its rank among all members; null if the friend is not in these
    /// standings.
    entry: Option<Entry>,
    /// True for the member whose friends these are.
    is_self: bool,
}

/// The total of a connection of friends.
pub struct FriendTotal(usize);

#[Object]
impl FriendTotal {
    /// The number of friends on all pages; with `includeMissing`, those without an entry too.
    async fn total_count(&self) -> Result<i32> {
        Ok(int(self.0 as u64)?)
    }
}

/// The arguments of a page of friends.
pub(crate) struct FriendsPage {
    pub(crate) first: Option<i32>,
    pub(crate) after: Option<String>,
    pub(crate) around: bool,
    pub(crate) include_self: bool,
    pub(crate) include_missing: bool,
}

/// The ranking of a member and its friends, of whom the client may see some.
struct Seen {
    all: Arc<[Place]>,
    /// True for each place that is hidden from the client; empty if none is.
    hidden: Vec<bool>,
}

impl Seen {
    /// The places that the client sees, each with its position among them, from 1.
    fn places(&self) -> impl Iterator<Item = (u64, &Place)> {
        let hidden = self.hidden.iter().copied().chain(iter::repeat(false));
        let seen = self.all.iter().zip(hidden).filter(|(_, hidden)| !hidden);
        (1..).zip(seen.map(|(place, _)| place))
    }
}

/// A page of a member's friends in standings, of the ranking that the request's loader finds; one
/// pipeline counts the ranks of the page.
pub(crate) async fn friends_page(
    ctx: &Context<'_>,
    standings: &Standings,
    member: &str,
    page: FriendsPage,
) -> crate::error::Result<Connection<FriendEntry, FriendTotal>> {
    let _reading = state(ctx).loaders.reading();
    let member = member_id("member", member)?;
    let limit = limit("first", page.first)?;
    if page.around && page.after.is_some() {
        let message = "both after and around are given: expected one of them";
        return Err(Error::bad_input(message).at("around"));
    }
    let (list, after) = match &page.after {
        Some(cursor) => {
            let (list, cursor) = standings.list_of(app(ctx), cursor)?;
            price::pay_fold(ctx, &list.read).await?;
            (list, Some(place_of(&cursor)?))
        }
        None => (standings.clone(), None),
    };
    let seen = seen_ranking(ctx, &list, &member).await?;
    state(ctx).spend(price::entries(&list.read, limit.min(seen.all.len()))).await?;
    let is_wanted = |(_, place): &(u64, &Place)| {
        (page.include_missing || place.ranked().is_some())
            && (page.include_self || *place.member() != member)
    };
    let places = || seen.places().filter(is_wanted);
    let total = places().count();
    let before = |own: &Place| places().take_while(|(_, place)| *place < own).count();
    let start = match after {
        Some(after) => places().take_while(|(_, place)| **place <= after).count(),
        None if page.around => {
            let own = seen.all.iter().find(|place| *place.member() == member);
            own.map_or(0, before).saturating_sub(limit / 2).min(total.saturating_sub(limit))
        }
        None => 0,
    };
    let end = total.min(start + limit);
    // Only the page, as many fields may wait for their friends' positions.
    let nodes: Vec<(u64, &Place)> = places().skip(start).take(limit).collect();
    let (list_bytes, own_bytes) = (list.id_bytes(), member.as_str().len());
    let id_bytes =
        |(_, place): &(u64, &Place)| list_bytes + 3 * (own_bytes + place.member().as_str().len());
    price::pay_texts(ctx, nodes.iter().map(id_bytes).sum()).await?;
    // A request may ask for very many pages and read their totals alone.
    let are_read =
        |field: SelectionField<'_>| ["nodes", "edges", "pageInfo"].contains(&field.name());
    let nodes = match ctx.field().selection_set().any(are_read) {
        true => friends(ctx, &list, &member, &nodes).await?,
        false => vec![],
    };
    let mut connection =
        Connection::with_additional_fields(start > 0, end < total, FriendTotal(total));
    connection.edges.extend(nodes.into_iter().map(|(cursor, node)| Edge::new(cursor, node)));
    Ok(connection)
}

/// A friend of a member in standings, or the member itself; `None` if it is neither.
pub(crate) async fn find(
    ctx: &Context<'_>,
    standings: &Standings,
    member: &str,
    friend: &str,
) -> crate::error::Result<Option<FriendEntry>> {
    Needs::FriendsOf(member).met(ctx)?;
    let _reading = state(ctx).loaders.reading();
    let member = MemberId::new(member)?;
    let seen = seen_ranking(ctx, standings, &member).await?;
    state(ctx).spend(price::entries(&standings.read, 1)).await?;
    let place = seen.places().find(|(_, place)| place.member().as_str() == friend);
    let found = friends(ctx, standings, &member, place.as_slice()).await?;
    Ok(found.into_iter().next().map(|(_, friend)| friend))
}

/// The ranking of a member and its friends whom the client sees, in order; without an entry if it
/// does not see the member.
async fn seen_ranking(
    ctx: &Context<'_>,
    list: &Standings,
    member: &MemberId,
) -> crate::error::Result<Seen> {
    if is_hidden(ctx, member.as_str()).await {
        // As for a member without friends.
        let look_up = LookUp::FriendRanking(&list.read.id, member);
        if state(ctx).loaders.is_new(&look_up) {
            state(ctx).spend(price::FRIENDS + price::friend_ranking(&list.read, 1)).await?;
        }
        return Ok(Seen { all: Arc::new([Place::Missing(member.clone())]), hidden: vec![] });
    }
    let all = ranking(ctx, list, member).await?;
    let sees_everyone = sees_everyone(app(ctx), state(ctx));
    state(ctx).spend(price::friends_passed(all.len(), sees_everyone)).await?;
    let keys = all.iter().map(|place| place.member().as_str());
    let hidden = match sees_everyone {
        true => vec![],
        false => hidden_among(app(ctx), state(ctx), keys).await,
    };
    Ok(Seen { all, hidden })
}

/// The ranking of a member and its friends, in order.
async fn ranking(
    ctx: &Context<'_>,
    list: &Standings,
    member: &MemberId,
) -> crate::error::Result<Arc<[Place]>> {
    let is_new = state(ctx).loaders.is_new(&LookUp::FriendRanking(&list.read.id, member));
    state(ctx).spend(if is_new { price::FRIENDS } else { 0 }).await?;
    let of = loader::Place { standings: list.read.clone(), key: member.clone() };
    let (all, good_until) = state(ctx).loaders.ranking(of).await?;
    state(ctx).good_until.limit(good_until);
    state(ctx).owe(if is_new { price::friend_ranking(&list.read, all.len()) } else { 0 }).await?;
    Ok(all)
}

/// The friends at places of the ranking, each with its page cursor. A friend that left the
/// standings between the two reads is left out.
async fn friends(
    ctx: &Context<'_>,
    list: &Standings,
    member: &MemberId,
    places: &[(u64, &Place)],
) -> crate::error::Result<Vec<(PageCursor, FriendEntry)>> {
    let page: Vec<&Place> = places.iter().map(|(_, place)| *place).collect();
    let mut positions = positions_of(ctx, list, &page).await?.into_iter();
    let mut nodes = vec![];
    for (position, place) in places {
        let friend = place.member();
        let entry = match place {
            Place::Ranked(RankedEntry { key, .. }) => {
                let Some(among_all) = positions.next().flatten() else {
                    continue;
                };
                Some(Entry::new(
                    list.clone(),
                    friend.clone(),
                    Found { key: *key, position: among_all },
                ))
            }
            Place::Missing(_) => None,
        };
        let id = GlobalId::FriendEntry(list.name(), member.to_string(), friend.to_string());
        let node = FriendEntry {
            id: id.to_text().into(),
            position: entry.is_some().then(|| int(*position)).transpose()?,
            member: Member::named(friend.as_str()),
            entry,
            is_self: friend == member,
        };
        nodes.push((cursor_of(list, place), node));
    }
    Ok(nodes)
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
    let positions = app(ctx).reader().positions(&list.read, &ranked);
    let positions = state(ctx).loaders.read(positions);
    // One scan finds all of them.
    let deepest =
        |positions: &Vec<Option<u64>>| positions.iter().flatten().max().copied().unwrap_or(0);
    price::scanned(ctx, &list.read, positions, deepest).await
}

fn place_of(cursor: &EntryCursor) -> crate::error::Result<Place> {
    Ok(match cursor.without_score()? {
        Some(member) => Place::Missing(member),
        None => Place::Ranked(cursor.place()?),
    })
}

fn cursor_of(list: &Standings, place: &Place) -> PageCursor {
    let (key, member) = match place {
        Place::Ranked(placed) => (Some(placed.key), &placed.member),
        Place::Missing(member) => (None, member),
    };
    EntryCursor::new(&list.read.id, key, member).encode()
}
