//! Boards made under numbers that Redis knows nothing of.

use entity::board;
use entity::error::Result;
use entity::sql::begin;
use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use ranking::id::BoardNo;

use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::recovery::gone_back;

/// The partitions that are looked at side by side.
const PARTITIONS_AT_ONCE: usize = 16;

/// How often a partition is looked at whose cursor moves meanwhile.
const LOOKS_MAX: usize = 5;

impl Deployment {
    /// Inserts a board, and returns its row. Returns `None` if another board has the slug.
    ///
    /// The number must be new to Redis, too: SQL that has gone back may give out one again, and
    /// events of the board that had it would become this one's.
    ///
    /// # Errors
    /// `Unavailable` if SQL has gone back, or if a store fails.
    pub async fn create_board(&self, row: board::Model) -> Result<Option<board::Model>> {
        let transaction = begin(&self.db).await?;
        let Some(row) = board::insert(&transaction, row).await? else {
            transaction.rollback().await?;
            return Ok(None);
        };
        let no = BoardNo(row.no);
        let checks: Vec<_> =
            self.partitions().map(|partition| partition.check_new(no).boxed()).collect();
        let checks = stream::iter(checks).buffer_unordered(PARTITIONS_AT_ONCE);
        checks.try_collect::<()>().await?;
        transaction.commit().await?;
        Ok(Some(row))
    }
}

impl Partition<'_> {
    /// Checks that the partition has nothing that SQL lost, and no events of a board.
    async fn check_new(self, no: BoardNo) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            let cursor = self.cursor_or_root().await?;
            let seq = cursor.seq as u64;
            let found = self.store.find_log(self.no, seq, &cursor.commit_id).await?;
            let events = found.descendants.iter().flat_map(|commit| &commit.events);
            let how = if events.into_iter().any(|event| event.board == no) {
                format!("Redis has events of board number {no}, which this database never gave out")
            } else if found.had_more(seq) {
                format!("it has commits to {seq}, and it had those to {}", found.settled)
            } else {
                return Ok(());
            };
            // A persister may have moved the cursor since.
            if self.cursor_or_root().await? == cursor {
                let why = format!("partition {self}: {}", gone_back(&how));
                return Err(ranking::Error::Unavailable(why).into());
            }
        }
        Err(ranking::Error::Overloaded(format!("partition {self} is busy; try again")).into())
    }
}
