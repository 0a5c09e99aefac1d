//! Recovery: makes a partition level with SQL again after Redis restarted, failed over, was flushed
//! or came back from an old backup.
//!
//! Nothing that SQL has is lost. Commits that only Redis had are lost with it. Those that are still
//! in a log that leads on from SQL's cursor are written to SQL first. The head is set last: until
//! then writes are refused, and reads report that the partition waits.
//!
//! Entries of other programs in the log are passed over. If the log leads to the head without
//! them, all else in Redis is right, and the partition only begins a new log.

use std::time::Duration;

use ranking::store::recovery::{Found, Recovery};
use tokio::time::sleep;

use crate::partition::Partition;
use entity::error::Result;
use entity::history::log_cursor;

/// The run id in a head whose log took no commit, as another program has written to it.
const NO_RUN: &str = "-";

/// The interval at which the lease of a recovery is renewed.
const RENEWAL: Duration = Duration::from_secs(2);

impl Partition<'_> {
    /// Makes the partition level with SQL; does nothing if it is level. If another process is
    /// recovering it, waits 20 ms and returns: call it again.
    ///
    /// # Errors
    /// If a store fails. The partition then stays closed, and the next caller tries again.
    pub async fn recover(self) -> Result<()> {
        let token = entity::random_id();
        let recovery = match self.store.begin_recovery(self.no, &token).await {
            Ok(Some(recovery)) => recovery,
            Ok(None) => {
                sleep(Duration::from_millis(20)).await;
                return Ok(());
            }
            // Out of memory, Redis takes no token; a partition that has all it had needs none.
            Err(error @ ranking::Error::Unavailable(_)) => {
                return if self.renew_head().await? { Ok(()) } else { Err(error.into()) };
            }
            Err(error) => return Err(error.into()),
        };
        let recovered = tokio::select! {
            recovered = self.make_level(&recovery) => recovered,
            lost = keep(&recovery) => lost,
        };
        if recovered.is_err() {
            // Then the next caller need not wait until the lease expires.
            let _ = recovery.abandon().await;
        }
        recovered
    }

    /// Makes the partition level if its log leads from SQL's cursor to the head; writes nothing but
    /// the head. Returns false if the log does not lead there.
    async fn renew_head(self) -> Result<bool> {
        let run_id = self.store.run_id(self.no).await?;
        let cursor = self.accept_run(&run_id).await?;
        let found = self.store.find_log(self.no, cursor.seq as u64, &cursor.commit_id).await?;
        let tip = tip(&cursor, &found);
        match found.head {
            Some(head)
                if (head.seq, &head.commit) == (tip.0, &tip.1)
                    && head.run_id != NO_RUN
                    && !found.has_others =>
            {
                tracing::debug!(partition = %self, seq = head.seq, "Redis is out of memory and has all it had");
                Ok(self.store.renew_head(self.no, &head, &run_id).await?)
            }
            _ => Ok(false),
        }
    }

    async fn make_level(self, recovery: &Recovery) -> Result<()> {
        loop {
            let cursor = self.accept_run(recovery.run_id()).await?;
            let found = recovery.find(cursor.seq as u64, &cursor.commit_id).await?;
            let (seq, tip) = tip(&cursor, &found);
            let at_tip = found.head.filter(|head| (head.seq, &head.commit) == (seq, &tip));
            match at_tip {
                Some(head) if !found.has_others && head.run_id == recovery.run_id() => {
                    return Ok(recovery.abandon().await?);
                }
                // No writer can have moved a head of an earlier run. One of no run has a log that
                // took no commit.
                Some(head) if !found.has_others && head.run_id != NO_RUN => {
                    tracing::debug!(partition = %self, seq, "Redis restarted with all it had");
                    return Ok(recovery.finish(seq, &tip, head.clock_ms).await?);
                }
                // Between the two reads a persister may have moved the cursor and trimmed the log.
                _ if self.accept_run(recovery.run_id()).await? != cursor => {}
                at_tip => return self.load(recovery, at_tip).await,
            }
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

fn tip(cursor: &log_cursor::Model, found: &Found) -> (u64, String) {
    found.descendants.last().map_or_else(
        || (cursor.seq as u64, cursor.commit_id.clone()),
        |commit| (commit.seq, commit.id.clone()),
    )
}
