//! Friendships. They are mutual: each is one row, the smaller key first.

use sea_orm::entity::prelude::*;

/// A row of `friendship`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "friendship")]
pub struct Model {
    /// The smaller key, by bytes.
    #[sea_orm(primary_key, auto_increment = false)]
    pub low: String,
    /// The larger key.
    #[sea_orm(primary_key, auto_increment = false)]
    pub high: String,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// Required by SeaORM; no query follows a relation.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
