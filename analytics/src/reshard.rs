//! Moves a board to another number of shards, as a job; [`engine::reshard`] describes the steps.

use anyhow::Result;
use engine::deployment::Deployment;
use engine::reshard::Resharded;
use entity::board;

use crate::failpoint;
use crate::job::Job;

/// Moves a board to another number of shards.
///
/// # Errors
/// If the board cannot have that number, or cannot be moved.
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

/// The figures, for `--json`.
pub fn to_json(moved: &Resharded) -> serde_json::Value {
    let Resharded { from, to, standings, held_ms, unread_ms, seconds } = moved;
    serde_json::json!({ "from": from, "to": to, "standings": standings, "held_ms": held_ms, "unread_ms": unread_ms, "seconds": seconds })
}
