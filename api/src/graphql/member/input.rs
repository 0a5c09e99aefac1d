//! Mutations of members.

use async_graphql::{InputObject, MaybeUndefined, SimpleObject};
use entity::member;
use ranking::id::MemberId;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, EntityTrait, TransactionTrait};

use super::Member;
use crate::app::App;
use crate::error::{Error, ErrorCode};
use crate::graphql::types::connection::PAGE_MAX;
use crate::graphql::types::scalar::text;

/// A member, with the name and region to set.
#[derive(InputObject)]
pub struct MemberInput {
    /// The id of the member: 1 to 128 bytes, no control characters.
    key: String,
    /// The display name, at most 200 characters; null removes it, absent keeps it.
    name: MaybeUndefined<String>,
    /// The region, at most 200 characters; null removes it, absent keeps it.
    region: MaybeUndefined<String>,
}

/// The result of `upsertMembers`.
#[derive(SimpleObject)]
pub struct MembersPayload {
    /// The members, in the order of the input.
    pub(crate) members: Vec<Member>,
}

/// Creates members, or changes their names and regions.
pub(crate) async fn upsert(
    app: &App,
    input: Vec<MemberInput>,
) -> crate::error::Result<Vec<Member>> {
    if input.is_empty() {
        return Err(Error::bad_input(format!("input is empty: expected 1 to {PAGE_MAX} members")));
    }
    if input.len() > PAGE_MAX {
        return Err(Error::new(
            ErrorCode::LimitExceeded,
            format!("{} members sent at once: expected at most {PAGE_MAX}", input.len()),
        ));
    }
    let mut writes = vec![];
    for MemberInput { key, name, region } in input {
        let key = MemberId::new(&key)?.to_string();
        let mut changed = vec![];
        let mut row = member::ActiveModel {
            key: Set(key),
            created_at_ms: Set(app.deployment.clock.now_ms()),
            name: Set(None),
            name_folded: Set(None),
            region: Set(None),
        };
        if !name.is_undefined() {
            let name = name.take().map(|name| text("name", name)).transpose()?;
            row.name_folded = Set(name.as_deref().map(member::fold_name));
            row.name = Set(name);
            changed.extend([member::Column::Name, member::Column::NameFolded]);
        }
        if !region.is_undefined() {
            row.region = Set(region.take().map(|region| text("region", region)).transpose()?);
            changed.push(member::Column::Region);
        }
        writes.push((row, changed));
    }
    let transaction = app.deployment.db.begin().await?;
    let mut members = vec![];
    for (row, changed) in writes {
        let key = row.key.clone().take().unwrap_or_default();
        let mut on_conflict = OnConflict::column(member::Column::Key);
        if changed.is_empty() {
            on_conflict.do_nothing_on([member::Column::Key]);
        } else {
            on_conflict.update_columns(changed);
        }
        member::Entity::insert(row)
            .on_conflict(on_conflict)
            .exec_without_returning(&transaction)
            .await?;
        members.push(key);
    }
    let mut rows = vec![];
    for key in members {
        rows.extend(member::Entity::find_by_id(key).one(&transaction).await?);
    }
    transaction.commit().await?;
    for row in &rows {
        app.last_regions.insert(row.key.clone(), row.region.clone());
    }
    Ok(rows.into_iter().map(Member::of_row).collect())
}
