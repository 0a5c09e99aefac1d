//! Batch jobs, running and ended.

use sea_orm::entity::prelude::*;

/// A row of `job`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "job")]
pub struct Model {
    /// Its number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What it does.
    pub kind: String,
    /// The board; none for all.
    pub board_no: Option<i64>,
    /// RUNNING, DONE or FAILED.
    pub state: String,
    /// From 0 to 1.
    pub progress: f64,
    /// When, in Unix milliseconds.
    pub started_at_ms: i64,
    /// When, in Unix milliseconds; none while it runs.
    pub finished_at_ms: Option<i64>,
    /// Its figures, or why it failed.
    pub summary: Option<String>,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
