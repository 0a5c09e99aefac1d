//! Restore: makes Redis from SQL and the archive. A level partition stays; others are
//! loaded by the loader that the API uses.

use std::fmt;
use std::pin::pin;
use std::time::Instant;

use anyhow::Result;
use engine::deployment::Deployment;
use entity::board;
use futures::StreamExt;
use serde::Serialize;

use super::{Rebuilt, rebuild_as};
use crate::job::Job;
use crate::job::side_by_side::{PARTITIONS_AT_ONCE, side_by_side};

/// The outcome of a restore.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Restored {
    partitions: usize,
    seconds: f64,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} partitions are level with SQL, after {:.1} s", self.partitions, self.seconds)
    }
}

/// Makes every partition level with SQL.
pub async fn restore(deployment: &Deployment) -> Result<Restored> {
    let job = Job::begin(deployment, entity::job::RESTORE, None).await?;
    let outcome = level(deployment, &job).await;
    job.end(outcome).await
}

/// Makes every partition of a board level, then rebuilds all its standings from its history.
///
/// # Errors
/// As [`super::rebuild`].
pub async fn restore_board(deployment: &Deployment, row: &board::Model) -> Result<Rebuilt> {
    rebuild_as(deployment, entity::job::RESTORE, row, None).await
}

async fn level(deployment: &Deployment, job: &Job) -> Result<Restored> {
    let began = Instant::now();
    let partitions: Vec<_> = deployment.store.partitions().each().collect();
    let count = partitions.len();
    job.stage("restoring", count);
    let settled = |partition| {
        let deployment = deployment.clone();
        async move { deployment.partition(partition).settle().await }
    };
    let mut each = pin!(side_by_side(partitions, PARTITIONS_AT_ONCE, settled));
    while let Some(settled) = each.next().await {
        settled?;
        job.advance(1);
    }
    Ok(Restored { partitions: count, seconds: began.elapsed().as_secs_f64() })
}
