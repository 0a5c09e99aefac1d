//! A clock of its own for a process, by libfaketime; it can be set while the process runs.

use std::path::{Path, PathBuf};

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
        [
            ("LD_PRELOAD", library().display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// The library for programs with threads.
fn library() -> PathBuf {
    let roots = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
    let below = roots.into_iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten();
    let dirs = below.filter_map(|entry| Some(entry.ok()?.path()));
    let dirs = dirs.flat_map(|dir| [dir.join("faketime"), dir]);
    let mut places = dirs.map(|dir| dir.join("libfaketimeMT.so.1"));
    places.find(|place| place.exists()).expect("libfaketime is installed: `make faults` does it")
}
