//! The counts that Linux keeps for a process: time of the processors, and memory.

use std::fmt;
use std::fs::DirEntry;
use std::path::Path;
use std::time::Duration;

/// The unit of times in `/proc`, on every Linux: `USER_HZ`.
const TICK: Duration = Duration::from_millis(10);

/// A running process of this user.
#[derive(Debug, Clone, Copy)]
pub struct Process(u32);

/// The time and memory that an attack took.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Time of the processors, of users and of the system.
    pub cpu: Duration,
    /// The greatest memory during the attack, less that before it.
    pub grown_bytes: u64,
}

impl Spent {
    /// The excess over each limit, in words.
    pub fn excess(self, cpu: Duration, bytes: u64) -> Vec<String> {
        let mut excess = vec![];
        if self.cpu > cpu {
            excess.push(format!("{} ms of CPU", self.cpu.as_millis()));
        }
        if self.grown_bytes > bytes {
            excess.push(format!("{} MiB more", self.grown_bytes >> 20));
        }
        excess
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6} ms of CPU {:5} MiB", self.cpu.as_millis(), self.grown_bytes >> 20)
    }
}

impl Process {
    /// The process of an id.
    pub fn of(pid: u32) -> Self {
        Self(pid)
    }

    /// True until it ends.
    pub fn is_running(&self) -> bool {
        let stat = std::fs::read_to_string(self.path("stat"));
        stat.is_ok_and(|text| {
            text.rsplit_once(") ").is_some_and(|(_, words)| !words.starts_with('Z'))
        })
    }

    /// The time that it has taken on the processors so far.
    pub fn cpu(&self) -> Duration {
        let text = self.read("stat");
        // The name in brackets may have spaces; user and system time are 12 and 13 words after it.
        let (_, words) = text.rsplit_once(") ").unwrap();
        let ticks: u32 =
            words.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u32>().unwrap()).sum();
        TICK * ticks
    }

    /// Makes the memory of now the greatest.
    pub fn reset_peak(&self) {
        std::fs::write(self.path("clear_refs"), "5").unwrap();
    }

    /// The greatest memory since the last reset; 0 of a process that ends.
    pub fn peak_bytes(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// The memory of now; 0 of a process that ends.
    pub fn resident_bytes(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most files that it may have open.
    pub fn files_max(&self) -> u64 {
        let limits = self.read("limits");
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let soft = line.unwrap().split_whitespace().next().unwrap();
        soft.parse().unwrap_or(u64::MAX)
    }

    fn status(&self, name: &str) -> u64 {
        let text = self.read("status");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.map(|line| line.trim_end_matches("kB").trim().parse::<u64>().unwrap());
        kib.unwrap_or_default() << 10
    }

    fn read(&self, file: &str) -> String {
        let path = self.path(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.0)
    }
}

/// The redis-server whose socket lies in a directory.
pub fn redis_in(directory: &Path) -> Option<u32> {
    let directory = directory.to_str().unwrap();
    let pid = |entry: DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let is_redis = |pid: &u32| {
        let title = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        title.contains("redis-server") && title.contains(directory)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(pid).find(is_redis)
}
