//! Proofs that a partition's part of a board is clean: digests of all that the last comparison
//! found in agreement.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

/// A row of `integrity_proof`. Digests are in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "integrity_proof")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq of the head that history was folded to.
    pub seq: i64,
    /// The commit id of that head.
    pub commit_id: String,
    /// A digest of the board's rules, windows, generation and archive mark.
    pub layout: String,
    /// A digest of the standings in Redis, the lists of periods and the marks.
    pub redis: String,
    /// A digest of counts and sums of the rows in SQL.
    pub sql: String,
    /// A digest of the paths and checksums that SQL records of the archive files.
    pub files: String,
    /// The number of entries compared.
    pub entries: i64,
    /// Time of the comparison, in Unix milliseconds.
    pub proven_at_ms: i64,
}

no_relations!();

/// Replaces the row of the same board and partition.
pub fn replace() -> OnConflict {
    use Column::{
        BoardNo, CommitId, Entries, Files, Layout, Partition, ProvenAtMs, Redis, Seq, Sql,
    };
    OnConflict::columns([BoardNo, Partition])
        .update_columns([Seq, CommitId, Layout, Redis, Sql, Files, Entries, ProvenAtMs])
        .to_owned()
}
