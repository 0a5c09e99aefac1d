//! A process: the signals that stop it, and the files that it may open.

use rustix::process::{Resource, Rlimit, Signal as Number, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, caught from the start on: a signal during the start still stops the process
/// in order.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// A file at its size limit is an error of its writer, not the end of the process.
    _file_size: Signal,
}

impl StopSignals {
    /// Catches the signals from here on.
    ///
    /// # Errors
    /// The system's, if it has no room for a handler.
    pub fn catch() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            _file_size: signal(SignalKind::from_raw(Number::XFSZ.as_raw()))?,
        })
    }

    /// Waits for the next signal, and names its sender.
    pub async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "stopped by the user",
            _ = self.terminate.recv() => "stopped by a signal",
        }
    }
}

/// Lets the process open as many files as its user allows it. The lower number with which a
/// process begins is for programs that wait by `select`.
pub fn open_many_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where the system refuses, settings hold for the lower number.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
