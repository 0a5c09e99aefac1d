//! The event ids that the history holds.

use std::collections::HashSet;

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QuerySelect};

use super::score_event::{self, Column, Entity, Kind};

/// The event ids that a board's history holds.
pub async fn of_board(db: &impl ConnectionTrait, board: BoardNo) -> Result<HashSet<String>, DbErr> {
    let select = Entity::find().select_only().column(Column::EventId);
    let ids: Vec<Option<String>> =
        select.filter(Column::BoardNo.eq(board.0)).into_tuple().all(db).await?;
    Ok(ids.into_iter().flatten().collect())
}

/// The events of one SELECT: SQLite follows no deeper expressions than 1,000.
const EVENTS_MAX: usize = 200;

/// Those of some events of a board, each the member, the seq of its commit and the event id, that
/// the history has in a partition.
pub async fn among(
    db: &impl ConnectionTrait,
    (board, partition): (BoardNo, PartitionNo),
    events: &[(String, i64, String)],
) -> Result<HashSet<(String, i64, String)>, DbErr> {
    let mut found = HashSet::new();
    for some in events.chunks(EVENTS_MAX) {
        let mut any = Condition::any();
        for (member, seq, id) in some {
            // With the board in each term, SQLite looks each event up by the index of members.
            let event = Condition::all()
                .add(Column::BoardNo.eq(board.0))
                .add(Column::Member.eq(member))
                .add(Column::Seq.eq(*seq))
                .add(Column::Partition.eq(i32::from(partition)))
                .add(Column::EventId.eq(id));
            any = any.add(event);
        }
        let select = Entity::find()
            .select_only()
            .columns([Column::Member, Column::Seq, Column::EventId])
            .filter(any);
        let rows: Vec<(String, i64, String)> = select.into_tuple().all(db).await?;
        found.extend(rows);
    }
    Ok(found)
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
