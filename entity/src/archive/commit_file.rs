//! The files of commits whose rows have left `commit`. Each holds a part of one partition's
//! commits: ids, parents, random bytes and leaves.

use ranking::id::PartitionNo;
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// A row of `commit_file`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "commit_file")]
pub struct Model {
    /// The path in the archive's directory.
    #[sea_orm(primary_key, auto_increment = false)]
    pub path: String,
    /// The partition.
    pub partition: i32,
    /// The seq of its first commit: the one after the previous file's last seq.
    pub first_seq: i64,
    /// The seq of its last commit.
    pub last_seq: i64,
    /// The size in bytes.
    pub bytes: i64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// The files of a partition, by seq.
pub async fn of_partition(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .order_by_asc(Column::FirstSeq)
        .all(db)
        .await
}

/// The first file of a partition that has commits after `seq`.
pub async fn first_after(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seq: i64,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::LastSeq.gt(seq))
        .order_by_asc(Column::FirstSeq)
        .one(db)
        .await
}

/// The last file of a partition.
pub async fn last(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .order_by_desc(Column::FirstSeq)
        .one(db)
        .await
}
