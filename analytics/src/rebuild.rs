//! Rebuild: makes a board's standings again from its history while writers are active, partition by
//! partition.
//!
//! Polars folds the history up to SQL's cursor into a stage. Later commits are folded onto the
//! stage and put in place with it, as [`Staged`] describes. Memory is bounded by the largest
//! partition's share. One partition is folded while another is loaded.

pub(crate) mod arguments;
pub(crate) mod reshard;
pub(crate) mod restore;
mod rows;
pub(crate) mod shared;
mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use engine::deployment::Deployment;
use engine::partition::Partition;
use engine::stage::{Staged, Step};
use entity::board;
use entity::error::is_refused_content;
use futures::{FutureExt, StreamExt, stream};
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::window::Window;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::fold::load::CheckedStates;
use crate::frame::sorted::Sorted;
use crate::job::Job;
use crate::job::part::Figures;
use crate::job::side_by_side::{PARTITIONS_AT_ONCE, side_by_side};
use engine::failpoint;
use source::Source;

/// Attempts at a partition: Redis may restart, a rolling window's period may begin, or a store may
/// be away for a moment.
const ATTEMPTS_MAX: usize = 8;

/// How long to wait before a store that is away is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Standings that are loaded at once.
const LOADS_AT_ONCE: usize = 8;

/// Standings that one commit puts in place.
const STANDINGS_MAX: usize = 500;

/// How often a commit may time out because other writers are first each time, before the partition
/// starts over.
const BEATEN_MAX: usize = 5;

/// The outcome of a rebuild. Partitions run side by side. The seconds of a step are its share of
/// the whole: the sum over all partitions, divided by the number of partitions that run at once.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Rebuilt {
    /// Events that were folded.
    events: usize,
    standings: usize,
    entries: usize,
    /// Events that came during the rebuild.
    #[serde(rename = "laterEvents")]
    later: usize,
    /// How often another writer's commit came first.
    beaten: usize,
    /// Members whose rows of `standing` differed from the history.
    #[serde(rename = "mendedMembers")]
    mended: usize,
    #[serde(rename = "readingSeconds")]
    reading_s: f64,
    #[serde(rename = "foldingSeconds")]
    folding_s: f64,
    #[serde(rename = "loadingSeconds")]
    loading_s: f64,
    #[serde(rename = "puttingSeconds")]
    putting_s: f64,
    seconds: f64,
}

impl Figures for Rebuilt {
    fn plus(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            standings: self.standings + other.standings,
            entries: self.entries + other.entries,
            later: self.later + other.later,
            beaten: self.beaten + other.beaten,
            mended: self.mended + other.mended,
            reading_s: self.reading_s + other.reading_s,
            folding_s: self.folding_s + other.folding_s,
            loading_s: self.loading_s + other.loading_s,
            putting_s: self.putting_s + other.putting_s,
            seconds: self.seconds,
        }
    }

    fn in_seconds(self, seconds: f64) -> Self {
        Self { seconds, ..self }
    }
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, standings, entries, later, mended, seconds, .. } = self;
        write!(
            f,
            "rebuilt {entries} entries of {standings} standings from {events} events, and {later} that came during the rebuild, in {seconds:.1} s"
        )?;
        if *mended > 0 {
            write!(f, "; repaired the rows of {mended} members in SQL")?;
        }
        Ok(())
    }
}

/// Rebuilds a board, or one window of it.
///
/// # Errors
/// If the board has no such window, or a store does not answer.
pub async fn rebuild(
    deployment: &Deployment,
    row: &board::Model,
    window: Option<Window>,
) -> Result<Rebuilt> {
    rebuild_as(deployment, entity::job::REBUILD, row, window).await
}

/// As [`rebuild`], recorded as a job of `kind`.
pub async fn rebuild_as(
    deployment: &Deployment,
    kind: &str,
    row: &board::Model,
    window: Option<Window>,
) -> Result<Rebuilt> {
    let (board, _) = present(deployment, row.no, window).await?;
    let job = Arc::new(Job::begin(deployment, kind, Some(row.no)).await?);
    let partitions = deployment.store.partitions().of_board(&board);
    let source = Source::History(window);
    let outcome = some_partitions(deployment, &board, source, partitions, &job).await;
    job.end(outcome).await
}

/// Rebuilds a board from the states that an engine folded.
///
/// # Errors
/// As [`rebuild`], or if the plan of the states does not fit any more.
pub async fn rebuild_from(
    deployment: &Deployment,
    row: &board::Model,
    states: Arc<CheckedStates>,
) -> Result<Rebuilt> {
    let (board, _) = present(deployment, row.no, None).await?;
    let job = Arc::new(Job::begin(deployment, entity::job::REBUILD, Some(row.no)).await?);
    let partitions = deployment.store.partitions().of_board(&board);
    let source = Source::States(states);
    let outcome = some_partitions(deployment, &board, source, partitions, &job).await;
    job.end(outcome).await
}

/// The board as its row is now, and the windows to rebuild.
async fn present(
    deployment: &Deployment,
    no: i64,
    window: Option<Window>,
) -> Result<(Board, BTreeSet<Window>)> {
    let row = engine::reshard::at_rest(deployment, no).await?.context("the board was deleted")?;
    let board = row.to_ranking()?;
    let windows = match window {
        Some(window) if board.rules.is_shown(window) => {
            // The base window too, since the roller carries the rolling window on from it.
            let base = window.rolling().map(|rolling| rolling.base());
            [window].into_iter().chain(base).collect()
        }
        Some(window) => bail!("board {} has no window {window}", row.slug),
        None => board.rules.windows.iter().copied().collect(),
    };
    Ok((board, windows))
}

async fn some_partitions(
    deployment: &Deployment,
    board: &Board,
    source: Source,
    partitions: Vec<PartitionNo>,
    job: &Arc<Job>,
) -> Result<Rebuilt> {
    let began = Instant::now();
    let has_failed = Arc::new(AtomicBool::new(false));
    let one = |partition| {
        let (deployment, board, job) = (deployment.clone(), board.clone(), job.clone());
        let (has_failed, source) = (has_failed.clone(), source.clone());
        async move {
            if has_failed.load(Ordering::Relaxed) {
                return Ok(Rebuilt::default());
            }
            let rebuilt =
                one_partition(deployment.partition(partition), &board, &source, &job).await;
            has_failed.fetch_or(rebuilt.is_err(), Ordering::Relaxed);
            rebuilt
        }
    };
    let at_once = failpoint::batch_size(PARTITIONS_AT_ONCE).min(partitions.len());
    // A partition that fails does not abort the others, which would leave their stages behind.
    let outcomes: Vec<Result<Rebuilt>> = side_by_side(partitions, at_once, one).collect().await;
    let mut rebuilt = Rebuilt::default();
    for outcome in outcomes {
        rebuilt = rebuilt.plus(outcome?);
    }
    let share = |seconds: f64| seconds / at_once as f64;
    Ok(Rebuilt {
        reading_s: share(rebuilt.reading_s),
        folding_s: share(rebuilt.folding_s),
        loading_s: share(rebuilt.loading_s),
        putting_s: share(rebuilt.putting_s),
        seconds: began.elapsed().as_secs_f64(),
        ..rebuilt
    })
}

async fn one_partition(
    partition: Partition<'_>,
    board: &Board,
    source: &Source,
    job: &Job,
) -> Result<Rebuilt> {
    for attempt in 1.. {
        let tried = try_partition(partition, board.no.0, source, job).await;
        let is_last = attempt == ATTEMPTS_MAX;
        match tried {
            Ok(Some(rebuilt)) => {
                failpoint::hit("partition-put");
                return Ok(rebuilt);
            }
            Ok(None) if is_last => bail!(
                "Redis restarted or a rolling window moved on each time that partition {partition} was staged; try again"
            ),
            Ok(None) => {}
            Err(error) if is_last || !is_transient(&error) => return Err(error),
            Err(_) => {
                sleep(AGAIN).await;
                partition.revive_redis().await;
            }
        }
    }
    unreachable!("the last attempt returns")
}

/// True if another attempt may help: a store is away, a partition waits for recovery, or the board
/// changed.
fn is_transient(error: &anyhow::Error) -> bool {
    use ranking::Error::{BoardGone, NotLevel, Unavailable};
    error.chain().any(|cause| {
        if let Some(error) = cause.downcast_ref::<entity::Error>() {
            return error.is_transient() || matches!(error, entity::Error::Ranking(BoardGone));
        }
        if let Some(error) = cause.downcast_ref::<sea_orm::DbErr>() {
            return !is_refused_content(error);
        }
        let error = cause.downcast_ref::<ranking::Error>();
        matches!(error, Some(BoardGone | NotLevel(_) | Unavailable(_)))
    })
}

/// Rebuilds one partition; `None` if it must start over.
async fn try_partition(
    partition: Partition<'_>,
    no: i64,
    source: &Source,
    job: &Job,
) -> Result<Option<Rebuilt>> {
    let (board, windows) = present(partition.deployment, no, source.window()).await?;
    let mut staged = source.stage(partition, &board, windows).await?;
    let tried = stage_and_put(partition, &board, &mut staged, source, job).await;
    staged.discard().await;
    let rebuilt = tried?;
    if rebuilt.is_some() {
        partition.settle().await?;
    }
    Ok(rebuilt)
}

async fn stage_and_put(
    partition: Partition<'_>,
    board: &Board,
    staged: &mut Staged<'_>,
    source: &Source,
    job: &Job,
) -> Result<Option<Rebuilt>> {
    staged.drop_foreign().await?;
    let head = staged.head();
    let began = Instant::now();
    let folds = source.read(partition, board, staged, job).await?;
    failpoint::hit("history-read");
    let mut rebuilt = Rebuilt {
        events: folds.events(),
        reading_s: began.elapsed().as_secs_f64(),
        ..Rebuilt::default()
    };
    let windows: Vec<Window> = staged.windows().iter().copied().collect();
    let fold = |window: Window| folds.aside(board, window);
    let mut windows = windows.into_iter();
    let mut next = windows.next().map(fold);
    while let Some(folding) = next {
        let (sorted, folding_s) = folding.await??;
        rebuilt.folding_s += folding_s;
        // The next window is folded while this one is loaded.
        next = windows.next().map(fold);
        let began = Instant::now();
        load(staged, &sorted, &mut rebuilt, job).await?;
        rebuilt.loading_s += began.elapsed().as_secs_f64();
        if staged.windows().contains(&Window::All) && sorted.window() == Window::All {
            rebuilt.mended += rows::mend(partition, board, head.seq, &sorted).await?;
            failpoint::hit("rows-written");
        }
    }
    failpoint::hit("staged");
    let began = Instant::now();
    if !staged.catch_up().await? {
        return Ok(None);
    }
    let mut beaten = 0;
    loop {
        match staged.put(failpoint::batch_size(STANDINGS_MAX)).await {
            Ok(Step::GoesOn) => failpoint::hit("standings-put"),
            Ok(Step::Done) => break,
            Ok(Step::Stale) => return Ok(None),
            // The stage is still good.
            Err(entity::Error::Ranking(
                ranking::Error::Unavailable(_) | ranking::Error::Overloaded(_),
            )) if beaten < BEATEN_MAX => {
                beaten += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if staged.drop_others().await? == Step::Stale {
        return Ok(None);
    }
    rebuilt.putting_s = began.elapsed().as_secs_f64();
    rebuilt.later = staged.later();
    rebuilt.beaten = staged.beaten();
    Ok(Some(rebuilt))
}

/// Loads a window's standings into the stage, several at once.
async fn load(
    staged: &mut Staged<'_>,
    sorted: &Sorted,
    rebuilt: &mut Rebuilt,
    job: &Job,
) -> Result<()> {
    let mut runs = vec![];
    for run in sorted.runs() {
        if staged.takes(&run.id, &run.period)? {
            rebuilt.standings += 1;
            rebuilt.entries += run.rows.len();
            runs.push(run);
        }
    }
    job.stage("loading", runs.iter().map(|run| run.rows.len()).sum());
    let mut loads = vec![];
    {
        let staged = &*staged;
        let each = runs.into_iter().map(|run| {
            let from = run.rows.start;
            let entry = move |index| (sorted.member(from + index), sorted.key(from + index));
            staged.load(run.id.clone(), run.period.clone(), run.rows.len(), entry).boxed()
        });
        let mut loading = stream::iter(each.collect::<Vec<_>>()).buffer_unordered(LOADS_AT_ONCE);
        while let Some(loaded) = loading.next().await {
            let loaded = loaded?;
            job.advance(loaded.count());
            loads.push(loaded);
            failpoint::hit("standings-loaded");
        }
    }
    for loaded in loads {
        staged.add(loaded)?;
    }
    Ok(())
}
