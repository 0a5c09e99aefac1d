//! The entries of sealed standings.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

/// A row of `sealed_entry`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "sealed_entry")]
pub struct Model {
    /// The number of the standings.
    #[sea_orm(primary_key, auto_increment = false)]
    pub standings_no: i64,
    /// Who.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The raw score. What comes late is not checked against ranges: where this one has no place in a key, the entry has the nearest key
    /// that there is, and is ranked and shown by that.
    pub score: i64,
    /// The rank key; smaller is better.
    pub rank_key: i64,
    /// The partition that the member is in.
    pub partition: i32,
    /// The commit that corrected it last; 0 where it is as it was when the period was sealed.
    pub seq: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// How a row leaves the one of the same member as it is.
pub fn keep() -> OnConflict {
    OnConflict::columns([Column::StandingsNo, Column::Member])
        .do_nothing_on([Column::StandingsNo])
        .to_owned()
}

/// How a row replaces the one of the same member.
pub fn replace() -> OnConflict {
    use Column::{Member, Partition, RankKey, Score, Seq, StandingsNo};
    OnConflict::columns([StandingsNo, Member])
        .update_columns([Score, RankKey, Partition, Seq])
        .to_owned()
}
