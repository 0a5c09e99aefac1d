//! Deliveries that RabbitMQ has handed out ahead, bounded in bytes.
//!
//! The broker bounds what it hands out in messages alone, and its client keeps whatever comes. So
//! they are counted as they come: those beyond the bound are forgotten at once, and the broker has
//! them again when their channel is closed.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lapin::message::{Delivery, DeliveryResult};
use lapin::{Consumer, Error};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The deliveries of a channel that are not settled.
pub(super) struct Ahead {
    /// Those that are not taken yet.
    untaken: UnboundedReceiver<DeliveryResult>,
    held: Arc<Held>,
}

struct Held {
    sender: UnboundedSender<DeliveryResult>,
    bytes_max: usize,
    account: Mutex<Account>,
}

/// The account of the deliveries that are held, taken or not.
#[derive(Default)]
struct Account {
    count: usize,
    bytes: usize,
    /// The most bytes since the last look.
    peak: usize,
    /// The bytes of the longest delivery, held or not.
    longest: usize,
    /// True once one had no room. From then on all are forgotten: an acknowledgement of several
    /// takes along those in between.
    is_over: bool,
}

impl Ahead {
    /// None yet.
    pub(super) fn new(bytes_max: usize) -> Self {
        let (sender, untaken) = unbounded_channel();
        Self { untaken, held: Arc::new(Held { sender, bytes_max, account: Mutex::default() }) }
    }

    /// None yet, on another channel, with the longest one known.
    pub(super) fn again(&self) -> Self {
        let again = Self::new(self.held.bytes_max);
        again.held.account().longest = self.longest();
        again
    }

    /// Holds what a consumer gets from here on.
    pub(super) fn listen(&self, consumer: &Consumer) {
        let held = self.held.clone();
        // It is called as each delivery comes, before the next one is read.
        consumer.set_delegate(move |delivery: DeliveryResult| {
            held.hold(delivery);
            ready(())
        });
    }

    /// Holds one more.
    pub(super) fn hold(&self, delivery: Delivery) {
        self.held.hold(Ok(Some(delivery)));
    }

    /// The next delivery; `None` if the broker has ended the consumer.
    pub(super) async fn next(&mut self) -> Result<Option<Delivery>, Error> {
        self.untaken.recv().await.unwrap_or(Ok(None))
    }

    /// How many came and were not taken, at least.
    pub(super) fn untaken(&self) -> usize {
        self.untaken.len() + usize::from(self.held.account().is_over)
    }

    /// True if some had no room, and all others are taken.
    pub(super) fn is_over(&self) -> bool {
        self.held.account().is_over && self.untaken.is_empty()
    }

    /// Gives back the room of so many deliveries, which are settled.
    pub(super) fn release(&self, count: usize, bytes: usize) {
        let mut account = self.held.account();
        account.count -= count;
        account.bytes -= bytes;
    }

    /// The bytes of the longest delivery, whether it had room or not.
    pub(super) fn longest(&self) -> usize {
        self.held.account().longest
    }

    /// Forgets how long the longest was.
    pub(super) fn forget_longest(&self) {
        self.held.account().longest = 0;
    }

    /// The most bytes that were held since the last call.
    pub(super) fn take_peak(&self) -> usize {
        let mut account = self.held.account();
        let bytes = account.bytes;
        std::mem::replace(&mut account.peak, bytes)
    }
}

impl Held {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, delivery: DeliveryResult) {
        if let Ok(Some(delivery)) = &delivery {
            let mut account = self.account();
            account.longest = account.longest.max(delivery.data.len());
            let bytes = account.bytes + delivery.data.len();
            account.is_over |= account.count > 0 && bytes > self.bytes_max;
            if account.is_over {
                return;
            }
            account.count += 1;
            account.bytes = bytes;
            account.peak = account.peak.max(bytes);
        }
        // The other end is gone when the channel was given up.
        let _ = self.sender.send(delivery);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn deliveries_beyond_the_bound_are_forgotten_with_all_that_follow() {
        let mut ahead = Ahead::new(100);
        let tag = async |ahead: &mut Ahead| ahead.next().await.unwrap().unwrap().delivery_tag;
        let hold = |ahead: &Ahead, tag: u64, bytes: usize| {
            ahead.hold(Delivery::mock(tag, "".into(), "".into(), false, vec![0; bytes]));
        };
        // One that is longer than the bound is held alone.
        hold(&ahead, 1, 200);
        assert_eq!((ahead.untaken(), ahead.is_over()), (1, false));
        assert_eq!(tag(&mut ahead).await, 1);
        ahead.release(1, 200);
        for number in 2..=4 {
            hold(&ahead, number, 40);
        }
        hold(&ahead, 5, 0);
        assert_eq!((ahead.take_peak(), ahead.take_peak()), (200, 80));
        // Room that comes back does not let a later one in between.
        assert_eq!(tag(&mut ahead).await, 2);
        ahead.release(1, 40);
        hold(&ahead, 6, 1);
        assert_eq!((ahead.untaken(), ahead.is_over()), (2, false));
        assert_eq!(tag(&mut ahead).await, 3);
        assert_eq!((ahead.untaken(), ahead.is_over()), (1, true));
        assert_eq!((ahead.longest(), ahead.again().longest()), (200, 200));
    }
}
