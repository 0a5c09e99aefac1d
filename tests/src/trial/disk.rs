//! A disk of its own for a store, which can be full: a small file system where this process may
//! mount one, else a limit for the size of files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The size of the file system, in MiB.
const SIZE_MIB: usize = 160;

/// A directory with a disk of its own.
pub struct SmallDisk {
    dir: PathBuf,
    is_mounted: bool,
}

impl SmallDisk {
    /// Makes the directory.
    pub fn new(dir: &Path) -> Self {
        fs::create_dir(dir).unwrap();
        let options = format!("size={SIZE_MIB}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        Self { dir: dir.to_owned(), is_mounted }
    }

    /// Lets processes write no more; without a file system of its own, just these.
    pub fn fill(&self, pids: &[u32]) {
        if !self.is_mounted {
            pids.iter().for_each(|&pid| limit(pid, &self.largest().to_string()));
            return;
        }
        let mut file = File::create(self.filler()).unwrap();
        for bytes in [1 << 20, 4 << 10, 1] {
            let piece = vec![0; bytes];
            while file.write_all(&piece).is_ok() {}
        }
    }

    /// Makes room again.
    pub fn free(&self, pids: &[u32]) {
        match self.is_mounted {
            true => fs::remove_file(self.filler()).unwrap(),
            false => pids.iter().for_each(|&pid| limit(pid, "unlimited")),
        }
    }

    fn filler(&self) -> PathBuf {
        self.dir.join("filler")
    }

    /// The size of its largest file, in bytes.
    fn largest(&self) -> u64 {
        let mut largest = 0;
        let mut dirs = vec![self.dir.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(data) if data.is_dir() => dirs.push(entry.path()),
                    Ok(data) => largest = data.len().max(largest),
                    Err(_) => {}
                }
            }
        }
        largest
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg("--lazy").arg(&self.dir).status();
        }
    }
}

/// Limits the size of the files that a process writes; the limit can be lifted again.
fn limit(pid: u32, bytes: &str) {
    let limit = format!("--fsize={bytes}:unlimited");
    let status = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status();
    assert!(status.unwrap().success(), "prlimit {limit} of {pid}");
}
