//! The visibility of members to others.
//!
//! Members are public until something else is set. The changes are numbered without gaps in the
//! order of their transactions, as each takes the lock of the head's row first. So a process that
//! has read up to a number misses none, and the number of members who are not public is exact.

use std::collections::BTreeMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{ActiveEnum, ActiveValue::Set, QueryOrder, QuerySelect};
use serde_json::json;

use crate::deployment::clock::sql_now_ms;
use crate::error::Result;
use crate::sql::insert_chunked;
use crate::webhook::outbox::{self, Notice};

/// The most members who are not public.
pub const MEMBERS_HIDDEN_MAX: i64 = 1_000_000;

/// The members of one SELECT.
const MEMBERS_MAX: usize = 1000;

/// The visibility of a member to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Visibility {
    /// Everyone sees it.
    #[sea_orm(string_value = "PUBLIC")]
    Public,
    /// Its friends see it.
    #[sea_orm(string_value = "FRIENDS")]
    Friends,
    /// No other client sees it.
    #[sea_orm(string_value = "HIDDEN")]
    Hidden,
}

/// A row of `member_visibility`: a member who is not public, or was not once.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "member_visibility")]
pub struct Model {
    /// The member.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// Its visibility.
    pub visibility: Visibility,
    /// The number of its last change.
    pub change_no: i64,
}

no_relations!();

/// The only row of `visibility_head`.
pub mod head {
    use sea_orm::entity::prelude::*;

    /// The last change, and the secret.
    #[derive(Clone, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "visibility_head")]
    pub struct Model {
        /// 1.
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i32,
        /// The number of the last change.
        pub change_no: i64,
        /// The members who are not public.
        pub members: i64,
        /// 64 random hexadecimal digits, which hide keys in ids and page cursors.
        pub secret: String,
    }

    no_relations!();

    impl std::fmt::Debug for Model {
        fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(out, "visibility_head of {} changes", self.change_no)
        }
    }
}

/// The head. Makes it if there is none.
pub async fn head(db: &impl ConnectionTrait) -> Result<head::Model, DbErr> {
    if let Some(head) = head::Entity::find_by_id(1).one(db).await? {
        return Ok(head);
    }
    let first = head::ActiveModel {
        id: Set(1),
        change_no: Set(0),
        members: Set(0),
        secret: Set(format!("{}{}", crate::random_id(), crate::random_id())),
    };
    let known = OnConflict::column(head::Column::Id).do_nothing_on([head::Column::Id]).to_owned();
    head::Entity::insert(first).on_conflict(known).exec_without_returning(db).await?;
    let made = head::Entity::find_by_id(1).one(db).await?;
    made.ok_or_else(|| DbErr::RecordNotFound("visibility_head has no row".into()))
}

/// Sets the visibility of members. Part of a transaction. Returns the changes, in order; members
/// who have that visibility already are left out.
///
/// # Errors
/// `LimitExceeded` if more than [`MEMBERS_HIDDEN_MAX`] members would not be public; if SQL does not
/// answer.
pub async fn set(
    db: &impl ConnectionTrait,
    wanted: &BTreeMap<String, Visibility>,
) -> Result<Vec<Model>> {
    if wanted.is_empty() {
        return Ok(vec![]);
    }
    head(db).await?;
    // The lock: another process that sets some waits until this transaction ends.
    let more = i64::try_from(wanted.len()).unwrap_or(i64::MAX);
    head::Entity::update_many()
        .col_expr(head::Column::ChangeNo, Expr::col(head::Column::ChangeNo).add(more))
        .exec(db)
        .await?;
    let head = head(db).await?;
    let members: Vec<&str> = wanted.keys().map(String::as_str).collect();
    let present = of_members(db, &members).await?;
    let (mut changes, mut total, mut change_no) = (vec![], head.members, head.change_no - more);
    for (member, &visibility) in wanted {
        let before = present.get(member).copied().unwrap_or(Visibility::Public);
        if before != visibility {
            change_no += 1;
            total += i64::from(before == Visibility::Public);
            total -= i64::from(visibility == Visibility::Public);
            changes.push(Model { member: member.clone(), visibility, change_no });
        }
    }
    if total > MEMBERS_HIDDEN_MAX && total > head.members {
        return Err(ranking::Error::LimitExceeded(format!(
            "{MEMBERS_HIDDEN_MAX} members are not public, the most that there may be: expected PUBLIC"
        ))
        .into());
    }
    head::Entity::update_many()
        .col_expr(head::Column::ChangeNo, Expr::value(change_no))
        .col_expr(head::Column::Members, Expr::value(total))
        .exec(db)
        .await?;
    let rows = changes.iter().map(|row| ActiveModel {
        member: Set(row.member.clone()),
        visibility: Set(row.visibility),
        change_no: Set(row.change_no),
    });
    let mut known = OnConflict::column(Column::Member);
    known.update_columns([Column::Visibility, Column::ChangeNo]);
    insert_chunked::<Entity, _>(db, rows.collect(), Some(known)).await?;
    if changes.is_empty() {
        return Ok(changes);
    }
    let now_ms = sql_now_ms(db).await?;
    let notice = |row: &Model| {
        let more = json!({ "visibility": row.visibility.to_value() });
        Notice::of_member(&row.member, "VISIBILITY", more, now_ms)
    };
    outbox::tell(db, &changes.iter().map(notice).collect::<Vec<_>>()).await?;
    Ok(changes)
}

/// The visibility of some members; those that were always public are absent.
async fn of_members(
    db: &impl ConnectionTrait,
    members: &[&str],
) -> Result<BTreeMap<String, Visibility>, DbErr> {
    let mut found = BTreeMap::new();
    for members in members.chunks(MEMBERS_MAX) {
        let rows = Entity::find().filter(Column::Member.is_in(members.iter().copied()));
        let rows = rows.all(db).await?.into_iter();
        found.extend(rows.map(|row| (row.member, row.visibility)));
    }
    Ok(found)
}

/// True if a member was once not public.
pub async fn is_stored(db: &impl ConnectionTrait, member: &str) -> Result<bool, DbErr> {
    Ok(Entity::find_by_id(member).one(db).await?.is_some())
}

/// Gives a member the visibility of another one. Part of a transaction.
///
/// # Errors
/// As [`set`].
pub async fn copy(db: &impl ConnectionTrait, from: &str, to: &str) -> Result<()> {
    if let Some(row) = Entity::find_by_id(from).one(db).await? {
        set(db, &[(to.to_owned(), row.visibility)].into()).await?;
    }
    Ok(())
}

/// At most `limit` members whose last change comes after a number, by the numbers.
pub async fn after(
    db: &impl ConnectionTrait,
    change_no: i64,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    let later = Entity::find().filter(Column::ChangeNo.gt(change_no));
    later.order_by_asc(Column::ChangeNo).limit(limit).all(db).await
}
