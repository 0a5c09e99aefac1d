//! A database that has gone back behind changes of boards.
//!
//! Changes of boards and seals leave marks in Redis and need no commit, so the seq of a partition
//! does not tell of a database that was restored from before them. The number of the last change of
//! a board does: Redis has it, too. Where the database has a lower one, the marks are ahead of it,
//! and all partitions are loaded from it.

use std::collections::BTreeSet;

use entity::error::Result;
use entity::sql::signs;
use ranking::id::PartitionNo;

use super::Deployment;
use crate::partition::pasts::gone_back;

/// The partition whose owner stands for all.
const FIRST: PartitionNo = PartitionNo(0);

/// The partitions that are loaded already from a database that has gone back.
pub(crate) type Reloaded = tokio::sync::Mutex<BTreeSet<PartitionNo>>;

impl Deployment {
    /// Tells Redis the number of the last change of a board. If Redis knows a later one, it begins
    /// to load all partitions from SQL, and tells it afterwards.
    ///
    /// # Errors
    /// `NotLevel` if Redis is not this deployment's yet; `Unavailable` while partitions are loaded,
    /// or if SQL lacks boards that the logs have events of; if a store fails. Call it again.
    pub(crate) async fn note_board_changes(&self, last: i64) -> Result<()> {
        let owner = self.store.owner(FIRST).await?;
        if owner.is_none_or(|owner| owner.deployment != *self.identity) {
            return Err(ranking::Error::NotLevel(FIRST.0).into());
        }
        match self.store.noted_changes().await? {
            Some(noted) if noted == last => Ok(()),
            // Another process may have noted a change since the caller looked.
            Some(noted) if noted > last && self.lacks_changes(noted).await? => {
                if self.reloaded.try_lock().is_ok() {
                    self.check_all_fit().await?;
                    let deployment = self.clone();
                    tokio::spawn(async move {
                        if let Err(error) = deployment.reload_all().await {
                            tracing::warn!(%error, "Redis is not loaded yet from the database");
                        }
                    });
                }
                Err(ranking::Error::Unavailable(
                    "the database has gone back behind changes of boards: Redis is loaded from it"
                        .into(),
                )
                .into())
            }
            Some(noted) if noted > last => Ok(()),
            _ => Ok(self.store.note_changes(last).await?),
        }
    }

    /// Checks that SQL has not lost changes of boards that Redis knows.
    ///
    /// # Errors
    /// `Unavailable` if it has; if a store fails.
    pub(crate) async fn check_changes(&self) -> Result<()> {
        match self.store.noted_changes().await? {
            Some(noted) if self.lacks_changes(noted).await? => {
                let why = gone_back("Redis knows of later changes of boards");
                Err(ranking::Error::Unavailable(why).into())
            }
            _ => Ok(()),
        }
    }

    async fn lacks_changes(&self, noted: i64) -> Result<bool> {
        Ok(noted > signs::read(&self.db).await?.last_change)
    }

    /// Checks that SQL can take what the logs have for it, before anything is loaded.
    async fn check_all_fit(&self) -> Result<()> {
        for partition in self.partitions() {
            let cursor = partition.cursor_or_root().await?;
            let found =
                self.store.find_log(partition.no, cursor.seq as u64, &cursor.commit_id).await?;
            if let Some(why) = partition.misfit(&found).await? {
                return Err(
                    ranking::Error::Unavailable(format!("partition {partition}: {why}")).into()
                );
            }
        }
        Ok(())
    }

    /// Loads the partitions one by one, unless the process does already. One that fails is tried
    /// again by the next call, and those before it are not.
    async fn reload_all(&self) -> Result<()> {
        let Ok(mut reloaded) = self.reloaded.try_lock() else {
            return Ok(());
        };
        for partition in self.partitions() {
            let noted = self.store.noted_changes().await?;
            if !self.lacks_changes(noted.unwrap_or(0)).await? {
                // Another process has loaded all of them.
                break;
            }
            if !reloaded.contains(&partition.no) {
                partition.reload().await?;
                reloaded.insert(partition.no);
            }
        }
        reloaded.clear();
        Ok(self.store.note_changes(signs::read(&self.db).await?.last_change).await?)
    }
}
