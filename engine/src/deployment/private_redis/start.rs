//! A start of the private redis-server, and why it failed.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use ranking::{Error, Result};

use super::PASSWORD;

/// The programs that it may be, the first that is installed.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// The name of the server's log in its directory.
const LOG: &str = "redis.log";

/// The most bytes of the log that are read for a message.
const LOG_BYTES_MAX: u64 = 64 << 10;

/// The longest line of the log in a message, in characters.
const LINE_CHARS_MAX: usize = 300;

/// Words of the server's complaints about the file that it loads.
const DAMAGED: [&str; 3] = ["append only file", "AOF", "RDB"];

/// Words of complaints that are the system's and not about what a file holds.
const REFUSED: [&str; 3] = ["No space left", "ermission denied", "Read-only file system"];

/// A server that was started and may still be loading its file.
pub(super) struct Started {
    dir: PathBuf,
    /// Ends with the server. Without a thread that collects the exit status, a dead server stays a
    /// zombie.
    waiting: JoinHandle<()>,
    /// The length of the log before the start.
    log_begin: u64,
}

impl Started {
    /// Starts a server in a directory, at a socket.
    pub(super) fn spawn(dir: &Path, socket: &Path) -> Result<Self> {
        // A dead server's socket file stays behind and would block the new one.
        let _ = fs::remove_file(socket);
        let log = dir.join(LOG);
        let log_begin = fs::metadata(&log).map_or(0, |found| found.len());
        let spawn = |program| spawn(program, (dir, socket), &log);
        let spawned = PROGRAMS.into_iter().map(spawn).find(|spawned| match spawned {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        });
        let is_missing = || Err(io::ErrorKind::NotFound.into());
        let mut child = spawned.unwrap_or_else(is_missing).map_err(|error| {
            Error::Unavailable(format!("redis-server cannot be started ({error}); install it or valkey-server, or name a running one in LAUREL_REDIS_URL"))
        })?;
        let waiting = std::thread::spawn(move || {
            let _ = child.wait();
        });
        Ok(Self { dir: dir.to_owned(), waiting, log_begin })
    }

    /// True once the server is gone.
    pub(super) fn has_ended(&self) -> bool {
        self.waiting.is_finished()
    }

    /// Why a server that is gone ended, by what it wrote to its log.
    pub(super) fn failure(&self) -> String {
        let mut written = vec![];
        if let Ok(mut log) = File::open(self.dir.join(LOG)) {
            let end = log.metadata().map_or(0, |found| found.len());
            let begin = self.log_begin.max(end.saturating_sub(LOG_BYTES_MAX));
            let _ = log.seek(SeekFrom::Start(begin));
            let _ = log.take(LOG_BYTES_MAX).read_to_end(&mut written);
        }
        explained(&self.dir, &String::from_utf8_lossy(&written))
    }
}

/// Starts a program as the server in a directory, at a socket.
fn spawn(program: &str, (dir, socket): (&Path, &Path), log: &Path) -> io::Result<Child> {
    let mut command = Command::new(program);
    // The password is in a file, as every user can read the arguments of a process.
    command.arg(dir.join(PASSWORD));
    command.args(["--port", "0", "--unixsocketperm", "700", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "everysec"]);
    command.args(["--maxmemory-policy", "noeviction", "--lazyfree-lazy-server-del", "yes"]);
    command.args(["--lazyfree-lazy-expire", "yes", "--daemonize", "no"]);
    command.arg("--unixsocket").arg(socket).arg("--dir").arg(dir);
    command.arg("--logfile").arg(log);
    // Its own process group: a Ctrl-C in the terminal reaches its users only, and the last one
    // stops it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()
}

/// The sentence about a server that ended at its start, from what it wrote to its log.
fn explained(dir: &Path, written: &str) -> String {
    // A line is "7:M 23 Nov 2026 00:35:44.504 # text", where # marks a warning.
    let warnings = || written.lines().rev().filter_map(|line| Some(line.split_once(" # ")?.1));
    let cut = |line: &str| line.chars().take(LINE_CHARS_MAX).collect::<String>();
    let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    let (place, log) = (dir.display(), dir.join(LOG));
    let log = log.display();
    match warnings().find(|line| has(line, &DAMAGED)).filter(|line| !has(line, &REFUSED)) {
        Some(line) => {
            let names = ["appendonlydir", "appendonly.aof"].map(|name| dir.join(name));
            let file = names.iter().find(|file| file.exists()).unwrap_or(&names[0]).display();
            format!(
                "redis-server in {place} ended at its start, as its append-only file is damaged or of a newer version ({}): move it away by `mv {file} {file}.damaged` and start again; Redis is then loaded from SQL, and this loses nothing that SQL has, which is all but the last moments unless SQL was away; its log is {log}",
                cut(line)
            )
        }
        None => {
            let line = warnings().next().or(written.lines().next_back()).unwrap_or("no reason");
            format!(
                "redis-server in {place} ended at its start ({}): remove the cause and start again; its log is {log}",
                cut(line)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_told_from_another_cause() {
        let dir = Path::new("/d/redis");
        let damaged = [
            "1:M 1 Jan # Bad file format reading the append only file a.aof: make a backup",
            "1:M 1 Jan # >>> 'garbage'\n\n1:M 1 Jan # Invalid AOF manifest file format\n",
            "1:M 1 Jan # Unable to obtain the AOF file a.aof length. stat: No such file",
            "1:M 1 Jan # Wrong RDB checksum expected: (b) but got (c). Aborting now.",
        ];
        for written in damaged {
            let text = explained(dir, written);
            assert!(
                text.contains("`mv /d/redis/appendonlydir /d/redis/appendonlydir.damaged`"),
                "{text}"
            );
            assert!(text.contains("is damaged"), "{text}");
        }
        let others = [
            "1:M 1 Jan # Can't open or create append-only dir: No space left on device",
            "1:M 1 Jan # Failed opening the AOF file: Permission denied",
            "*** FATAL CONFIG FILE ERROR ***",
            "1:M 1 Jan * RDB is base AOF\n1:M 1 Jan # Could not create server TCP socket",
            "",
        ];
        for written in others {
            let text = explained(dir, written);
            assert!(!text.contains("damaged") && text.contains("redis.log"), "{text}");
        }
    }
}
