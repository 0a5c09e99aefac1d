//! The partitions whose Redis does not answer, as the probes of the process find them: readers and
//! writers ask here, so that none has to wait for a silent server itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ranking::id::PartitionNo;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// How long a partition may wait for recovery before readers go to SQL.
pub const RECOVERY_WAIT: Duration = Duration::from_secs(1);

/// The state of a partition in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It can be read and written, as far as the process knows.
    Here,
    /// Readers go to SQL, and writers wait: it waits for recovery, or its server is silent for a
    /// moment.
    Away,
    /// Its server gave no answer for so long that writers do not wait either.
    Silent,
}

/// The error of work on a board that has a partition away.
pub(crate) fn away() -> ranking::Error {
    ranking::Error::Unavailable(
        "Redis is away for a partition of the board, or the partition waits for recovery".into(),
    )
}

/// The partitions whose Redis is away.
#[derive(Debug)]
pub struct RedisHealth {
    /// By partition.
    states: watch::Sender<Vec<State>>,
    /// A reader got no answer.
    doubted: Notify,
    /// By partition, how often it was away no more.
    returns: Vec<AtomicU64>,
    /// By partition, the instant up to which SQL is known to have every commit.
    complete: Mutex<Vec<Option<Instant>>>,
}

impl RedisHealth {
    /// So many partitions, none of which is known to be away.
    pub(crate) fn new(count: u16) -> Self {
        Self {
            states: watch::Sender::new(vec![State::Here; count.into()]),
            doubted: Notify::new(),
            returns: (0..count).map(|_| AtomicU64::new(0)).collect(),
            complete: Mutex::new(vec![None; count.into()]),
        }
    }

    /// True if Redis is away for one of these partitions, as far as the process knows.
    pub fn is_away(&self, partitions: &[PartitionNo]) -> bool {
        is_one_away(&self.states.borrow(), partitions)
    }

    /// True if the server of a partition is known to give no answer, so that it takes no score.
    pub fn is_silent(&self, partition: PartitionNo) -> bool {
        self.states.borrow()[usize::from(partition.0)] == State::Silent
    }

    /// Notes the states of partitions: the probe calls it, and nothing else.
    pub fn note(&self, found: impl IntoIterator<Item = (PartitionNo, State)>) {
        let away = |states: &[State]| states.iter().filter(|state| **state != State::Here).count();
        let (mut count, mut count_before, mut changed) = (0, 0, false);
        self.states.send_if_modified(|states| {
            let before = states.clone();
            count_before = away(states);
            for (no, state) in found {
                let was = std::mem::replace(&mut states[usize::from(no.0)], state);
                changed |= (was == State::Here) != (state == State::Here);
                if was != State::Here && state == State::Here {
                    self.returns[usize::from(no.0)].fetch_add(1, Ordering::Relaxed);
                }
            }
            count = away(states);
            *states != before
        });
        match (changed, count) {
            (false, _) => {}
            (true, 0) => tracing::info!("Redis answers: reads are answered from it again"),
            (true, partitions) if partitions < count_before => {
                tracing::info!(partitions, "Redis is back for some partitions, and others wait");
            }
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

    /// How often these partitions were away no more: what SQL told before may be older than what a
    /// client saw since.
    pub(crate) fn returns(&self, partitions: &[PartitionNo]) -> u64 {
        let of = |no: &PartitionNo| self.returns[usize::from(no.0)].load(Ordering::Relaxed);
        partitions.iter().map(of).sum()
    }

    /// Tells the probes that a reader got no answer.
    pub(crate) fn doubt(&self) {
        self.doubted.notify_waiters();
    }

    /// Waits until a reader has got no answer.
    pub async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Waits until Redis is known to be away for one of these partitions.
    pub async fn until_away(&self, partitions: &[PartitionNo]) {
        let mut states = self.states.subscribe();
        // The sender lives as long as this.
        let _ = states.wait_for(|states| is_one_away(states, partitions)).await;
    }

    /// Waits until the server of a partition is known to give no answer.
    pub async fn until_silent(&self, partition: PartitionNo) {
        let mut states = self.states.subscribe();
        let no = usize::from(partition.0);
        // As above.
        let _ = states.wait_for(|states| states[no] == State::Silent).await;
    }
}

fn is_one_away(states: &[State], partitions: &[PartitionNo]) -> bool {
    partitions.iter().any(|no| states[usize::from(no.0)] != State::Here)
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
            health.note([(PartitionNo(1), State::Away)]);
        });
        health.until_away(&BOTH[1..]).await;
        assert!(health.is_away(&BOTH) && !health.is_away(&BOTH[..1]));
        health.note([(PartitionNo(1), State::Here)]);
        assert!(!health.is_away(&BOTH));
    }

    #[tokio::test]
    async fn writers_give_up_only_on_a_silent_server() {
        let health = RedisHealth::new(2);
        health.note([(PartitionNo(1), State::Away)]);
        assert!(health.is_away(&BOTH) && !health.is_silent(PartitionNo(1)));
        let (_, ()) = tokio::join!(health.until_silent(PartitionNo(1)), async {
            health.note([(PartitionNo(1), State::Silent)]);
        });
        assert!(health.is_silent(PartitionNo(1)) && !health.is_silent(PartitionNo(0)));
        assert_eq!(health.returns(&BOTH), 0);
        health.note([(PartitionNo(1), State::Here)]);
        assert!(!health.is_silent(PartitionNo(1)));
        // Answers about the other one are as good as before.
        assert_eq!([health.returns(&BOTH), health.returns(&BOTH[..1])], [1, 0]);
    }
}
