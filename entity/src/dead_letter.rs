//! Events that SQL would not take, kept aside with the reason.

use sea_orm::entity::prelude::*;

/// A row of `dead_letter`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "dead_letter")]
pub struct Model {
    /// The partition of its commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq of its commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// Its place in the commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub event_index: i32,
    /// The event as the log had it.
    pub payload: String,
    /// Why it was not taken.
    pub reason: String,
    /// PENDING or VOIDED.
    pub state: String,
    /// When, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
