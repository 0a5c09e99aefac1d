//! The end of the program by a signal: the batch under way is finished, within a bound.

use std::time::Duration;

use engine::process::StopSignals;
use tokio::sync::watch;
use tokio::time::sleep;

/// How long the batch under way may take after a signal; then it is left to the broker, which hands
/// it out again.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// A signal, once there was one.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Catches signals from here on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut signals = StopSignals::catch()?;
        let (said, is_said) = watch::channel(false);
        tokio::spawn(async move {
            let why = signals.wait().await;
            tracing::info!("{why}: the batch under way is finished first");
            let _ = said.send(true);
            said.closed().await;
        });
        Ok(Self(is_said))
    }

    /// True once there was a signal.
    pub(crate) fn receiver(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }

    /// Waits for a signal.
    pub(crate) async fn said(&self) {
        let mut told = self.0.clone();
        if told.wait_for(|is_said| *is_said).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the time after a signal is over.
    pub(crate) async fn over(&self) {
        self.said().await;
        sleep(STOP_TIMEOUT).await;
    }
}
