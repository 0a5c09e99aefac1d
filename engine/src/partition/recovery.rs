//! Recovery: makes a partition level with SQL again after Redis restarted, failed over, was flushed
//! or came back from an old backup.
//!
//! Nothing that SQL has is lost. Commits that only Redis had are lost with it. Those that are still
//! in a log that leads on from SQL's cursor are written to SQL first. The head is set last: until
//! then writes are refused, and reads report that the partition waits.

use super::load::load;
use std::time::Duration;

use ranking::commit::ROOT_COMMIT;
use ranking::id::Partition;
use ranking::store::recovery::{Found, Recovery};
use sea_orm::{ActiveValue::Set, EntityTrait, QueryFilter};
use tokio::time::sleep;

use crate::deployment::Deployment;
use crate::partition::persist::is_still;
use entity::error::Result;
use entity::history::log_cursor;

/// The interval at which the lease of a recovery is renewed.
const RENEWAL: Duration = Duration::from_secs(2);

/// Makes a partition level with SQL; does nothing if it is level. If another process is recovering
/// it, waits 20 ms and returns: call it again.
///
/// # Errors
/// If a store fails. The partition then stays closed, and the next caller tries again.
pub async fn recover(deployment: &Deployment, partition: Partition) -> Result<()> {
    let token = entity::random_id();
    let Some(recovery) = deployment.store.begin_recovery(partition, &token).await? else {
        sleep(Duration::from_millis(20)).await;
        return Ok(());
    };
    let recovered = tokio::select! {
        recovered = make_level(deployment, partition, &recovery) => recovered,
        lost = keep(&recovery) => lost,
    };
    if recovered.is_err() {
        // Then the next caller need not wait until the lease expires.
        let _ = recovery.abandon().await;
    }
    recovered
}

async fn make_level(
    deployment: &Deployment,
    partition: Partition,
    recovery: &Recovery,
) -> Result<()> {
    loop {
        let cursor = accept_run(deployment, partition, recovery.run_id()).await?;
        let found = recovery.find(cursor.seq as u64, &cursor.commit_id).await?;
        let (seq, tip) = tip(&cursor, &found);
        match &found.head {
            Some(head)
                if (head.seq, &head.commit) == (seq, &tip) && head.run_id == recovery.run_id() =>
            {
                return Ok(recovery.abandon().await?);
            }
            // No writer can have moved a head of an earlier run.
            Some(head) if (head.seq, &head.commit) == (seq, &tip) => {
                tracing::debug!(%partition, seq, "Redis restarted with all it had");
                return Ok(recovery.finish(seq, &tip).await?);
            }
            // Between the two reads a persister may have moved the cursor and trimmed the log.
            _ if accept_run(deployment, partition, recovery.run_id()).await? != cursor => {}
            _ => return load(deployment, partition, recovery).await,
        }
    }
}

/// Renews the lease of a recovery while it runs.
async fn keep(recovery: &Recovery) -> Result<()> {
    loop {
        sleep(RENEWAL).await;
        recovery.renew().await?;
    }
}

/// Makes SQL accept commits of the present run of Redis. From here on, no persister of an earlier
/// run can write.
pub(super) async fn accept_run(
    deployment: &Deployment,
    partition: Partition,
    run_id: &str,
) -> Result<log_cursor::Model> {
    loop {
        let id = i32::from(partition.0);
        let Some(cursor) = log_cursor::Entity::find_by_id(id).one(&deployment.db).await? else {
            let first = log_cursor::ActiveModel {
                partition: Set(id),
                run_id: Set(run_id.to_owned()),
                seq: Set(0),
                commit_id: Set(ROOT_COMMIT.to_owned()),
                epoch: Set(0),
            };
            let insert = log_cursor::Entity::insert(first)
                .on_conflict_do_nothing_on([log_cursor::Column::Partition]);
            insert.exec_without_returning(&deployment.db).await?;
            continue;
        };
        if cursor.run_id == run_id {
            return Ok(cursor);
        }
        log_cursor::Entity::update_many()
            .set(log_cursor::ActiveModel { run_id: Set(run_id.to_owned()), ..Default::default() })
            .filter(is_still(&cursor))
            .exec(&deployment.db)
            .await?;
    }
}

/// Increments the cursor's epoch by compare-and-set: no persister that read the cursor before can
/// write.
pub(super) async fn begin_epoch(
    deployment: &Deployment,
    partition: Partition,
    run_id: &str,
) -> Result<()> {
    loop {
        let cursor = accept_run(deployment, partition, run_id).await?;
        let next = log_cursor::ActiveModel { epoch: Set(cursor.epoch + 1), ..Default::default() };
        let moved = log_cursor::Entity::update_many()
            .set(next)
            .filter(is_still(&cursor))
            .exec(&deployment.db)
            .await?;
        if moved.rows_affected == 1 {
            return Ok(());
        }
    }
}

fn tip(cursor: &log_cursor::Model, found: &Found) -> (u64, String) {
    found.descendants.last().map_or_else(
        || (cursor.seq as u64, cursor.commit_id.clone()),
        |commit| (commit.seq, commit.id.clone()),
    )
}
