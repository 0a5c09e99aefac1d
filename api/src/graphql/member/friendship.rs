//! Friendships: made and ended.

use async_graphql::{Context, InputObject, SimpleObject};
use engine::merge::check_unmerged;
use entity::member;
use ranking::id::MemberId;
use ranking::shown;

use super::Member;
use crate::access::scope::Scope;
use crate::error::{Error, ErrorCode};
use crate::graphql::request::{app, state};
use crate::graphql::standings::member_id;

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

/// The result of `addFriend`.
#[derive(SimpleObject)]
pub struct AddFriendPayload {
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

/// Makes two members friends.
pub(crate) async fn add_friend(
    ctx: &Context<'_>,
    input: &AddFriendInput,
) -> crate::error::Result<AddFriendPayload> {
    let ([a, b], [member, friend]) = both(ctx, &input.member, &input.friend).await?;
    let app = app(ctx);
    check_unmerged(&app.deployment, &[a.as_str(), b.as_str()]).await?;
    for key in [&a, &b] {
        // A member whose first score came a moment ago may have no row yet.
        member::insert_missing(&app.deployment.db, key.as_str(), app.deployment.clock.now_ms())
            .await?;
    }
    app.friends.add(&app.deployment, &a, &b).await?;
    state(ctx).loaders.clear().await;
    Ok(AddFriendPayload { member, friend })
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
    let both = [next()?, next()?];
    Ok((ids, both))
}
