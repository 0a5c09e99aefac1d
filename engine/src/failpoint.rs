//! Steps at which a test makes this program end, as kill -9 would, or stand still. Release builds
//! ignore them.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;

/// The variable that names the step at which it ends; with `:2`, the second time that it gets
/// there.
const CRASH: &str = "CRASH_AT";

/// The variable that names the step at which the process stops itself, until SIGCONT.
const STOP: &str = "STOP_AT";

/// The size of a batch: 1 if a failpoint is set, so that there are several steps; otherwise
/// `count`.
pub fn batch_size(count: usize) -> usize {
    let is_asked = cfg!(debug_assertions) && std::env::var_os(CRASH).is_some();
    if is_asked { 1 } else { count }
}

/// Aborts the process, or stops it, if a variable names this step.
pub fn hit(step: &str) {
    static ENDS: AtomicUsize = AtomicUsize::new(0);
    static STOPS: AtomicUsize = AtomicUsize::new(0);
    if !cfg!(debug_assertions) {
        return;
    }
    if is_named(step, CRASH, &ENDS) {
        std::process::abort();
    }
    if is_named(step, STOP, &STOPS) {
        // Where the system refuses, the test that waits for it fails.
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    }
}

/// True if a variable names this step, and this time that the program gets there.
fn is_named(step: &str, variable: &str, reached: &AtomicUsize) -> bool {
    let Ok(asked) = std::env::var(variable) else {
        return false;
    };
    let (asked, time) = match asked.split_once(':') {
        Some((asked, time)) => (asked, time.parse().unwrap_or(1)),
        None => (asked.as_str(), 1),
    };
    asked == step && reached.fetch_add(1, Ordering::Relaxed) + 1 == time
}
