//! Another number of shards for a board, as a job; how it is done is said in [`engine::reshard`].

use anyhow::Result;
use engine::deployment::Deployment;
use engine::reshard::Resharded;
use entity::board;

use crate::failpoint;
use crate::job::Job;

/// Moves a board to another number of shards.
///
/// # Errors
/// Where the number is none that it can have, or it cannot be moved; what the stores say.
pub async fn reshard(
    deployment: &Deployment,
    row: &board::Model,
    shards: u16,
) -> Result<Resharded> {
    let job = Job::begin(&deployment.db, "REBUILD", Some(row.no)).await?;
    let watch = |step: &str| {
        job.stage(step, 0);
        failpoint::hit(step);
    };
    let moved = engine::reshard::reshard(deployment, row.no, shards.into(), &watch).await;
    job.end(moved.map_err(Into::into)).await
}

/// Its figures.
pub fn to_json(moved: &Resharded) -> serde_json::Value {
    let Resharded { from, to, standings, held_ms, unread_ms, seconds } = moved;
    serde_json::json!({ "from": from, "to": to, "standings": standings, "held_ms": held_ms, "unread_ms": unread_ms, "seconds": seconds })
}
