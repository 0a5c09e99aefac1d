//! Steps at which a test makes this program end, as kill -9 would. Release builds ignore them.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable that names a step; with `:2`, the second time that the program reaches it.
const VARIABLE: &str = "CRASH_AT";

/// The size of a batch: 1 if a failpoint is set, so that there are several steps; otherwise
/// `count`.
pub fn batch_size(count: usize) -> usize {
    let is_asked = cfg!(debug_assertions) && std::env::var_os(VARIABLE).is_some();
    if is_asked { 1 } else { count }
}

/// Aborts the process if the variable names this step.
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
