//! The heartbeat of a move: a process that is silent for longer than [`ALIVE_MS`] may lose it.

use entity::board::reshard::{ALIVE_MS, Reshard};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep, timeout};

use crate::deployment::Deployment;

/// The interval of renewals.
const RENEWAL: Duration = Duration::from_millis(ALIVE_MS as u64 / 10);

/// The longest time of one renewal. One that fails leaves the lease.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(4);

/// Renews the lease of a move in a task of its own, however long a fold takes, until the returned
/// set is dropped. A process that lost the move learns so from its next step or commit.
pub(super) fn keep_alive(reshard: &Reshard, deployment: &Deployment, no: i64) -> JoinSet<()> {
    let mut keeping = JoinSet::new();
    keeping.spawn(renew_until_lost(deployment.clone(), no, reshard.id.clone()));
    keeping
}

async fn renew_until_lost(deployment: Deployment, no: i64, id: String) {
    loop {
        sleep(RENEWAL).await;
        // A silent connection must not keep the next renewal back.
        match timeout(RENEWAL_TIMEOUT, Reshard::renew(&deployment.db, no, &id)).await {
            Ok(Ok(true)) => {}
            // The move has ended, or another process took it over.
            Ok(Ok(false)) => return,
            // While SQL does not answer, no other process can take the move over.
            Ok(Err(error)) => tracing::debug!(%error, "renewing the lease of a move failed"),
            Err(_) => tracing::debug!("renewing the lease of a move took too long"),
        }
    }
}
