//! Mutations of members.

use async_graphql::{InputObject, MaybeUndefined, SimpleObject};
use engine::merge::check_unmerged;
use entity::member;
use ranking::id::MemberId;

use super::Member;
use crate::app::App;
use crate::error::Error;
use crate::graphql::board::display::picture_url;
use crate::graphql::types::connection::PAGE_MAX;
use crate::graphql::types::scalar::text;

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
    app: &App,
    input: Vec<MemberInput>,
) -> crate::error::Result<Vec<Member>> {
    if input.is_empty() {
        return Err(Error::bad_input(format!(
            "members is empty: expected 1 to {PAGE_MAX} members"
        ))
        .at("input.members"));
    }
    if input.len() > PAGE_MAX {
        return Err(Error::limit_exceeded(format!(
            "{} members sent at once: expected at most {PAGE_MAX}",
            input.len()
        ))
        .at("input.members"));
    }
    let numbered = input.into_iter().enumerate().map(|(index, member)| {
        change(member).map_err(|error| error.within(&format!("input.members[{index}]")))
    });
    let changes = numbered.collect::<crate::error::Result<Vec<_>>>()?;
    let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
    check_unmerged(&app.deployment, &keys).await?;
    let rows = member::upsert(&app.deployment.db, changes, app.deployment.clock.now_ms()).await?;
    for row in &rows {
        app.last_regions.insert(row.key.clone(), row.region.clone());
    }
    Ok(rows.into_iter().map(Member::of_row).collect())
}

fn change(input: MemberInput) -> crate::error::Result<member::Change> {
    Ok(member::Change {
        key: MemberId::for_new(&input.key)
            .map_err(|error| Error::from(error).at("key"))?
            .to_string(),
        name: asked(input.name, |name| text("name", name))?,
        region: asked(input.region, |region| text("region", region))?,
        avatar_url: asked(input.avatar_url, |address| picture_url("avatarUrl", &address))?,
    })
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
