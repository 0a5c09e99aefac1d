//! The integrity diff: compares history, SQL and Redis three ways, and repairs them with
//! `--repair`.
//!
//! It compares a board partition by partition, window by window, entry by entry in rank order. An
//! entry that does not agree at first is a suspect. A second look reads a suspect from all three
//! sources at one moment. Only a difference that remains is a finding, so writes under way cause no
//! false ones.
//!
//! For a partition that agreed, SQL keeps digests and sums. If no event has come since and they
//! still match, they prove the partition clean without its history.

mod arguments;
mod at_rest;
mod chain;
pub(crate) mod files;
pub(crate) mod finding;
mod findings;
mod found;
mod kept_metadata;
mod keys;
mod mending;
mod part;
mod positions;
mod proof;
mod rows;
mod scope;
mod second_look;
mod sets;
pub(crate) mod shared;
mod standings_only;
mod sums;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use engine::deployment::Deployment;
use entity::board;
use entity::integrity::{integrity_finding, integrity_proof, integrity_run};
use entity::sql::insert_chunked;
use futures::{FutureExt, StreamExt};
use ranking::id::PartitionNo;
use sea_orm::{ConnectionTrait, IntoActiveModel};
use tokio::sync::OnceCell;

use crate::diff::finding::{Finding, What, name_wrong_windows};
use crate::find_boards;
use crate::fold::load::CheckedStates;
use crate::job::Job;
use crate::job::side_by_side::{PARTITIONS_AT_ONCE, side_by_side};
pub use arguments::{Against, Arguments};
use at_rest::{AtRest, boards_at_rest};
use findings::Findings;
pub use found::Found;
use keys::Keys;
use part::PartitionDiff;
use proof::{Proven, Proving};
use scope::Scope;

/// Rounds of repair: a damaged file, or the limit on findings that a run keeps, may hide further
/// ones.
const ROUNDS_MAX: usize = 20;

/// Proofs that one statement stores: each is a row for a board's partition.
const PROOFS_MAX: usize = 100;

/// Attempts at a comparison that a move or an archive overtakes.
const ATTEMPTS_MAX: usize = 5;

/// The result of a comparison.
#[derive(Debug, Default)]
struct Compared {
    checked: u64,
    findings: Findings,
    proven: Proven,
    /// The partitions in which a board is not proven unchanged.
    changed: BTreeSet<PartitionNo>,
    /// Proofs to be stored.
    proofs: Vec<integrity_proof::Model>,
}

impl Compared {
    fn add(&mut self, other: Self) {
        self.checked += other.checked;
        self.changed.extend(other.changed);
        self.findings.extend(other.findings);
        self.proven.extend(other.proven);
        self.proofs.extend(other.proofs);
    }

    /// Stores the proofs so far. A run that is cut off before does the work of these again.
    async fn store_proofs(&mut self, deployment: &Deployment) -> Result<()> {
        let rows = self.proofs.drain(..).map(IntoActiveModel::into_active_model).collect();
        let on_conflict = Some(integrity_proof::replace());
        Ok(insert_chunked::<integrity_proof::Entity, _>(&deployment.db, rows, on_conflict).await?)
    }
}

/// Compares boards, repairs what differs if asked to, and stores the run and its findings in SQL.
pub async fn diff(deployment: &Deployment, mut arguments: Arguments) -> Result<Found> {
    let began = Instant::now();
    let rows = find_boards(deployment, arguments.board.as_deref()).await?;
    if let Some(plan) = arguments.states.plan() {
        let [row] = &rows[..] else {
            bail!("{} is a plan of one board: name it with --board", plan.display());
        };
        arguments.checked = arguments.states.checked(deployment, row).boxed().await?;
    }
    let one = arguments.board.as_ref().and_then(|_| rows.first()).map(|row| row.no);
    let job = Arc::new(Job::begin(deployment, entity::job::DIFF, one).await?);
    let outcome = run(deployment, &arguments, &rows, one, &job).await;
    let found = outcome.map(|outcome| Found { seconds: began.elapsed().as_secs_f64(), ..outcome });
    job.end(found).await
}

/// Does a run and writes its row.
async fn run(
    deployment: &Deployment,
    arguments: &Arguments,
    rows: &[board::Model],
    one: Option<i64>,
    job: &Arc<Job>,
) -> Result<Found> {
    let (db, clock) = (&deployment.db, &deployment.clock);
    let run_id = integrity_run::begin(db, one, clock.now_ms()).await?;
    let everywhere = Scope::of(0..=u16::MAX);
    let found = Found {
        run_id,
        slugs: slugs(rows),
        ..compare_and_repair(deployment, arguments, rows, &everywhere, job).await?
    };
    keep(db, arguments, &found, 0).await?;
    integrity_run::end(db, run_id, clock.now_ms()).await?;
    Ok(found)
}

fn slugs(rows: &[board::Model]) -> HashMap<i64, String> {
    rows.iter().map(|row| (row.no, row.slug.clone())).collect()
}

/// Writes findings, with indices from `first` on, and adds the figures to the run.
async fn keep(
    db: &impl ConnectionTrait,
    arguments: &Arguments,
    found: &Found,
    first: usize,
) -> Result<()> {
    if arguments.against == Some(Against::Standings) {
        integrity_run::note_partial(db, found.run_id).await?;
    }
    let figures = integrity_run::Figures {
        checked: found.checked as i64,
        found: found.found as i64,
        repaired: found.repaired() as i64,
    };
    // The run's row is locked before its findings refer to it: two parts that end at once would
    // otherwise wait for each other.
    integrity_run::add(db, found.run_id, figures).await?;
    let rows = found.findings.iter().zip(first..);
    let rows = rows.map(|(finding, index)| finding.to_row(found.run_id, index).into_active_model());
    Ok(insert_chunked::<integrity_finding::Entity, _>(db, rows.collect(), None).await?)
}

async fn compare_and_repair(
    deployment: &Deployment,
    arguments: &Arguments,
    rows: &[board::Model],
    everywhere: &Scope,
    job: &Arc<Job>,
) -> Result<Found> {
    let first = compare(deployment, arguments, rows, everywhere, job).await?;
    let mut found = Found {
        checked: first.checked,
        found: first.findings.count,
        findings: first.findings.kept,
        proven: first.proven,
        ..Found::default()
    };
    if !arguments.repair {
        return Ok(found);
    }
    let (mut present, mut left) = (found.findings.clone(), found.found);
    let mut known: BTreeSet<_> = present.iter().map(|finding| finding.identity()).collect();
    let mut still = known.clone();
    for _ in 0..ROUNDS_MAX {
        if left == 0 {
            break;
        }
        let mended = mending::mend(deployment, arguments.against, rows, &present, job).await?;
        let parts = present.iter().map(|finding| (finding.board_no, finding.partition));
        let scope = everywhere.again(parts.collect());
        let again = compare(deployment, arguments, rows, &scope, job).await?;
        found.proven.again(&again.proven);
        left = again.findings.count;
        still = again.findings.kept.iter().map(|finding| finding.identity()).collect();
        for finding in &again.findings.kept {
            // An earlier finding, or the limit on kept findings, hid it.
            if known.insert(finding.identity()) {
                found.found = found.found.max(found.findings.len() + 1);
                found.findings.push(finding.clone());
            }
        }
        present = again.findings.kept;
        if mended == 0 {
            break;
        }
    }
    for finding in &mut found.findings {
        finding.is_repaired = !still.contains(&finding.identity());
    }
    found.left = Some(left);
    Ok(found)
}

/// Compares boards, or parts of them. Starts over if one of them moved or was archived during the
/// comparison.
async fn compare(
    deployment: &Deployment,
    arguments: &Arguments,
    rows: &[board::Model],
    scope: &Scope,
    job: &Arc<Job>,
) -> Result<Compared> {
    let is_overtaken = |error: &anyhow::Error| {
        let error = error.downcast_ref::<entity::Error>();
        matches!(error, Some(entity::Error::Overtaken(_)))
    };
    let mut again = 1..ATTEMPTS_MAX;
    loop {
        match compare_once(deployment, arguments, rows, scope, job).await {
            Err(error) if is_overtaken(&error) && again.next().is_some() => {}
            compared => return compared,
        }
    }
}

async fn compare_once(
    deployment: &Deployment,
    arguments: &Arguments,
    rows: &[board::Model],
    scope: &Scope,
    job: &Arc<Job>,
) -> Result<Compared> {
    let boards = boards_at_rest(deployment, rows, scope).await?;
    let mut compared = Compared::default();
    // The history is read after the keys are listed, so it has every event that the keys show.
    let mut keys = Keys::list(deployment, &boards, arguments.board.is_some()).await?;
    for finding in std::mem::take(&mut keys.foreign) {
        if scope.has(finding.board_no, finding.partition) {
            compared.findings.add(finding);
        }
    }
    let parts = boards.iter().enumerate().flat_map(|(place, (_, _, partitions))| {
        partitions.iter().map(move |partition| (place, *partition))
    });
    let parts: Vec<(usize, PartitionNo)> = parts.collect();
    let options = Options {
        is_history: arguments.against != Some(Against::Standings),
        may_be_proven: !arguments.full && arguments.checked.is_none() && !scope.is_again(),
        is_exclusive: arguments.exclusive,
        states: arguments.checked.clone(),
    };
    // The parts of a board share what was read before the first of them.
    let mut proving: (usize, Arc<OnceCell<Proving>>) = Default::default();
    let of_part = |(place, no): (usize, PartitionNo)| {
        if proving.0 != place {
            proving = (place, Arc::default());
        }
        let keys = keys.of(boards[place].1.no, no);
        let (deployment, job, proving) = (deployment.clone(), job.clone(), proving.1.clone());
        let options = options.clone();
        compare_part(deployment, boards[place].clone(), no, keys, proving, options, job)
    };
    job.part(0, parts.len());
    let each = side_by_side(parts.iter().copied(), PARTITIONS_AT_ONCE, of_part);
    let mut each = pin!(each.enumerate());
    while let Some((place, of_part)) = each.next().await {
        compared.add(of_part?);
        if compared.proofs.len() >= PROOFS_MAX {
            compared.store_proofs(deployment).await?;
        }
        job.part((place + 1).min(parts.len() - 1), parts.len());
    }
    compared.store_proofs(deployment).await?;
    name_wrong_windows(&mut compared.findings.kept);
    if arguments.against != Some(Against::Standings) {
        let partitions = chained(deployment, arguments, &boards, scope);
        if arguments.full || scope.is_again() {
            compared.changed.extend(&partitions);
        }
        let Compared { changed, findings, .. } = &mut compared;
        chain::check(deployment, &partitions, changed, findings, job).await?;
    }
    Ok(compared)
}

/// How parts are compared.
#[derive(Debug, Clone)]
struct Options {
    /// True if the reference is the history.
    is_history: bool,
    may_be_proven: bool,
    is_exclusive: bool,
    /// The states of an engine, in place of the history.
    states: Option<Arc<CheckedStates>>,
}

/// Compares a board's part in one partition.
async fn compare_part(
    deployment: Deployment,
    (row, board, partitions): AtRest,
    no: PartitionNo,
    keys: Vec<String>,
    proving: Arc<OnceCell<Proving>>,
    options: Options,
    job: Arc<Job>,
) -> Result<Compared> {
    let part = PartitionDiff {
        partition: deployment.partition(no),
        row: &row,
        board: &board,
        keys: &keys,
        is_exclusive: options.is_exclusive,
        states: options.states.as_ref(),
        job: &job,
    };
    let mut compared = Compared::default();
    if options.is_history {
        let before = || Proving::begin(&deployment, &row, &board, &partitions);
        let proving = proving.get_or_try_init(before).await?;
        proving.look_at(&part, options.may_be_proven, &mut compared).await?;
        kept_metadata::check(part.partition, &board, &mut compared.findings).await?;
        positions::check(part.partition, &board, &mut compared.findings).await?;
    } else {
        compared.checked = standings_only::compare(&part, &mut compared.findings).await?;
    }
    if compared.proven.by_digest == 0 {
        compared.changed.insert(no);
    }
    Ok(compared)
}

/// The partitions whose commits are checked.
fn chained(
    deployment: &Deployment,
    arguments: &Arguments,
    boards: &[AtRest],
    scope: &Scope,
) -> BTreeSet<PartitionNo> {
    let of_boards = boards.iter().flat_map(|(_, _, partitions)| partitions).copied();
    let mut partitions = match arguments.board {
        Some(_) => scope.partitions(of_boards),
        None => scope.partitions(deployment.partitions().map(|partition| partition.no)),
    };
    // A foreign key in Redis may name a partition that is not there.
    partitions.retain(|no| no.0 < deployment.store.partitions().count());
    partitions
}

/// Groups findings by board number and partition.
fn by_part(findings: &[Finding]) -> BTreeMap<(i64, PartitionNo), Vec<&Finding>> {
    let mut parts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for finding in findings {
        parts.entry((finding.board_no, finding.partition)).or_default().push(finding);
    }
    parts
}

/// The damaged files among findings.
fn files_of<'a>(findings: &[&'a Finding]) -> Vec<&'a str> {
    let file = |finding: &&'a Finding| match &finding.what {
        What::File(path) => Some(path.as_str()),
        _ => None,
    };
    findings.iter().filter_map(file).collect()
}
