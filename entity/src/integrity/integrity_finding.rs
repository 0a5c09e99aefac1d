//! Differences that a run of the integrity diff found.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use crate::sql::first_rows;

/// The kind of a difference. A newer program may write others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Kind {
    /// History has the entry; a store does not.
    #[sea_orm(string_value = "MISSING")]
    Missing,
    /// A store has the entry; history does not.
    #[sea_orm(string_value = "PHANTOM")]
    Phantom,
    /// The scores differ.
    #[sea_orm(string_value = "WRONG_SCORE")]
    WrongScore,
    /// The scores agree, the times differ.
    #[sea_orm(string_value = "WRONG_TIE_BREAK")]
    WrongTieBreak,
    /// The entry is in a period that it does not belong to, and missing from the one that it
    /// belongs to.
    #[sea_orm(string_value = "WRONG_WINDOW")]
    WrongWindow,
    /// The content is not what the commit's id says.
    #[sea_orm(string_value = "ALTERED")]
    Altered,
}

/// The location of a difference. A newer program may write others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Location {
    /// The standings in Redis, or their table in SQL.
    #[sea_orm(string_value = "ENTRY")]
    Entry,
    /// The sealed entries of a past period, in SQL.
    #[sea_orm(string_value = "SEALED")]
    Sealed,
    /// The sums of archived events, in SQL.
    #[sea_orm(string_value = "ARCHIVED")]
    Archived,
    /// A file of the archive.
    #[sea_orm(string_value = "FILE")]
    File,
    /// A key in Redis that names no standings, or a position in a source among those of a key.
    #[sea_orm(string_value = "KEY")]
    Key,
    /// The list of the periods of a window, in Redis.
    #[sea_orm(string_value = "PERIODS")]
    Periods,
    /// A commit, in SQL or in a file.
    #[sea_orm(string_value = "COMMIT")]
    Commit,
    /// An event of the history, in SQL or in a file.
    #[sea_orm(string_value = "EVENT")]
    Event,
}

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
    /// The name of a [`Kind`], or one of a newer program.
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
    /// The name of a [`Location`], or one of a newer program.
    pub place: String,
    /// Further details, if any.
    pub note: Option<String>,
}

no_relations!();

impl Model {
    /// The kind; `None` for one of a newer program.
    pub fn kind(&self) -> Option<Kind> {
        Kind::try_from_value(&self.kind).ok()
    }

    /// The location; `None` for one of a newer program.
    pub fn location(&self) -> Option<Location> {
        Location::try_from_value(&self.place).ok()
    }
}

/// A page of a run's findings, in order: at most `limit` after an index; and true if there are
/// more.
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
