//! The sign of life of a move: whoever is silent for longer than [`ALIVE_MS`] loses it.

use entity::board::reshard::{ALIVE_MS, Reshard};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use crate::deployment::Deployment;

/// Says all the while that a move is being made, in a task of its own, however long a fold takes, until what is given back is dropped. Whoever lost the
/// move finds out by the next step or commit.
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
            // What is at its end is at nobody's.
            Ok(false) => return,
            // As long as SQL does not answer, nobody can take it over.
            Err(error) => tracing::debug!(%error, "a move cannot say that it goes on"),
        }
    }
}
