//! Differences that a run of the integrity diff found.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use crate::sql::first_rows;

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

/// A page of a run's findings, in order: at most `limit` after an index; and true if there are more.
pub async fn page(
    db: &impl ConnectionTrait,
    run_id: i64,
    after: Option<i64>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let mut select =
        Entity::find().filter(Column::RunId.eq(run_id)).order_by_asc(Column::FindingIndex);
    if let Some(after) = after {
        select = select.filter(Column::FindingIndex.gt(after));
    }
    first_rows(db, select, limit).await
}

/// The number of a run's findings.
pub async fn count(db: &impl ConnectionTrait, run_id: i64) -> Result<u64, DbErr> {
    Entity::find().filter(Column::RunId.eq(run_id)).count(db).await
}
