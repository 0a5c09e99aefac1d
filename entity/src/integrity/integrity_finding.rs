//! Differences that a run of the integrity diff found.

use sea_orm::entity::prelude::*;

/// A row of `integrity_finding`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "integrity_finding")]
pub struct Model {
    /// The run.
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: i64,
    /// The finding's index in the run, from 0.
    #[sea_orm(primary_key, auto_increment = false)]
    pub finding_index: i32,
    /// The board.
    pub board_no: i64,
    /// MISSING, PHANTOM, WRONG_SCORE, WRONG_TIE_BREAK or WRONG_WINDOW.
    pub kind: String,
    /// The member whose entry differs.
    pub member: String,
    /// The window.
    pub window: String,
    /// The period's label.
    pub period: String,
    /// The segment; empty for everyone.
    pub segment: String,
    /// The raw score by the history.
    pub history: Option<i64>,
    /// The raw score in the SQL standings.
    pub sql: Option<i64>,
    /// The raw score in Redis.
    pub redis: Option<i64>,
    /// True if it was repaired.
    pub repaired: bool,
    /// The location: ENTRY, SEALED, ARCHIVED, FILE, KEY or PERIODS.
    pub place: String,
    /// Further details, if any.
    pub note: Option<String>,
}

/// Required by SeaORM; no query follows a relation.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
