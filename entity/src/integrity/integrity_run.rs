//! Runs of the integrity diff.

use sea_orm::entity::prelude::*;

/// A row of `integrity_run`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "integrity_run")]
pub struct Model {
    /// Its number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The board; none for all.
    pub board_no: Option<i64>,
    /// When, in Unix milliseconds.
    pub started_at_ms: i64,
    /// When, in Unix milliseconds; none while it runs.
    pub finished_at_ms: Option<i64>,
    /// Entries compared.
    pub checked: i64,
    /// Differences found.
    pub found: i64,
    /// Differences repaired.
    pub repaired: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
