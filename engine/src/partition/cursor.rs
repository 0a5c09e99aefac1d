//! SQL's cursor of a partition: the Redis run whose commits it accepts, and its epochs.

use ranking::commit::ROOT_COMMIT;
use sea_orm::{ActiveValue::Set, EntityTrait, QueryFilter};

use crate::partition::Partition;
use crate::partition::persist::is_still;
use entity::error::Result;
use entity::history::log_cursor;

impl Partition<'_> {
    /// Makes SQL accept commits of the present run of Redis. From here on, no persister of an
    /// earlier run can write.
    pub(super) async fn accept_run(self, run_id: &str) -> Result<log_cursor::Model> {
        loop {
            let Some(cursor) = self.cursor().await? else {
                let first = log_cursor::ActiveModel {
                    partition: Set(self.no.into()),
                    run_id: Set(run_id.to_owned()),
                    seq: Set(0),
                    commit_id: Set(ROOT_COMMIT.to_owned()),
                    epoch: Set(0),
                };
                let insert = log_cursor::Entity::insert(first)
                    .on_conflict_do_nothing_on([log_cursor::Column::Partition]);
                insert.exec_without_returning(&self.db).await?;
                continue;
            };
            if cursor.run_id == run_id {
                return Ok(cursor);
            }
            log_cursor::Entity::update_many()
                .set(log_cursor::ActiveModel {
                    run_id: Set(run_id.to_owned()),
                    ..Default::default()
                })
                .filter(is_still(&cursor))
                .exec(&self.db)
                .await?;
        }
    }

    /// Increments the cursor's epoch by compare-and-set: no persister that read the cursor before
    /// can write.
    pub(super) async fn begin_epoch(self, run_id: &str) -> Result<()> {
        loop {
            let cursor = self.accept_run(run_id).await?;
            let next =
                log_cursor::ActiveModel { epoch: Set(cursor.epoch + 1), ..Default::default() };
            let moved = log_cursor::Entity::update_many()
                .set(next)
                .filter(is_still(&cursor))
                .exec(&self.db)
                .await?;
            if moved.rows_affected == 1 {
                return Ok(());
            }
        }
    }
}
