//! The reasons for the program to stop early: signals, or the end of standard input.

use anyhow::Result;
use engine::process::StopSignals;
use tokio::sync::oneshot;

/// The reasons for this program to stop early.
pub struct Stop {
    signals: StopSignals,
    /// Resolves at the end of standard input, if the process watches it.
    stdin: Option<oneshot::Receiver<()>>,
}

impl Stop {
    /// Begins to wait for signals, and for the end of standard input if asked to.
    pub fn new(with_stdin: bool) -> Result<Self> {
        let stdin = with_stdin.then(|| {
            let (ended, is_ended) = oneshot::channel();
            // A thread of its own: tokio would wait for the read when the program ends.
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                let _ = ended.send(());
            });
            is_ended
        });
        Ok(Self { signals: StopSignals::catch()?, stdin })
    }

    /// True if the server has started this program.
    pub fn is_of_server(&self) -> bool {
        self.stdin.is_some()
    }

    /// Waits for the next reason, and names it.
    pub async fn wait(&mut self) -> &'static str {
        let stdin_ends = async {
            match self.stdin.take() {
                Some(ended) => drop(ended.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            why = self.signals.wait() => why,
            () = stdin_ends => "stopped with the server",
        }
    }
}
