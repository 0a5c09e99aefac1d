//! The heartbeat of a move: a process that is silent for longer than [`ALIVE_MS`] may lose it.

use entity::board::reshard::{ALIVE_MS, Reshard};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use crate::deployment::Deployment;

/// Renews the lease of a move in a task of its own, however long a fold takes, until the returned
/// set is dropped. A process that lost the move learns so from its next step or commit.
pub(super) fn keep_alive(reshard: &Reshard, deployment: &Deployment, no: i64) -> JoinSet<()> {
    let mut keeping = JoinSet::new();
    keeping.spawn(renew_until_lost(deployment.clone(), no, reshard.id.clone()));
    keeping
}

async fn renew_until_lost(deployment: Deployment, no: i64, id: String) {
    loop {
        sleep(Duration::from_millis(ALIVE_MS as u64 / 10)).await;
        match Reshard::renew(&deployment.db, no, &id).await {
            Ok(true) => {}
            // The move has ended, or another process took it over.
            Ok(false) => return,
            // While SQL does not answer, no other process can take the move over.
            Err(error) => tracing::debug!(%error, "renewing the lease of a move failed"),
        }
    }
}
