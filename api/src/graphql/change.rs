//! The changes that a mutation makes, as opposed to what it reads after them.
//!
//! A change goes on when its client leaves, as its commit counts. Its answer has no reader then, so
//! that reads after the change end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How often the time without a change is looked at.
const LOOKS: u32 = 10;

/// The changes of a request, which it makes one after the other.
#[derive(Debug, Default)]
pub struct Changes {
    /// Grows when a change begins and when it ends, so that it is odd in between.
    turns: AtomicU64,
}

/// A change that is being made.
#[derive(Debug)]
pub struct Change<'a>(&'a Changes);

impl Changes {
    /// Begins a change, which ends when the answer is dropped.
    pub fn enter(&self) -> Change<'_> {
        self.turns.fetch_add(1, Ordering::SeqCst);
        Change(self)
    }

    /// Waits until the client has gone, and no change has been made for some time.
    pub async fn are_over(&self, gone: &CancellationToken, time: Duration) {
        gone.cancelled().await;
        let mut quiet = 0;
        let mut last = self.turns.load(Ordering::SeqCst);
        while quiet < LOOKS {
            sleep(time / LOOKS).await;
            let now = self.turns.load(Ordering::SeqCst);
            quiet = if now == last && now.is_multiple_of(2) { quiet + 1 } else { 0 };
            last = now;
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.turns.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const TIME: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn changes_are_over_some_time_after_the_client_and_the_last_change() {
        let (changes, gone) = (Changes::default(), CancellationToken::new());
        let are_over = || timeout(10 * TIME, changes.are_over(&gone, TIME));
        assert!(are_over().await.is_err(), "the client is there");
        let change = changes.enter();
        gone.cancel();
        assert!(are_over().await.is_err(), "a change is being made");
        drop(change);
        assert!(timeout(TIME / 2, changes.are_over(&gone, TIME)).await.is_err());
        timeout(1000 * TIME, changes.are_over(&gone, TIME)).await.unwrap();
    }
}
