//! The visibility of a member to others.

use async_graphql::{Context, Enum, InputObject, SimpleObject};
use engine::merge::check_unmerged;
use entity::member;
use entity::member::visibility::Visibility;
use entity::sql::begin;
use ranking::shown;
use sea_orm::ActiveEnum;
use serde_json::json;

use super::Member;
use crate::access::scope::Scope;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::audit::writer::Audit;
use crate::graphql::request::{app, state};
use crate::graphql::sight::is_hidden;
use crate::graphql::standings::member_id;

/// The visibility of a member to others.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::member::visibility::Visibility")]
pub enum MemberVisibility {
    /// Everyone who sees a board sees the member on it.
    Public,
    /// As hidden, but its friends see it.
    Friends,
    /// The member is ranked without a name: it alone sees itself, and moderators and
    /// administrators do.
    Hidden,
}

/// A member, and its visibility.
#[derive(InputObject)]
pub struct SetVisibilityInput {
    /// The member's key.
    member: String,
    /// The visibility.
    visibility: MemberVisibility,
}

/// The result of `setVisibility`.
#[derive(SimpleObject)]
pub struct SetVisibilityPayload {
    /// The member.
    member: Member,
}

/// Sets the visibility of a member.
pub(crate) async fn set_visibility(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &SetVisibilityInput,
) -> Result<SetVisibilityPayload> {
    let principal = state(ctx).require(Scope::Friends)?;
    if let Some(own) = principal.member.as_deref().filter(|own| *own != input.member) {
        let message = format!("this access token may set the visibility of {own} only");
        return Err(Error::forbidden(message));
    }
    audit.note(|act| act.on_member(&input.member));
    let member = member_id("input.member", &input.member)?;
    let key = member.to_string();
    let found = Member::existing(ctx, std::slice::from_ref(&key)).await?.pop().flatten();
    let member = found.ok_or_else(|| no_member(&key).at("input.member"))?;
    let app = app(ctx);
    check_unmerged(&app.deployment, &[&key]).await?;
    audit.announce().await?;
    let transaction = begin(&app.deployment.db).await?;
    // A member whose first score came a moment ago may have no row yet.
    member::insert_missing(&transaction, &key, app.deployment.clock.now_ms()).await?;
    let wanted = [(key, input.visibility.into())].into();
    let changes = member::visibility::set(&transaction, &wanted).await?;
    transaction.commit().await?;
    let visibility = Visibility::from(input.visibility).to_value();
    audit.note(|act| act.after(json!({ "visibility": visibility })));
    app.visibilities.apply(&changes);
    state(ctx).loaders.clear().await;
    Ok(SetVisibilityPayload { member })
}

/// The visibility of a member; of one that the client does not see, unless it could set it, hidden.
pub(crate) async fn visibility_of(ctx: &Context<'_>, key: &str) -> Result<MemberVisibility> {
    let is_service = state(ctx)
        .principal
        .as_ref()
        .is_some_and(|principal| principal.member.is_none() && principal.may(Scope::Friends));
    if !is_service && is_hidden(ctx, key).await {
        return Ok(MemberVisibility::Hidden);
    }
    let message = "the visibility of members is not known yet; try again later";
    let known = app(ctx).visibilities.of(key);
    known.map(Into::into).ok_or_else(|| Error::new(ErrorCode::Unavailable, message))
}

/// The error for a key that no member has.
pub(crate) fn no_member(key: &str) -> Error {
    let shown = shown(key);
    let message = format!("there is no member {shown}; upsertMembers or a first score creates it");
    Error::new(ErrorCode::NotFound, message)
}
