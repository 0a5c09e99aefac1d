//! The one row that says how a deployment was born.

use sea_orm::entity::prelude::*;

/// A row of `deployment`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "deployment")]
pub struct Model {
    /// Always 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i32,
    /// How many partitions there are, for good.
    pub partitions: i32,
    /// When, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
