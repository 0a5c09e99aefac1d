//! Where a test may have this program end in the middle, as by kill -9: programs that are released do not look.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable that names a step, or with `:2` the second time that it is reached.
const VARIABLE: &str = "ANALYTICS_CRASH_AT";

/// How many of something one step takes: as few as can be where the program is to end somewhere, so that there are several steps.
pub fn batch_size(count: usize) -> usize {
    let is_asked = cfg!(debug_assertions) && std::env::var_os(VARIABLE).is_some();
    if is_asked { 1 } else { count }
}

/// Ends the process here, where that was asked for.
pub fn hit(step: &str) {
    static REACHED: AtomicUsize = AtomicUsize::new(0);
    if !cfg!(debug_assertions) {
        return;
    }
    let Ok(asked) = std::env::var(VARIABLE) else {
        return;
    };
    let (asked, time) = match asked.split_once(':') {
        Some((asked, time)) => (asked, time.parse().unwrap_or(1)),
        None => (asked.as_str(), 1),
    };
    if asked == step && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == time {
        std::process::abort();
    }
}
