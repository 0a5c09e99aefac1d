//! A rebuild that several processes share: each rebuilds some of the board's partitions.

use std::sync::Arc;

use anyhow::Result;
use engine::deployment::Deployment;
use engine::failpoint;
use engine::job::part::Part;
use entity::board;
use entity::sql::begin;
use futures::FutureExt;
use ranking::window::Window;

use super::source::Source;
use super::{Rebuilt, present, some_partitions};
use crate::job::Job;
use crate::job::part::{BegunPart, DonePart, share};

/// Rebuilds a part of a board, or of one window of it, beside the processes of the other parts.
///
/// # Errors
/// As [`super::rebuild`]; and if another job or another process is in the way, or the board moved
/// since the first part began.
pub async fn rebuild_part(
    deployment: &Deployment,
    row: &board::Model,
    window: Option<Window>,
    part: Part,
) -> Result<DonePart<Rebuilt, Rebuilt>> {
    let (board, _) = present(deployment, row.no, window).await?;
    let mut partitions = deployment.store.partitions().of_board(&board);
    let share = share(part, &partitions, &format!("board {}", row.slug))?;
    partitions.retain(|partition| share.contains(&partition.0));
    let options = window.map(|window| format!("--window {window}")).unwrap_or_default();
    let kind = entity::job::REBUILD;
    let job = match Job::begin_part(deployment, kind, Some(row.no), part, options).await? {
        BegunPart::Running(job) => Arc::new(job),
        BegunPart::Done(done) => return Ok(done),
    };
    let work = async {
        let own =
            some_partitions(deployment, &board, Source::History(window), partitions, &job).await?;
        failpoint::hit("part-rebuilt");
        let transaction = begin(&deployment.db).await?;
        let all = job.end_part_in(&transaction, Some(row.no), own).await?;
        transaction.commit().await?;
        job.done_part(own, all)
    };
    let outcome = work.boxed().await;
    job.or_fail_part(deployment, Some(row.no), outcome).await
}
