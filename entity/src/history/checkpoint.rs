//! Checkpoints: signed statements about the last commit of a partition.

use ranking::id::PartitionNo;
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// A row of `checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "checkpoint")]
pub struct Model {
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq of the commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// The id of the commit.
    pub commit_id: String,
    /// The statement and its signature, as they are printed.
    pub statement: String,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// The checkpoints of a partition after a seq, oldest first.
pub async fn after(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seq: i64,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::Seq.gt(seq))
        .order_by_asc(Column::Seq)
        .all(db)
        .await
}

/// The last checkpoint of a partition.
pub async fn last(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .order_by_desc(Column::Seq)
        .one(db)
        .await
}
