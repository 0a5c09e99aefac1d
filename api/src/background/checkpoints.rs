//! A checkpoint of each partition a day.

use std::time::Duration;

use engine::deployment::Deployment;
use engine::history::checkpoint::{self, Due};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The interval at which a process looks whether a checkpoint is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(600);

/// The longest time of one look. A silent connection must not end all of them.
const MAKE_TIMEOUT: Duration = Duration::from_secs(600);

/// Signs checkpoints that are due until `stop` is set.
pub(crate) async fn work(deployment: &Deployment, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        tokio::select! {
            () = sleep(LOOK_INTERVAL) => {}
            _ = stop.changed() => return,
        }
        tokio::select! {
            made = timeout(MAKE_TIMEOUT, checkpoint::make(deployment, Due::Daily)) => match made {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "no checkpoint was made; it is tried again");
                }
                Err(_) => tracing::warn!("checkpoints took too long; they are tried again"),
            },
            _ = stop.changed() => return,
        }
    }
}
