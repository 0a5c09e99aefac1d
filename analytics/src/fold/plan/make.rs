//! Makes a plan: pins the heads, writes the events up to them, the periods, and the totals.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use entity::board;
use ranking::board::Board;
use ranking::commit::Head;
use ranking::id::PartitionNo;
use ranking::shard::Partitions;
use serde::Serialize;
use tokio::task::block_in_place;

use super::board::PlanBoard;
use super::events::{self, write_file};
use super::{
    Has, PERIODS, PinnedHead, Plan, PlanFile, VERSION, WindowTotals, periods, scan_all, totals,
};
use crate::display_path;
use crate::frame::counted::{AT_ONCE_MAX, Counted};
#[cfg(test)]
use crate::frame::events::Events;
use crate::frame::history;
use crate::job::Job;
use engine::failpoint;

/// How long the states of a plan can be loaded if the board has rolling windows, whose periods are
/// folded for as long ahead: a day, in milliseconds.
const AHEAD_MS: i64 = 86_400_000;

/// Options of `fold plan`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The board's slug.
    #[arg(long)]
    pub board: String,
    /// The directory to write to: a new one, or an empty one.
    #[arg(long)]
    pub out: PathBuf,
}

/// The outcome.
#[derive(Debug, Serialize)]
pub struct Planned {
    events: usize,
    files: usize,
    bytes: u64,
    windows: usize,
    seconds: f64,
    plan: PathBuf,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, files, bytes, windows, seconds, plan } = self;
        write!(
            f,
            "planned the fold of {events} events in {files} files ({bytes} bytes) for {windows} windows, in {seconds:.1} s: {}",
            plan.display()
        )
    }
}

/// Makes a plan of a board.
///
/// # Errors
/// If the directory is not empty, a window is being filled, the board changes meanwhile, or a store
/// does not answer.
pub async fn make(deployment: &Deployment, row: &board::Model, dir: &Path) -> Result<Planned> {
    let job = Job::unrecorded()?;
    let outcome = plan(deployment, row, dir, &job).await;
    job.end(outcome).await
}

async fn plan(
    deployment: &Deployment,
    row: &board::Model,
    dir: &Path,
    job: &Job,
) -> Result<Planned> {
    let (began, made_at_ms) = (Instant::now(), deployment.clock.now_ms());
    be_empty(dir)?;
    let board = at_rest(deployment, row.no).await?;
    ensure!(
        board.rules.windows.iter().all(|&window| board.is_whole(window)),
        "a window or a season of board {} is still being filled; make the plan when that has ended",
        row.slug
    );
    let through_ms = through_ms(deployment, &board, made_at_ms).await?;
    let heads = history::heads(deployment, &deployment.partitions_of(&board)).await?;
    let files = events::write(deployment, &board, &heads, dir, job).await?;
    failpoint::hit("plan-events-written");
    job.stage("adding up", 0);
    let of = (deployment.store.partitions(), through_ms);
    let drafted = block_in_place(|| draft(&board, of, dir, files))?;
    // Whatever changed meanwhile is not in the plan.
    let now = at_rest(deployment, row.no).await?;
    if let Some(difference) = PlanBoard::of(&board).difference(&PlanBoard::of(&now)) {
        bail!("{difference}; make the plan again, in another directory");
    }
    let plan = Plan {
        deployment: deployment.identity.to_string(),
        slug: row.slug.clone(),
        made_at_ms,
        heads: pinned(&heads),
        ..drafted
    };
    plan.write(dir)?;
    let files = plan.files.iter();
    Ok(Planned {
        events: files.clone().map(|file| file.rows).sum(),
        bytes: files.map(|file| file.bytes).sum(),
        files: plan.files.len(),
        windows: plan.windows.len(),
        seconds: began.elapsed().as_secs_f64(),
        plan: dir.to_owned(),
    })
}

/// The board, which neither moves nor is deleted.
async fn at_rest(deployment: &Deployment, no: i64) -> Result<Board> {
    let row = engine::reshard::at_rest(deployment, no).await?.context("the board was deleted")?;
    Ok(row.to_ranking()?)
}

/// Checks that a directory is empty, and makes it if it is not there.
fn be_empty(dir: &Path) -> Result<()> {
    let look = || -> Result<bool> {
        fs::create_dir_all(dir)?;
        Ok(fs::read_dir(dir)?.next().is_none())
    };
    let is_empty = look().with_context(|| format!("{} cannot be used", display_path(dir)))?;
    ensure!(is_empty, "{} is not empty: expected a new or an empty directory", display_path(dir));
    Ok(())
}

/// The instant up to which rolling windows get periods.
async fn through_ms(deployment: &Deployment, board: &Board, now_ms: i64) -> Result<i64> {
    let mut through_ms = now_ms;
    for partition in deployment.partitions_of(board) {
        let marks = partition.rolls(board.no).await?;
        through_ms = marks.values().map(|mark| mark.begun_ms).fold(through_ms, i64::max);
    }
    Ok(through_ms + AHEAD_MS)
}

fn pinned(heads: &BTreeMap<PartitionNo, Head>) -> Vec<PinnedHead> {
    let pinned = |(partition, head): (&PartitionNo, &Head)| PinnedHead {
        partition: partition.0,
        seq: head.seq,
        commit: head.commit.clone(),
    };
    heads.iter().map(pinned).collect()
}

/// The plan of the events in some files, still without deployment and heads. Writes the periods.
pub(in crate::fold) fn draft(
    board: &Board,
    (partitions, through_ms): (Partitions, i64),
    dir: &Path,
    files: Vec<PlanFile>,
) -> Result<Plan> {
    let events = scan_all(files.iter().map(|file| dir.join(&file.path)))?;
    let events = Counted::of(events, &board.layouts, AT_ONCE_MAX)?;
    let mut table = periods::table(board, &events, through_ms)?;
    let periods = write_file(dir, PERIODS, &mut table)?;
    let mut windows = vec![];
    for &window in &board.rules.windows {
        let partitions = totals::totals(board, partitions, window, &events, through_ms)?;
        windows.push(WindowTotals { window: window.to_string(), partitions });
    }
    Ok(Plan {
        version: VERSION,
        deployment: String::new(),
        slug: String::new(),
        board: PlanBoard::of(board),
        made_at_ms: 0,
        through_ms,
        span_ms: events.span_ms,
        partitions: partitions.count(),
        heads: vec![],
        has: Has {
            has_voids: events.has_voids,
            has_removals: events.has_removals,
            has_segments: events.has_segments,
        },
        periods,
        files,
        windows,
    })
}

/// Writes a file of events.
#[cfg(test)]
pub(in crate::fold) fn file_of(dir: &Path, path: &str, events: Events) -> Result<PlanFile> {
    write_file(dir, path, &mut events.into_frame()?)
}
