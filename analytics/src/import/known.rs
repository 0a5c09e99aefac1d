//! The events that the history holds under an id: an import skips them.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use entity::deployment::Deployment;
use entity::score_event;
use ranking::board::Board;
use ranking::id::BoardNo;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};

use super::rows::Row;
use crate::history::{archived_with, keys, marks};

/// A board, a member, and the id of an event.
pub(super) type Id = (BoardNo, String, String);

/// The scores and times, by id, of the events of the rows' boards that the history holds: all of those in SQL, and of those in the archive the ones that
/// rows name. None that was voided, as its id may be used again.
pub(super) async fn known_events(
    deployment: &Deployment,
    rows: &[Row],
) -> Result<HashMap<Id, (i64, i64)>> {
    /// An event's place, member, id, score and time.
    type Known = (i32, i64, i32, String, String, i64, i64);
    let boards: BTreeMap<BoardNo, &Board> = rows
        .iter()
        .map(|row| (row.submission.board.no, &row.submission.board))
        .collect();
    let mut known = HashMap::new();
    for (no, board) in boards {
        use score_event::Column::{
            AtMs, BoardNo as No, EventId, EventIndex, Member, Partition as In, Score, Seq,
        };
        let select = score_event::Entity::find()
            .select_only()
            .columns([In, Seq, EventIndex])
            .columns([Member, EventId, Score, AtMs])
            .filter(No.eq(no.0))
            .filter(EventId.is_not_null());
        let mut events: Vec<Known> = select.into_tuple().all(&deployment.db).await?;
        let mut voids = score_event::Entity::find()
            .filter(No.eq(no.0))
            .filter(score_event::Column::VoidSeq.is_not_null())
            .all(&deployment.db)
            .await?;
        // After SQL: what leaves it meanwhile is there by then.
        for event in archived(deployment, board, rows).await? {
            if event.voids().is_some() {
                voids.push(event);
            } else if let (Some(id), Some(score), Some(at_ms)) =
                (event.event_id, event.score, event.at_ms)
            {
                let (partition, seq, index) = (event.partition, event.seq, event.event_index);
                events.push((partition, seq, index, event.member, id, score, at_ms));
            }
        }
        let voided: HashSet<_> = voids
            .iter()
            .map(|void| (void.void_partition, void.void_seq, void.void_index))
            .collect();
        let counts =
            |event: &Known| !voided.contains(&(Some(event.0), Some(event.1), Some(event.2)));
        known.extend(
            events
                .into_iter()
                .filter(counts)
                .map(|(_, _, _, member, id, score, at_ms)| ((no, member, id), (score, at_ms))),
        );
    }
    Ok(known)
}

/// The archived events that rows of a board name, and all archived voids.
async fn archived(
    deployment: &Deployment,
    board: &Board,
    rows: &[Row],
) -> Result<Vec<score_event::Model>> {
    let marks = marks(deployment, board).await?;
    if marks.values().all(|mark| mark.archived_seq == 0) {
        return Ok(vec![]);
    }
    let of_board = rows
        .iter()
        .filter(|row| row.submission.board.no == board.no);
    let (members, ids) = of_board
        .filter_map(|row| {
            let id = row.submission.event_id.as_ref()?;
            Some((row.submission.member.to_string(), id.to_string()))
        })
        .unzip();
    let named = keys(vec![("member", members), ("event_id", ids)])?;
    archived_with(deployment, board, &marks, &named).await
}
