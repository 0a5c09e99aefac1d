//! Moves a board to another number of shards, as a job; [`engine::reshard`] describes the steps.

use anyhow::Result;
use engine::deployment::Deployment;
use engine::reshard::Resharded;
use entity::board;

use crate::job::Job;
use engine::failpoint;

/// Moves a board to another number of shards.
///
/// # Errors
/// If the board cannot have that number, or cannot be moved.
pub async fn reshard(
    deployment: &Deployment,
    row: &board::Model,
    shards: u16,
) -> Result<Resharded> {
    let job = Job::begin(deployment, entity::job::REBUILD, Some(row.no)).await?;
    let watch = |step: &str| {
        job.stage(step, 0);
        failpoint::hit(step);
    };
    let moved = engine::reshard::reshard(deployment, row.no, shards.into(), &watch).await;
    job.end(moved.map_err(Into::into)).await
}
