//! A clock of its own for a process, by a library that is loaded before libc; it can be set while
//! the process runs.
//!
//! libfaketime is none for redis-server: the two wait for each other while its allocator starts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The source of the library.
const SOURCE: &str = include_str!("fake_clock.c");

static LIBRARY: OnceLock<PathBuf> = OnceLock::new();

/// A clock that is off by some seconds; right at first.
pub struct FakeClock {
    file: PathBuf,
}

impl FakeClock {
    /// A clock whose setting lies in a directory.
    pub fn new(dir: &Path, name: &str) -> Self {
        let clock = Self { file: dir.join(format!("{name}.clock")) };
        clock.set(0);
        clock
    }

    /// Puts it so many seconds ahead of the machine's; behind if negative. Processes see it within
    /// a second.
    pub fn set(&self, ahead_seconds: i64) {
        // Renamed, as a process may read it at any instant.
        let written = self.file.with_extension("new");
        std::fs::write(&written, format!("{ahead_seconds:+}\n")).unwrap();
        std::fs::rename(written, &self.file).unwrap();
    }

    /// How many seconds it is ahead of the machine's.
    pub fn ahead_seconds(&self) -> i64 {
        std::fs::read_to_string(&self.file).unwrap().trim().parse().unwrap()
    }

    /// The variables of a process that goes by it. Timers go by the machine's clock.
    pub fn variables(&self) -> Vec<(String, String)> {
        let library = LIBRARY.get_or_init(build);
        [("LD_PRELOAD", library), ("FAKE_CLOCK_FILE", &self.file)]
            .map(|(name, path)| (name.to_owned(), path.display().to_string()))
            .into()
    }
}

/// Compiles the library beside this test, by the compiler that links it.
fn build() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("fake_clock.so");
    // Renamed, as another test may build it at the same time.
    let built = library.with_extension(std::process::id().to_string());
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-x", "c", "-o"])
        .arg(&built)
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .expect("cc is installed, as Rust needs it");
    let mut input = compiler.stdin.take().expect("it is piped");
    input.write_all(SOURCE.as_bytes()).unwrap();
    drop(input);
    assert!(compiler.wait().unwrap().success(), "cc compiles fake_clock.c");
    std::fs::rename(&built, &library).unwrap();
    library
}
