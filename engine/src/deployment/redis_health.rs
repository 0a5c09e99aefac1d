//! The partitions whose Redis does not answer, as one probe of the process finds them: readers ask
//! here, so that none has to wait for a silent server itself, and how much SQL then has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ranking::id::PartitionNo;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// How long a partition may wait for recovery before readers go to SQL.
pub const RECOVERY_WAIT: Duration = Duration::from_secs(1);

/// The partitions whose Redis is away.
#[derive(Debug)]
pub struct RedisHealth {
    /// By partition.
    away: watch::Sender<Vec<bool>>,
    /// A reader got no answer.
    doubted: Notify,
    /// How often partitions were away no more.
    returns: AtomicU64,
    /// By partition, the instant up to which SQL is known to have every commit.
    complete: Mutex<Vec<Option<Instant>>>,
}

impl RedisHealth {
    /// So many partitions, none of which is known to be away.
    pub(crate) fn new(count: u16) -> Self {
        Self {
            away: watch::Sender::new(vec![false; count.into()]),
            doubted: Notify::new(),
            returns: AtomicU64::new(0),
            complete: Mutex::new(vec![None; count.into()]),
        }
    }

    /// True if Redis is away for one of these partitions, as far as the process knows.
    pub fn is_away(&self, partitions: &[PartitionNo]) -> bool {
        is_one_away(&self.away.borrow(), partitions)
    }

    /// Notes whether Redis is away for partitions: the probe calls it, and nothing else.
    pub fn note(&self, found: impl IntoIterator<Item = (PartitionNo, bool)>) {
        let mut count = 0;
        let changed = self.away.send_if_modified(|away| {
            let before = away.clone();
            for (no, is_away) in found {
                if std::mem::replace(&mut away[usize::from(no.0)], is_away) && !is_away {
                    self.returns.fetch_add(1, Ordering::Relaxed);
                }
            }
            count = away.iter().filter(|is_away| **is_away).count();
            *away != before
        });
        match (changed, count) {
            (false, _) => {}
            (true, 0) => tracing::info!("Redis answers: reads are answered from it again"),
            (true, partitions) => {
                tracing::warn!(
                    partitions,
                    "Redis is away, or waits for recovery: reads are answered from SQL"
                );
            }
        }
    }

    /// Notes up to which instant SQL has every commit of each partition, about; `None` where that
    /// is not known.
    pub fn note_complete(&self, complete: Vec<Option<Instant>>) {
        *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = complete;
    }

    /// The instant up to which SQL is known to have every commit of these partitions; `None` if
    /// none is known.
    pub fn complete_at(&self, partitions: &[PartitionNo]) -> Option<Instant> {
        let complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        // `None` is the least.
        partitions.iter().map(|no| complete[usize::from(no.0)]).min().flatten()
    }

    /// How often partitions were away no more: what SQL told before may be older than what a client
    /// saw since.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Relaxed)
    }

    /// Tells the probe that a reader got no answer.
    pub(crate) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Waits until a reader has got no answer.
    pub async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Waits until Redis is known to be away for one of these partitions.
    pub(crate) async fn until_away(&self, partitions: &[PartitionNo]) {
        let mut away = self.away.subscribe();
        // The sender lives as long as this.
        let _ = away.wait_for(|away| is_one_away(away, partitions)).await;
    }
}

fn is_one_away(away: &[bool], partitions: &[PartitionNo]) -> bool {
    partitions.iter().any(|no| away[usize::from(no.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [PartitionNo; 2] = [PartitionNo(0), PartitionNo(1)];

    #[tokio::test]
    async fn one_probe_tells_every_reader_of_its_partition() {
        let health = RedisHealth::new(2);
        assert!(!health.is_away(&BOTH));
        let (_, ()) = tokio::join!(health.until_away(&BOTH), async {
            health.note([(PartitionNo(1), true)]);
        });
        health.until_away(&BOTH[1..]).await;
        assert!(health.is_away(&BOTH) && !health.is_away(&BOTH[..1]));
        health.note([(PartitionNo(1), false)]);
        assert!(!health.is_away(&BOTH));
    }
}
