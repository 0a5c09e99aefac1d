//! How far the integrity diff has checked the commits of a partition.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

/// A row of `integrity_chain`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "integrity_chain")]
pub struct Model {
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq of the last commit that was checked.
    pub seq: i64,
    /// The id of that commit.
    pub commit_id: String,
    /// Time of the check, in Unix milliseconds.
    pub checked_at_ms: i64,
}

no_relations!();

/// Replaces the row of the same partition.
pub fn replace() -> OnConflict {
    use Column::{CheckedAtMs, CommitId, Partition, Seq};
    OnConflict::column(Partition).update_columns([Seq, CommitId, CheckedAtMs]).to_owned()
}
