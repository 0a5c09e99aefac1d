//! The one place of a deployment's lake.

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

/// The id of the one row.
const ID: i32 = 1;

/// A row of `mirror_place`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "mirror_place")]
pub struct Model {
    /// 1: a deployment has one lake.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i32,
    /// The URL, without secrets.
    pub url: String,
    /// When the lake began, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// The place; `None` if there is no lake.
pub async fn find(db: &impl ConnectionTrait) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(ID).one(db).await
}

/// Begins a lake, unless there is one.
pub async fn begin(db: &impl ConnectionTrait, url: &str, now_ms: i64) -> Result<(), DbErr> {
    let row = ActiveModel { id: Set(ID), url: Set(url.to_owned()), created_at_ms: Set(now_ms) };
    let known = OnConflict::column(Column::Id).do_nothing_on([Column::Id]).to_owned();
    Entity::insert(row).on_conflict(known).exec_without_returning(db).await?;
    Ok(())
}
