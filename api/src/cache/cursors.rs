//! SQL's cursors, each read once for all requests that wait for it.

use std::time::Duration;

use engine::deployment::Deployment;
use entity::history::log_cursor;
use ranking::id::PartitionNo;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Result;
use crate::health::Health;

/// How often requests that wait ask SQL.
pub const INTERVAL: Duration = Duration::from_millis(10);

/// The cursor of each partition, as last read.
pub struct Cursors(Vec<Mutex<Option<Read>>>);

#[derive(Clone, Copy)]
struct Read {
    began: Instant,
    seq: u64,
}

impl Cursors {
    /// Starts empty.
    pub fn new(deployment: &Deployment) -> Self {
        let partitions = deployment.store.partitions().each();
        Self(partitions.map(|_| Mutex::default()).collect())
    }

    /// The seq up to which SQL has a partition's commits, read [`INTERVAL`] ago at most, by a
    /// connection that writes nothing: what it reads is committed.
    ///
    /// # Errors
    /// `UNAVAILABLE` if SQL does not answer.
    pub async fn seq(
        &self,
        deployment: &Deployment,
        health: &Health,
        partition: PartitionNo,
    ) -> Result<u64> {
        let mut last = self.0[usize::from(partition.0)].lock().await;
        if let Some(read) = *last
            && read.began.elapsed() < INTERVAL
        {
            return Ok(read.seq);
        }
        let began = Instant::now();
        let look_up = async { Ok(log_cursor::of(&deployment.lookups, partition).await?) };
        let cursor = health.sql.ask_again(look_up).await?;
        let seq = cursor.map_or(0, |cursor| cursor.seq.unsigned_abs());
        *last = Some(Read { began, seq });
        Ok(seq)
    }
}
