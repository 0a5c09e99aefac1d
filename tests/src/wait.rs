//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// How long a process may take to start, or the background work to catch up, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What `probe` finds, as soon as it finds something; panics, naming what was waited for, when
/// [`PATIENCE`] is over.
pub async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {} s", PATIENCE.as_secs());
        tokio::time::sleep(PAUSE).await;
    }
}

/// As [`until`], where what is looked at blocks the thread.
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
