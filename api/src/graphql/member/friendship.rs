//! Friendships: asked for, made and ended.

use async_graphql::connection::Edge;
use async_graphql::{Context, Enum, InputObject, SimpleObject};
use engine::settings::Friendships;
use entity::member::{self, friend_request, friendship};
use ranking::id::MemberId;

use super::Member;
use super::merge::check_unmerged;
use super::search::MemberTotal;
use super::visibility::no_member;
use crate::access::scope::Scope;
use crate::error::Error;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::sight::is_hidden;
use crate::graphql::standings::member_id;
use crate::graphql::types::connection::{Connection, PageCursor, limit, no_cursor};

/// The two members to make friends.
#[derive(InputObject)]
pub struct AddFriendInput {
    /// The member's key.
    member: String,
    /// The friend's key.
    friend: String,
}

/// The two members whose friendship ends.
#[derive(InputObject)]
pub struct RemoveFriendInput {
    /// The member's key.
    member: String,
    /// The friend's key.
    friend: String,
}

/// The state of a friendship after `addFriend`.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum FriendshipState {
    /// The two members are friends.
    Friends,
    /// The friend was asked, and has not answered yet.
    Requested,
}

/// The result of `addFriend`.
#[derive(SimpleObject)]
pub struct AddFriendPayload {
    /// The state of the friendship.
    state: FriendshipState,
    /// The member.
    member: Member,
    /// The friend.
    friend: Member,
}

/// The result of `removeFriend`.
#[derive(SimpleObject)]
pub struct RemoveFriendPayload {
    /// The member.
    member: Member,
    /// The former friend.
    friend: Member,
}

/// Makes two members friends, or asks one of them.
pub(crate) async fn add_friend(
    ctx: &Context<'_>,
    input: &AddFriendInput,
) -> crate::error::Result<AddFriendPayload> {
    let ([a, b], [member, friend]) = both(ctx, &input.member, &input.friend).await?;
    for key in [&a, &b] {
        check_unmerged(ctx, key, || no_member(key.as_str())).await?;
    }
    let app = app(ctx);
    for key in [&a, &b] {
        // A member whose first score came a moment ago may have no row yet.
        member::insert_missing(&app.deployment.db, key.as_str(), app.deployment.clock.now_ms())
            .await?;
    }
    let is_player = own_member(ctx).is_some();
    let are_friends = match app.friendships {
        Friendships::MutualConsent if is_player => app.friends.ask(&app.deployment, &a, &b).await?,
        _ => app.friends.add(&app.deployment, &a, &b).await.map(|()| true)?,
    };
    state(ctx).loaders.clear().await;
    let state = if are_friends { FriendshipState::Friends } else { FriendshipState::Requested };
    Ok(AddFriendPayload { state, member, friend })
}

/// Ends a friendship.
pub(crate) async fn remove_friend(
    ctx: &Context<'_>,
    input: &RemoveFriendInput,
) -> crate::error::Result<RemoveFriendPayload> {
    let ([a, b], [member, friend]) = both(ctx, &input.member, &input.friend).await?;
    let app = app(ctx);
    app.friends.remove(&app.deployment.db, &a, &b).await?;
    state(ctx).loaders.clear().await;
    Ok(RemoveFriendPayload { member, friend })
}

/// A page of the members who ask one for its friendship. An asker shows itself to that one.
pub(crate) async fn requests_page(
    ctx: &Context<'_>,
    member: &str,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<Member, MemberTotal>> {
    let _reading = state(ctx).loaders.reading();
    let limit = limit("first", first)?;
    let place = after.map(PageCursor::place::<String>).transpose();
    let place = place.and_then(|place| match place {
        Some(key) if MemberId::new(&key).is_err() => Err(no_cursor(&key)),
        place => Ok(place),
    });
    let place = place.map_err(|error| error.at("after"))?;
    state(ctx).spend(price::select(limit + 1) + price::select(0)).await?;
    let db = &app(ctx).deployment.reads;
    let mut keys = friend_request::askers_of(db, member, place.as_deref(), limit + 1).await?;
    let total = MemberTotal::Counted(friend_request::count_of(db, member).await?);
    let has_next = keys.len() > limit;
    keys.truncate(limit);
    let mut page = Connection::with_additional_fields(place.is_some(), has_next, total);
    page.edges.extend(keys.iter().map(|key| Edge::new(PageCursor::of(key), Member::named(key))));
    Ok(page)
}

/// The member that the client is bound to.
fn own_member<'c>(ctx: &Context<'c>) -> Option<&'c str> {
    state(ctx).principal.as_ref()?.member.as_deref()
}

/// True if a member may know of another one: it sees it, or they are friends, or one of them has
/// asked the other.
async fn may_name(ctx: &Context<'_>, member: &str, friend: &str) -> crate::error::Result<bool> {
    if !is_hidden(ctx, friend).await {
        return Ok(true);
    }
    let (db, pair) = (&app(ctx).deployment.db, (member, friend));
    let ordered = if member < friend { pair } else { (friend, member) };
    Ok(friend_request::is_there(db, pair).await? || friendship::are(db, ordered).await?)
}

/// Checks that the client may change this friendship, and that it is between two members.
async fn both(
    ctx: &Context<'_>,
    member: &str,
    friend: &str,
) -> crate::error::Result<([MemberId; 2], [Member; 2])> {
    let principal = state(ctx).require(Scope::Friends)?;
    if let Some(own) = principal.member.as_deref().filter(|own| *own != member) {
        return Err(Error::forbidden(format!(
            "this access token may change friendships of {own} only"
        )));
    }
    let ids = [member_id("input.member", member)?, member_id("input.friend", friend)?];
    if ids[0] == ids[1] {
        return Err(Error::bad_input("a member cannot be its own friend: expected two members"));
    }
    let keys = ids.each_ref().map(ToString::to_string);
    let mut found = Member::existing(ctx, &keys).await?;
    if own_member(ctx).is_some() && !may_name(ctx, member, friend).await? {
        found.pop();
        found.push(None);
    }
    let found = keys.iter().zip(found);
    let mut found = found.map(|(key, member)| member.ok_or_else(|| no_member(key)));
    let mut next = || found.next().unwrap_or_else(|| Err(Error::bad_input("expected two members")));
    let both = [next()?, next()?];
    Ok((ids, both))
}
