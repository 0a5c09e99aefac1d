//! Failures, told when they happen: the test runner keeps them until the last test is over. A test
//! that hangs is one, too: it ends the run, as the runner would wait for it forever.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{self, Command};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{io, panic, thread};

use crate::extent;

/// The most characters of a failure that are told at once.
const CHARACTERS_MAX: usize = 600;

/// A test that has run for so long hangs, unless it is to take its time: the slowest takes minutes.
const TEST_MAX: Duration = Duration::from_secs(20 * 60);

/// The exit status of a run of tests that failed.
const FAILED: i32 = 101;

/// The tests that run, with their beginning.
static RUNNING: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    static PRESENT: OnceCell<Test> = const { OnceCell::new() };
}

/// A test that runs, by its name.
struct Test(String);

impl Drop for Test {
    fn drop(&mut self) {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Notes that the test of this thread runs, and ends the process once a test hangs.
fn watch() {
    let thread = thread::current();
    let Some(name) = thread.name().filter(|name| name.contains("::")) else { return };
    PRESENT.with(|present| {
        present.get_or_init(|| {
            let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
            running.insert(name.to_owned(), Instant::now());
            Test(name.to_owned())
        });
    });
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let most = TEST_MAX + extent::time().unwrap_or_default();
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_secs(10));
                let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((name, _)) = running.iter().find(|(_, at)| at.elapsed() > most) {
                    end_hung(name, most);
                }
            }
        });
    });
}

/// Ends the process, as a test hangs, with all that it has started: tells its name, and what runs.
fn end_hung(name: &str, most: Duration) -> ! {
    let minutes = most.as_secs() / 60;
    let _ = writeln!(io::stderr(), "{name} hangs: it has run for {minutes} minutes, among these");
    let _ = Command::new("ps").args(["-eHo", "pid,etime,stat,wchan:20,args"]).status();
    let _ = Command::new("pkill").args(["-KILL", "-P", &process::id().to_string()]).status();
    process::exit(FAILED);
}

/// Tells each failure of this process at once, with the seed of its thread.
pub(crate) fn tell_at_once() {
    watch();
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
