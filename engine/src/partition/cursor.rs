//! SQL's cursor of a partition: the Redis run whose commits it accepts, the runs before it, and its
//! epochs.

use ranking::commit::ROOT_COMMIT;
use sea_orm::{ActiveValue::Set, EntityTrait, QueryFilter};

use crate::deployment::proxy::former_name;
use crate::partition::Partition;
use crate::partition::persist::is_still;
use entity::error::Result;
use entity::history::log_cursor;

impl Partition<'_> {
    /// Makes SQL accept commits of the present run of Redis, in an epoch that is no earlier than
    /// `epoch`. From here on, no persister of an earlier run can write. A run that follows another
    /// one begins an epoch, and the cursor remembers the former run.
    ///
    /// # Errors
    /// `Unavailable` for a run that an operator named, and that another one has followed: a process
    /// with the former name would take the partitions from those with the present one.
    pub(super) async fn accept_run(self, run_id: &str, epoch: u64) -> Result<log_cursor::Model> {
        let epoch = epoch as i64;
        loop {
            let Some(cursor) = self.cursor().await? else {
                let first = log_cursor::ActiveModel {
                    partition: Set(self.no.into()),
                    run_id: Set(run_id.to_owned()),
                    seq: Set(0),
                    commit_id: Set(ROOT_COMMIT.to_owned()),
                    epoch: Set(epoch + 1),
                    retired_runs: Set(String::new()),
                };
                let insert = log_cursor::Entity::insert(first)
                    .on_conflict_do_nothing_on([log_cursor::Column::Partition]);
                insert.exec_without_returning(&self.db).await?;
                continue;
            };
            if cursor.run_id == run_id && cursor.epoch >= epoch {
                return Ok(cursor);
            }
            if self.store.run_name() == Some(run_id) && cursor.is_retired(run_id) {
                return Err(former_name(run_id, &cursor.run_id).into());
            }
            self.begin_epoch_after(&cursor, run_id, epoch).await?;
        }
    }

    /// Increments the cursor's epoch by compare-and-set: no persister that read the cursor before
    /// can write.
    pub(super) async fn begin_epoch(self, run_id: &str) -> Result<()> {
        loop {
            let cursor = self.accept_run(run_id, 0).await?;
            if self.begin_epoch_after(&cursor, run_id, cursor.epoch).await? {
                return Ok(());
            }
        }
    }

    /// Begins an epoch later than the cursor's and a given one. Returns false if the cursor has
    /// moved.
    async fn begin_epoch_after(
        self,
        cursor: &log_cursor::Model,
        run_id: &str,
        epoch: i64,
    ) -> Result<bool> {
        let next = log_cursor::ActiveModel {
            run_id: Set(run_id.to_owned()),
            epoch: Set(cursor.epoch.max(epoch) + 1),
            retired_runs: Set(cursor.retired_before(run_id)),
            ..Default::default()
        };
        let moved = log_cursor::Entity::update_many()
            .set(next)
            .filter(is_still(cursor))
            .exec(&self.db)
            .await?;
        Ok(moved.rows_affected == 1)
    }
}
