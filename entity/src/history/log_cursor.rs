//! Cursors: how far SQL has each partition's log, and of which run of Redis.

use ranking::id::PartitionNo;
use sea_orm::entity::prelude::*;

/// A row of `log_cursor`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "log_cursor")]
pub struct Model {
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The Redis run id whose commits SQL accepts.
    pub run_id: String,
    /// The seq of the last commit; 0 before the first.
    pub seq: i64,
    /// The id of the last commit.
    pub commit_id: String,
    /// Goes up with each recovery, so that a persister that began before it cannot write.
    pub epoch: i64,
}

no_relations!();

/// The cursor of a partition; `None` if SQL has never accepted a run of Redis.
pub async fn of(db: &impl ConnectionTrait, partition: PartitionNo) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(i32::from(partition)).one(db).await
}

/// The cursors of all partitions.
pub async fn all(db: &impl ConnectionTrait) -> Result<Vec<Model>, DbErr> {
    Entity::find().all(db).await
}
