//! Conditions that are waited for, with a deadline.

use std::time::{Duration, Instant};

/// The longest time that a process may take to start, or the background work to catch up, on a busy
/// machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The pause between two probes.
const PAUSE: Duration = Duration::from_millis(20);

/// Calls `probe` until it finds something, and returns that; panics with a message when
/// [`PATIENCE`] is over.
pub async fn until<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, probe).await
}

/// Like [`until`], with another patience.
pub async fn until_within<T>(
    patience: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {} s", patience.as_secs());
        tokio::time::sleep(PAUSE).await;
    }
}

/// Like [`until`], for a probe that blocks its thread.
pub fn until_blocking<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(PAUSE);
    }
}
