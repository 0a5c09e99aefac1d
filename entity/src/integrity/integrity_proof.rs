//! What proves a partition's part of a board clean: what everything was when it was compared last and agreed.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

/// A row of `integrity_proof`. The digests are hexadecimal digits.
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
    /// A digest of the board's rules, windows and generation, and of how far it is archived.
    pub layout: String,
    /// A digest of its standings in Redis, of its lists of periods and its marks.
    pub redis: String,
    /// A digest of counts and sums of its rows in SQL.
    pub sql: String,
    /// A digest of what SQL says of its archive files: their paths and checksums.
    pub files: String,
    /// How many entries were compared.
    pub entries: i64,
    /// When, in Unix milliseconds.
    pub proven_at_ms: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// How a row replaces the one of the same board and partition.
#[must_use]
pub fn replace() -> OnConflict {
    use Column::{
        BoardNo, CommitId, Entries, Files, Layout, Partition, ProvenAtMs, Redis, Seq, Sql,
    };
    OnConflict::columns([BoardNo, Partition])
        .update_columns([Seq, CommitId, Layout, Redis, Sql, Files, Entries, ProvenAtMs])
        .to_owned()
}
