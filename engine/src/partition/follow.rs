//! Following a partition's history from a commit on: what SQL has got since, then what is still in the log.

use ranking::id::{BoardNo, Partition};
use ranking::seal::SealName;
use ranking::store::history::Tail;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, Select};

use crate::deployment::Deployment;
use crate::partition::persist::descends;
use crate::partition::recovery::settle;
use entity::error::Result;
use entity::history::{commit, log_cursor, score_event};

/// How much of the log is read at once; where there is more, SQL gets it first.
const TAIL_MAX: usize = 500;

/// Where SQL's cursor of a partition is, once SQL has what was in the log.
pub(crate) async fn present(
    deployment: &Deployment,
    partition: Partition,
) -> Result<log_cursor::Model> {
    settle(deployment, partition).await?;
    let cursor = log_cursor::Entity::find_by_id(i32::from(partition.0)).one(&deployment.db).await?;
    Ok(cursor.ok_or(ranking::Error::NotLevel(partition.0))?)
}

/// The rest of a partition's history after a cursor, up to the head, as far as one look at the log reaches; also what `board`, `seals` and `seen` ask
/// for, as [`ranking::store::Store::tail`] has it. `None` where it does not reach from the cursor to the head.
pub(crate) async fn tail(
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

/// What SQL has got of a selection of events since a cursor, in their order, and where its cursor is then; `None` where the history does not
/// lead on from there.
pub(crate) async fn since(
    deployment: &Deployment,
    partition: Partition,
    cursor: &log_cursor::Model,
    events: Select<score_event::Entity>,
) -> Result<Option<(log_cursor::Model, Vec<score_event::Model>)>> {
    let Some(now) = later(deployment, partition, cursor).await? else {
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

/// Where SQL's cursor is now, once SQL has what was in the log; `None` where the history does not lead on to there from an earlier one.
pub(crate) async fn later(
    deployment: &Deployment,
    partition: Partition,
    cursor: &log_cursor::Model,
) -> Result<Option<log_cursor::Model>> {
    let now = present(deployment, partition).await?;
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
