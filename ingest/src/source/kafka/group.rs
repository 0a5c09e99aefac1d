//! The partitions that a consumer group has given to this process, and since which turn.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;

use crate::format::shortened;

/// The member of a group, as the client calls it back.
#[derive(Default)]
pub(super) struct Group(Mutex<State>);

#[derive(Default)]
struct State {
    /// The partitions, each with the turn in which it came. One that goes and comes again has
    /// another turn: others may have settled more of it meanwhile.
    turns: BTreeMap<i32, u64>,
    turn: u64,
    is_paused: bool,
    /// The last complaint of the client.
    complaint: Option<String>,
}

impl Group {
    /// The turn in which a partition came; `None` if it is not here.
    pub(super) fn turn(&self, partition: i32) -> Option<u64> {
        self.state().turns.get(&partition).copied()
    }

    /// Has partitions that come from here on begin paused, or not. Returns the former state.
    pub(super) fn set_paused(&self, is_paused: bool) -> bool {
        std::mem::replace(&mut self.state().is_paused, is_paused)
    }

    /// The last complaint of the client about brokers.
    pub(super) fn complaint(&self) -> Option<String> {
        self.state().complaint.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn come(&self, partitions: impl Iterator<Item = i32>) {
        let mut state = self.state();
        state.turn += 1;
        let turn = state.turn;
        state.turns.extend(partitions.map(|partition| (partition, turn)));
    }

    fn go(&self, partitions: impl Iterator<Item = i32>) {
        let mut state = self.state();
        for partition in partitions {
            state.turns.remove(&partition);
        }
    }
}

impl ClientContext for Group {
    fn log(&self, _: RDKafkaLogLevel, fac: &str, message: &str) {
        tracing::debug!("librdkafka: {fac}: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {error}: {reason}");
        self.state().complaint = Some(shortened(reason));
    }
}

impl ConsumerContext for Group {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                self.come(list.elements().iter().map(|element| element.partition()));
            }
            Rebalance::Revoke(list) => {
                self.go(list.elements().iter().map(|element| element.partition()));
            }
            Rebalance::Error(error) => tracing::debug!("the group is in trouble: {error}"),
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Assign(list) = rebalance else { return };
        // A partition that was paused when it left is paused when it comes back. Messages that come
        // while a batch is under way wait here until that is settled.
        let set = match self.state().is_paused {
            true => consumer.pause(list),
            false => consumer.resume(list),
        };
        if let Err(error) = set {
            tracing::debug!("new partitions are not paused or resumed: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_comes_again_has_another_turn() {
        let group = Group::default();
        group.come([0, 1].into_iter());
        let first = group.turn(0);
        assert!(first.is_some() && first == group.turn(1));
        group.go([0].into_iter());
        assert_eq!(group.turn(0), None);
        group.come([0].into_iter());
        assert!(group.turn(0).is_some() && group.turn(0) != first);
        assert_eq!(group.turn(1), first);
    }
}
