//! Marks of how much SQL has: while they stay the same, so do the standings and their events.

use std::sync::Arc;

use entity::history::log_cursor::{Column, Entity};
use ranking::id::PartitionNo;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};

/// The cursors of some partitions: the partition, the epoch and the last commit of each; and how
/// often they were away no more, as jobs may change rows behind a cursor while Redis answers.
pub(in crate::read) type Marks = Arc<(u64, Vec<(i32, i64, String)>)>;

/// The marks of some partitions. One SELECT.
pub(in crate::read) async fn marks(
    db: &impl ConnectionTrait,
    partitions: &[PartitionNo],
    returns: u64,
) -> Result<Marks, DbErr> {
    let cursors = Entity::find()
        .select_only()
        .columns([Column::Partition, Column::Epoch, Column::CommitId])
        .filter(Column::Partition.is_in(partitions.iter().map(|&no| i32::from(no))))
        .order_by_asc(Column::Partition)
        .into_tuple()
        .all(db)
        .await?;
    Ok(Arc::new((returns, cursors)))
}
