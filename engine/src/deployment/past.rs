//! A database that has gone back behind changes of boards.
//!
//! Changes of boards and seals leave marks in Redis and need no commit, so the seq of a partition
//! does not tell of a database that was restored from before them. The number of the last change of
//! a board does: Redis has it, too. Where the database has a lower one, the marks are ahead of it,
//! and all partitions are loaded from it.

use entity::error::Result;
use entity::sql::signs;
use ranking::id::PartitionNo;

use super::Deployment;

/// The partition whose owner stands for all.
const FIRST: PartitionNo = PartitionNo(0);

impl Deployment {
    /// Tells Redis the number of the last change of a board. If Redis knows a later one, all
    /// partitions are loaded from SQL first.
    ///
    /// # Errors
    /// `NotLevel` if Redis is not this deployment's yet; if a store fails, or if SQL lacks boards
    /// that the logs have events of. Call it again.
    pub(crate) async fn note_board_changes(&self, last: i64) -> Result<()> {
        let owner = self.store.owner(FIRST).await?;
        if owner.is_none_or(|owner| owner.deployment != *self.identity) {
            return Err(ranking::Error::NotLevel(FIRST.0).into());
        }
        if let Some(noted) = self.store.noted_changes().await?
            && noted > last
            // Another process may have noted a change since the caller looked.
            && noted > signs::read(&self.db).await?.last_change
        {
            tracing::warn!(
                "the database has gone back behind changes of boards: Redis is loaded from it"
            );
            let deployment = self.clone();
            // A caller that waits no longer does not end it.
            let loading = tokio::spawn(async move { deployment.reload_all().await });
            loading.await.map_err(|error| ranking::Error::Unavailable(error.to_string()))??;
        }
        Ok(self.store.note_changes(last).await?)
    }

    async fn reload_all(&self) -> Result<()> {
        for partition in self.partitions() {
            partition.reload().await?;
        }
        Ok(())
    }
}
