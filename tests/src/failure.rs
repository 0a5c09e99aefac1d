//! Failures, told when they happen: the test runner keeps them until the last test is over.

use std::cell::Cell;
use std::io::Write;
use std::sync::Once;
use std::{io, panic, thread};

/// The most characters of a failure that are told at once.
const CHARACTERS_MAX: usize = 600;

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Tells each failure of this process at once, with the seed of its thread.
pub(crate) fn tell_at_once() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |failure| {
            let text: String = failure.to_string().chars().take(CHARACTERS_MAX).collect();
            let thread = thread::current();
            let name = thread.name().unwrap_or("a thread");
            let seed = SEED.get().map(|seed| format!(" with LAUREL_TEST_SEED={seed}"));
            // The test runner keeps the text of `eprintln!`.
            let _ = writeln!(io::stderr(), "{name}{} {text}", seed.unwrap_or_default());
            usual(failure);
        }));
    });
}

/// Has failures of this thread told with the seed of its random generator.
pub(crate) fn set_seed(seed: u64) {
    SEED.set(Some(seed));
}
