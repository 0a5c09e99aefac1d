//! The mutation that merges one member into another.

use async_graphql::{Context, InputObject, SimpleObject};
use engine::merge::{self, Merged};
use ranking::id::MemberId;
use ranking::shown;
use serde_json::json;
use tokio::time::Instant;

use super::Member;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::audit::writer::Audit;
use crate::graphql::event::amendment::AMEND_TIMEOUT;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::standings::member_id;

/// The members to merge.
#[derive(InputObject)]
pub struct MergeMembersInput {
    /// The key of the member that goes.
    source: String,
    /// The key of the member that stays; it need not exist yet.
    target: String,
}

/// The result of `mergeMembers`.
#[derive(SimpleObject)]
pub struct MergeMembersPayload {
    /// True if the target has all that the source had. False if the merge is decided and goes on in
    /// the background.
    merged: bool,
    /// The member that went.
    source: Member,
    /// The member that stays.
    target: Member,
}

/// Checks that a member whom the client names was not merged into another one. For a client that
/// does not see that one, there is `no_such` member.
///
/// # Errors
/// `MEMBER_MERGED`; `no_such` if the client does not see the target; `UNAVAILABLE` while the member
/// is being merged.
pub(super) async fn check_unmerged(
    ctx: &Context<'_>,
    member: &MemberId,
    no_such: impl FnOnce() -> Error,
) -> Result<()> {
    let checked = merge::check_unmerged(&app(ctx).deployment, &[member.as_str()]).await;
    let Err(entity::Error::Ranking(ranking::Error::MemberMerged(target))) = checked else {
        return Ok(checked?);
    };
    let own = state(ctx).principal.as_ref().and_then(|principal| principal.member.as_deref());
    let is_seen = own == Some(member.as_str())
        || Member::nameable(ctx, &[target.to_string()]).await?.iter().any(Option::is_some);
    Err(match is_seen {
        true => ranking::Error::MemberMerged(target).into(),
        false => no_such(),
    })
}

/// Merges a member into another one.
pub(crate) async fn merge(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &MergeMembersInput,
) -> Result<MergeMembersPayload> {
    state(ctx).spend(price::AMENDMENT_OF_MANY).await?;
    let source = member_id("input.source", &input.source)?;
    let target = member_id("input.target", &input.target)?;
    let value = json!({ "source": source.as_str(), "target": target.as_str() });
    audit.note(|act| act.on_member(source.as_str()).before(value));
    audit.announce().await?;
    let (app, deadline) = (app(ctx), Instant::now() + AMEND_TIMEOUT);
    let merged = Box::pin(merge::merge(&app.deployment, &source, &target, deadline)).await;
    app.friends.changed(&source, &target);
    state(ctx).loaders.clear().await;
    let merged = merged?;
    if merged == Merged::NoSuchMember {
        let message = format!("there is no member {}", shown(&input.source));
        return Err(Error::new(ErrorCode::NotFound, message).at("input.source"));
    }
    let merged = merged == Merged::Done;
    audit.note(|act| act.after(json!({ "merged": merged })));
    Ok(MergeMembersPayload {
        merged,
        source: Member::named(source.as_str()),
        target: Member::named(target.as_str()),
    })
}
