//! A diff that several processes share: each compares some of the partitions, and all are one run.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use engine::deployment::Deployment;
use engine::failpoint;
use engine::job::part::Part;
use entity::integrity::integrity_run;
use entity::sql::begin;
use futures::FutureExt;
use serde::{Deserialize, Serialize};

use super::findings::FINDINGS_MAX;
use super::found::Found;
use super::proof::Proven;
use super::scope::Scope;
use super::{Against, Arguments, ROUNDS_MAX, compare_and_repair, keep, slugs};
use crate::find_boards;
use crate::job::Job;
use crate::job::part::{BegunPart, DonePart, Figures, share};

/// The most findings that a part keeps: those of the first comparison and of each round of repair.
/// The findings of a part have the indices from this number times its own on.
const PART_FINDINGS_MAX: usize = FINDINGS_MAX * (ROUNDS_MAX + 1);

/// The figures of a part, or of all.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Totals {
    checked: u64,
    found: usize,
    repaired: usize,
    /// Differences left after a repair; `None` without `--repair`.
    left: Option<usize>,
    proven: Proven,
    seconds: f64,
}

/// The outcome of a part: with its findings if this process found them.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum PartFound {
    /// As this process found them.
    Now(Box<Found>),
    /// The figures that an earlier process left.
    Earlier(Totals),
}

impl PartFound {
    /// True if everything agrees (after the repair, if there was one).
    pub fn is_clean(&self) -> bool {
        match self {
            Self::Now(found) => found.is_clean(),
            Self::Earlier(totals) => totals.left.unwrap_or(totals.found) == 0,
        }
    }
}

impl fmt::Display for PartFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(found) => found.fmt(f),
            Self::Earlier(totals) => totals.fmt(f),
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { checked, found, repaired, seconds, .. } = self;
        write!(f, "checked {checked} entries, found {found} differences in {seconds:.1} s")?;
        match self.left {
            Some(left) => write!(f, "; repaired {repaired}; {left} differences left"),
            None => Ok(()),
        }
    }
}

impl Totals {
    fn of(found: &Found) -> Self {
        Self {
            checked: found.checked,
            found: found.found,
            repaired: found.repaired(),
            left: found.left,
            proven: found.proven,
            seconds: found.seconds,
        }
    }
}

impl Figures for Totals {
    fn plus(self, other: Self) -> Self {
        let mut proven = self.proven;
        proven.extend(other.proven);
        Self {
            checked: self.checked + other.checked,
            found: self.found + other.found,
            repaired: self.repaired + other.repaired,
            left: self.left.zip(other.left).map(|(left, others)| left + others),
            proven,
            seconds: self.seconds,
        }
    }

    fn in_seconds(self, seconds: f64) -> Self {
        Self { seconds, ..self }
    }
}

/// Compares a part of the boards beside the processes of the other parts, as [`super::diff`] does.
///
/// # Errors
/// If a store does not answer; if another job or another process is in the way, or a board moved
/// since the first part began.
pub async fn diff_part(
    deployment: &Deployment,
    arguments: &Arguments,
    part: Part,
) -> Result<DonePart<PartFound, Totals>> {
    let began = Instant::now();
    let rows = find_boards(deployment, arguments.board.as_deref()).await?;
    let one = arguments.board.as_ref().and_then(|_| rows.first());
    let (partitions, whose) = match one {
        Some(row) => {
            let board = row.to_ranking()?;
            (deployment.store.partitions().of_board(&board), format!("board {}", row.slug))
        }
        None => (deployment.store.partitions().each().collect(), "this deployment".to_owned()),
    };
    let scope = Scope::of(share(part, &partitions, &whose)?);
    let one = one.map(|row| row.no);
    let kind = entity::job::DIFF;
    let begun = Job::begin_part::<Totals>(deployment, kind, one, part, options(arguments)).await?;
    let job = match begun {
        BegunPart::Running(job) => Arc::new(job),
        BegunPart::Done(DonePart { part, job_id, run_id, own, all, is_earlier }) => {
            let own = PartFound::Earlier(own);
            return Ok(DonePart { part, job_id, run_id, own, all, is_earlier });
        }
    };
    let work = async {
        let run_id = job.run_id().context("the run of the diff is unknown")?;
        let found = compare_and_repair(deployment, arguments, &rows, &scope, &job).await?;
        let seconds = began.elapsed().as_secs_f64();
        let found = Found { run_id, slugs: slugs(&rows), seconds, ..found };
        failpoint::hit("part-compared");
        let transaction = begin(&deployment.db).await?;
        keep(&transaction, arguments, &found, usize::from(part.index()) * PART_FINDINGS_MAX)
            .await?;
        let all = job.end_part_in(&transaction, one, Totals::of(&found)).await?;
        if all.is_some() {
            integrity_run::end(&transaction, run_id, deployment.clock.now_ms()).await?;
        }
        transaction.commit().await?;
        job.done_part(PartFound::Now(Box::new(found)), all)
    };
    let outcome = work.boxed().await;
    job.or_fail_part(deployment, one, outcome).await
}

/// The options that all parts must share.
fn options(arguments: &Arguments) -> String {
    let against = arguments.against.map(|against| match against {
        Against::History => "--against history",
        Against::Standings => "--against standings",
    });
    let repair = arguments.repair.then_some("--repair");
    let full = arguments.full.then_some("--full");
    repair.into_iter().chain(against).chain(full).collect::<Vec<_>>().join(" ")
}

const _: () = assert!(
    PART_FINDINGS_MAX * engine::job::part::PARTS_MAX as usize <= i32::MAX as usize,
    "the findings of all parts have indices of 31 bits"
);
