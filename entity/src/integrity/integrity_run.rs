//! Runs of the integrity diff.

use sea_orm::entity::prelude::*;

/// A row of `integrity_run`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "integrity_run")]
pub struct Model {
    /// The run's number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The board; none if the run covers all boards.
    pub board_no: Option<i64>,
    /// Start time, in Unix milliseconds.
    pub started_at_ms: i64,
    /// End time, in Unix milliseconds; none while it runs.
    pub finished_at_ms: Option<i64>,
    /// The number of entries compared.
    pub checked: i64,
    /// The number of differences found.
    pub found: i64,
    /// The number of differences repaired.
    pub repaired: i64,
}

/// Required by SeaORM; no query follows a relation.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
