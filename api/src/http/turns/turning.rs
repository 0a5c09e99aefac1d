//! The way of a request into a turn, and what keeps it out of one.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio_util::sync::CancellationToken;

tokio::task_local! {
    /// The way of the present request into a turn.
    pub(super) static PRESENT: Arc<Turning>;
}

/// The way of a request into a turn: it begins as a light one, and goes on there once it has turned
/// out heavy.
#[derive(Debug, Default)]
pub struct Turning {
    /// Cancelled once the request wants a turn.
    pub(super) due: CancellationToken,
    /// Cancelled once it has one.
    pub(super) begun: CancellationToken,
    /// The guards of [`share`] that it holds.
    shared: AtomicUsize,
}

impl Turning {
    /// Asks for a turn, and waits for it. Other parts of the request go on meanwhile.
    pub async fn turn(&self) {
        self.due.cancel();
        self.begun.cancelled().await;
    }

    /// Waits until no other request waits for this one. Polled after the request, which alone
    /// changes that.
    pub(super) async fn unshared(&self) {
        poll_fn(|_| match self.shared.load(Ordering::SeqCst) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }
}

/// Keeps the present request out of turns until it is dropped.
#[derive(Debug)]
pub struct Shared(Option<Arc<Turning>>);

/// Keeps the present request out of turns while others may wait for what it does.
pub fn share() -> Shared {
    let present = PRESENT.try_with(Arc::clone).ok();
    if let Some(turning) = &present {
        turning.shared.fetch_add(1, Ordering::SeqCst);
    }
    Shared(present)
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(turning) = &self.0 {
            turning.shared.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
