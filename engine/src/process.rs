//! A process: the signals that stop it.

use rustix::process::Signal as Number;
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
