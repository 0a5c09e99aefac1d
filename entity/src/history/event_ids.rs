//! The event ids that the history holds.

use std::collections::HashSet;

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

use super::score_event::{self, Column, Entity, Kind};

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

/// Those of some event ids that the history has for a member on a board, of scores that are not
/// voided. The call takes at most some thousand.
pub async fn counting(
    db: &impl ConnectionTrait,
    board: BoardNo,
    member: &str,
    event_ids: Vec<&str>,
) -> crate::error::Result<HashSet<String>> {
    let scores = score_event::of_member(board, member)
        .filter(Column::Kind.eq(Kind::Score))
        .filter(Column::EventId.is_in(event_ids))
        .all(db)
        .await?;
    let seqs = scores.iter().map(|row| row.seq).collect();
    let voided = score_event::voided_of_members(db, board, [member], seqs).await?;
    let mut ids = HashSet::new();
    for row in scores {
        if !voided.contains(&row.place()?) {
            ids.extend(row.event_id);
        }
    }
    Ok(ids)
}
