//! Mutations of members.

use std::sync::Arc;

use async_graphql::{Context, InputObject, MaybeUndefined, SimpleObject};
use engine::merge::check_unmerged;
use entity::audit::AUDIT_KEYS_MAX;
use entity::member;
use ranking::attribute::{self, Attributes, REGION};
use ranking::id::MemberId;
use serde_json::json;

use super::Member;
use super::visibility::MemberVisibility;
use crate::error::Error;
use crate::graphql::audit::writer::Audit;
use crate::graphql::board::display::picture_url;
use crate::graphql::request::{app, state};
use crate::graphql::types::connection::PAGE_MAX;
use crate::graphql::types::scalar::{check_count, text};

/// A member, with what to set.
#[derive(InputObject)]
pub struct MemberInput {
    /// The id of the member: 1 to 128 bytes, not blank, without control characters, invisible ones
    /// or ones that change its direction.
    key: String,
    /// The display name, at most 200 characters; null removes it, absent keeps it.
    name: MaybeUndefined<String>,
    /// The region, at most 200 characters; null removes it, absent keeps it.
    region: MaybeUndefined<String>,
    /// The address of a picture, http or https, at most 500 bytes; null removes it, absent keeps
    /// it.
    avatar_url: MaybeUndefined<String>,
    /// All attributes besides the region, at most 8, in place of those that the member has; null
    /// or an empty list removes them, absent keeps them. Scores accepted later count by them.
    attributes: MaybeUndefined<Vec<AttributeInput>>,
    /// The visibility to others; absent or null keeps it, which is public at first.
    visibility: Option<MemberVisibility>,
}

/// An attribute of a member or a score, by which boards may have segments.
#[derive(InputObject, Clone)]
pub struct AttributeInput {
    /// The name: [a-z][a-z0-9_-]{0,31}.
    name: String,
    /// The value, at most 200 characters.
    value: String,
}

/// Checks attributes: at most eight, none of them twice.
pub(crate) fn checked_attributes(
    given: impl IntoIterator<Item = AttributeInput>,
) -> ranking::Result<Attributes> {
    attribute::checked(given.into_iter().map(|AttributeInput { name, value }| (name, value)))
}

/// The members to create or change.
#[derive(InputObject)]
pub struct UpsertMembersInput {
    /// The members, 1 to 1,000.
    pub(crate) members: Vec<MemberInput>,
}

/// The result of `upsertMembers`.
#[derive(SimpleObject)]
pub struct UpsertMembersPayload {
    /// The members, in the order of the input.
    pub(crate) members: Vec<Member>,
}

/// Creates members, or changes what is known of them.
pub(crate) async fn upsert(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: Vec<MemberInput>,
) -> crate::error::Result<UpsertMembersPayload> {
    let app = app(ctx);
    check_count("members", input.len(), PAGE_MAX)?;
    let numbered = input.into_iter().enumerate().map(|(index, member)| {
        change(member).map_err(|error| error.within(&format!("input.members[{index}]")))
    });
    let changes = numbered.collect::<crate::error::Result<Vec<_>>>()?;
    let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
    check_unmerged(&app.deployment, &keys).await?;
    let first: Vec<&&str> = keys.iter().take(AUDIT_KEYS_MAX).collect();
    let value = json!({ "count": keys.len(), "members": first });
    let one = keys.iter().filter(|_| keys.len() == 1);
    audit.note(|act| one.fold(act.after(value), |act, key| act.on_member(key)));
    let now_ms = app.deployment.clock.now_ms();
    let (rows, hidden) = member::upsert(&app.deployment.db, changes, now_ms, &audit.act()).await?;
    audit.written();
    app.visibilities.apply(&hidden);
    for row in &rows {
        app.last_attributes.insert(row.key.clone(), Arc::new(row.attributes()));
    }
    state(ctx).loaders.clear().await;
    Ok(UpsertMembersPayload { members: rows.into_iter().map(Member::of_row).collect() })
}

fn change(input: MemberInput) -> crate::error::Result<member::Change> {
    Ok(member::Change {
        key: MemberId::for_new(&input.key)
            .map_err(|error| Error::from(error).at("key"))?
            .to_string(),
        name: asked(input.name, |name| text("name", name))?,
        region: asked(input.region, |region| text("region", region))?,
        avatar_url: asked(input.avatar_url, |address| picture_url("avatarUrl", &address))?,
        attributes: attributes(input.attributes)?,
        visibility: input.visibility.map(Into::into),
    })
}

/// The attributes to set besides the region, which has a field of its own.
fn attributes(
    given: MaybeUndefined<Vec<AttributeInput>>,
) -> crate::error::Result<Option<Attributes>> {
    if given.is_undefined() {
        return Ok(None);
    }
    let at = |error: Error| error.at("attributes");
    let attributes = checked_attributes(given.take().unwrap_or_default());
    let attributes = attributes.map_err(|error| at(error.into()))?;
    if attributes.contains_key(REGION) {
        return Err(at(Error::bad_input("invalid attribute region: expected it in region")));
    }
    Ok(Some(attributes))
}

/// The text to set: null clears it, `None` keeps the present one.
fn asked(
    value: MaybeUndefined<String>,
    check: impl Fn(String) -> crate::error::Result<String>,
) -> crate::error::Result<Option<Option<String>>> {
    if value.is_undefined() {
        return Ok(None);
    }
    Ok(Some(value.take().map(check).transpose()?))
}
