//! The event ids that the history holds.

use std::collections::HashSet;

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

use super::score_event::{Column, Entity};

/// The event ids that a board's history holds.
pub async fn of_board(db: &impl ConnectionTrait, board: BoardNo) -> Result<HashSet<String>, DbErr> {
    let select = Entity::find().select_only().column(Column::EventId);
    let ids: Vec<Option<String>> =
        select.filter(Column::BoardNo.eq(board.0)).into_tuple().all(db).await?;
    Ok(ids.into_iter().flatten().collect())
}

/// The boards, members and event ids of those events of a commit that have one of these ids.
pub async fn among(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seq: u64,
    event_ids: Vec<&str>,
) -> Result<HashSet<(i64, String, String)>, DbErr> {
    let found: Vec<(i64, String, String)> = Entity::find()
        .select_only()
        .columns([Column::BoardNo, Column::Member, Column::EventId])
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::Seq.eq(seq as i64))
        .filter(Column::EventId.is_in(event_ids))
        .into_tuple()
        .all(db)
        .await?;
    Ok(found.into_iter().collect())
}
