//! Following a partition's history from a cursor: first the events that SQL got since, then the
//! log.

use ranking::id::{BoardNo, Partition};
use ranking::seal::SealName;
use ranking::store::log::Tail;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, Select};

use crate::deployment::Deployment;
use crate::partition::persist::descends;
use crate::partition::settle::settle;
use entity::error::Result;
use entity::history::{commit, log_cursor, score_event};

/// The most commits of the log to read at once. If the log has more, SQL gets them first.
const TAIL_MAX: usize = 500;

/// SQL's cursor of a partition, after the log was persisted.
pub(crate) async fn settled_cursor(
    deployment: &Deployment,
    partition: Partition,
) -> Result<log_cursor::Model> {
    settle(deployment, partition).await?;
    let cursor = log_cursor::Entity::find_by_id(i32::from(partition.0)).one(&deployment.db).await?;
    Ok(cursor.ok_or(ranking::Error::NotLevel(partition.0))?)
}

/// The commits of a partition from a cursor to the head, with the state of `board`, `seals` and
/// `seen` as [`ranking::store::Store::tail`] returns it.
///
/// `None` if one read of the log does not lead from the cursor to the head.
pub(crate) async fn tail_to_head(
    deployment: &Deployment,
    partition: Partition,
    cursor: &log_cursor::Model,
    board: BoardNo,
    seals: &[SealName],
    seen: Option<(i64, &str)>,
) -> Result<Option<Tail>> {
    let from = cursor.seq as u64;
    let tail = deployment.store.tail(partition, from, TAIL_MAX, board, seals, seen).await?;
    let end =
        tail.commits.last().map_or((from, &cursor.commit_id), |commit| (commit.seq, &commit.id));
    let reaches = descends(cursor, &tail.commits) && end == (tail.head.seq, &tail.head.commit);
    Ok(reaches.then_some(tail))
}

/// The selected events that SQL got since a cursor, in the order of the selection, and the cursor
/// now. `None` if the history does not lead on from the old cursor.
pub(crate) async fn events_since(
    deployment: &Deployment,
    partition: Partition,
    cursor: &log_cursor::Model,
    events: Select<score_event::Entity>,
) -> Result<Option<(log_cursor::Model, Vec<score_event::Model>)>> {
    let Some(now) = advance_cursor(deployment, partition, cursor).await? else {
        return Ok(None);
    };
    let rows = events
        .filter(score_event::Column::Partition.eq(cursor.partition))
        .filter(score_event::Column::Seq.gt(cursor.seq))
        .filter(score_event::Column::Seq.lte(now.seq))
        .all(&deployment.db)
        .await?;
    Ok(Some((now, rows)))
}

/// SQL's cursor now, after the log was persisted. `None` if the history does not lead on from an
/// earlier cursor.
pub(crate) async fn advance_cursor(
    deployment: &Deployment,
    partition: Partition,
    cursor: &log_cursor::Model,
) -> Result<Option<log_cursor::Model>> {
    let now = settled_cursor(deployment, partition).await?;
    if now.seq < cursor.seq {
        return Ok(None);
    }
    if cursor.seq > 0 {
        let key = (cursor.partition, cursor.seq);
        let row = commit::Entity::find_by_id(key).one(&deployment.db).await?;
        if row.is_none_or(|row| row.id != cursor.commit_id) {
            return Ok(None);
        }
    }
    Ok(Some(now))
}
