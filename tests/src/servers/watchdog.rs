//! A shell that keeps a server. The server stops when the standard input of the shell closes: a
//! static is never dropped, but a pipe closes with its process, however that ends.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running shell.
pub(crate) struct Watchdog {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Watchdog {
    /// Starts a script with arguments from $1 on, and waits until it says `ready`.
    pub(crate) fn start(script: &str, arguments: &[&OsStr]) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(arguments)
            // A Ctrl-C in the terminal is for this process; the watchdog follows it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut watchdog = Self { child, output };
        watchdog.wait_until_ready();
        watchdog
    }

    /// Writes a line to the script, and waits until it says `ready` again.
    pub(crate) fn tell(&mut self, command: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{command}\n").as_bytes()).unwrap();
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the server does not start");
    }
}
