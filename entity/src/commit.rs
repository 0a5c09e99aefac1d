//! Commits that SQL has: every step of every partition's history.

use sea_orm::entity::prelude::*;

/// A row of `commit`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "commit")]
pub struct Model {
    /// Its partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// Dense from 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// The id of the one before.
    pub parent: String,
    /// When it was accepted, in Unix milliseconds.
    pub accepted_at_ms: i64,
    /// How many events it brought.
    pub events: i32,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
