//! The entries of sealed standings.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

/// A row of `sealed_entry`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "sealed_entry")]
pub struct Model {
    /// The number of the standings in `sealed_period`.
    #[sea_orm(primary_key, auto_increment = false)]
    pub standings_no: i64,
    /// The member.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The raw score. Late scores are not checked against ranges: if no key can hold this score,
    /// the entry has the nearest possible key, and is ranked and shown by that.
    pub score: i64,
    /// The rank key; smaller is better.
    pub rank_key: i64,
    /// The member's partition.
    pub partition: i32,
    /// The seq of the last commit that corrected it; 0 if it is unchanged since the period was
    /// sealed.
    pub seq: i64,
}

no_relations!();

/// Leaves an existing row of the same member unchanged.
pub fn keep() -> OnConflict {
    OnConflict::columns([Column::StandingsNo, Column::Member])
        .do_nothing_on([Column::StandingsNo])
        .to_owned()
}

/// Replaces the row of the same member.
pub fn replace() -> OnConflict {
    use Column::{Member, Partition, RankKey, Score, Seq, StandingsNo};
    OnConflict::columns([StandingsNo, Member])
        .update_columns([Score, RankKey, Partition, Seq])
        .to_owned()
}
