//! All-time standings: what the history adds up to, kept with it in the same transaction.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

/// A row of `standing`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "standing")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The segment; empty for everyone.
    #[sea_orm(primary_key, auto_increment = false)]
    pub segment: String,
    /// Who.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The raw score.
    pub score: i64,
    /// The rank key; smaller is better.
    pub rank_key: i64,
    /// The partition that the member is in; where its board just got another number of shards, the one that it was in before.
    pub partition: i32,
    /// The commit that changed it last.
    pub seq: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// How a row replaces the one of the same member.
#[must_use]
pub fn replace() -> OnConflict {
    use Column::{Partition, RankKey, Score, Seq};
    replacing([Score, RankKey, Partition, Seq])
}

/// How these columns of a row replace those of the same member.
pub fn replacing(columns: impl IntoIterator<Item = Column>) -> OnConflict {
    OnConflict::columns([Column::BoardNo, Column::Member, Column::Segment])
        .update_columns(columns)
        .to_owned()
}
