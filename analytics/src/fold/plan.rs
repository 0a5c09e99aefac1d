//! A plan: the events of a board up to pinned heads, as files, with all that an engine's answer is
//! held against.

mod board;
mod events;
pub(crate) mod make;
mod periods;
mod totals;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use polars::prelude::{LazyFrame, UnionArgs, concat};
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::shard::Partitions;
use ranking::window::Window;
use serde::{Deserialize, Serialize};

use crate::display_path;
use crate::frame::parquet;
use board::PlanBoard;

pub use periods::{HOUR_MS, WindowPeriods};

/// The version of plans that this program writes and reads.
const VERSION: u32 = 1;

/// The file that makes a directory a plan; it is written last.
const NAME: &str = "plan.json";

/// The file of periods.
pub const PERIODS: &str = "periods.parquet";

/// The directory of events.
pub const EVENTS: &str = "events";

/// A plan, as its file has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    version: u32,
    /// The deployment's id.
    pub deployment: String,
    /// The board's slug.
    pub slug: String,
    board: PlanBoard,
    /// When it was begun, in Unix milliseconds.
    pub made_at_ms: i64,
    /// The instant up to which rolling windows have periods, in Unix milliseconds.
    pub through_ms: i64,
    /// The first and the last instant at which a score was earned, in Unix milliseconds.
    span_ms: Option<(i64, i64)>,
    /// The number of partitions of the deployment.
    partitions: u16,
    /// The commit of each partition that the events reach to.
    pub heads: Vec<PinnedHead>,
    /// The parts that the statements need.
    #[serde(flatten)]
    pub has: Has,
    periods: PlanFile,
    files: Vec<PlanFile>,
    /// The totals that the states of each window must have.
    windows: Vec<WindowTotals>,
}

/// The kinds of events that a history has besides scores of everyone.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Has {
    /// Voids.
    pub has_voids: bool,
    /// Removals.
    pub has_removals: bool,
    /// Scores that count in a segment, too.
    pub has_segments: bool,
}

/// A commit that the events of a partition reach to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PinnedHead {
    /// The partition.
    pub partition: u16,
    /// The seq of the commit.
    pub seq: u64,
    /// Its id.
    pub commit: String,
}

/// A file of a plan.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::fold) struct PlanFile {
    /// Its path in the plan's directory.
    path: String,
    bytes: u64,
    sha256: String,
    rows: usize,
}

/// The totals that the states of a window must have.
#[derive(Debug, Serialize, Deserialize)]
struct WindowTotals {
    window: String,
    partitions: Vec<Total>,
}

/// The totals that the states of a window in a partition must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// The partition.
    pub partition: u16,
    /// The number of events, each once for each segment and period that it counts in.
    pub events: u64,
    /// The sum of their scores, as a decimal number; none if the window does not add up scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<String>,
}

impl Plan {
    /// True if a directory has a plan.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(NAME).exists()
    }

    /// Reads the plan of a directory.
    ///
    /// # Errors
    /// If it has none, or one of another version.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        let text = fs::read_to_string(&path).with_context(|| {
            format!(
                "{} cannot be read: expected the directory of a plan, which `laurel fold plan` writes; one without this file is not whole",
                display_path(&path)
            )
        })?;
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let parse = || -> Result<Self> {
            let Versioned { version } = serde_json::from_str(&text)?;
            ensure!(version == VERSION, "it has version {version}, expected {VERSION}");
            Ok(serde_json::from_str(&text)?)
        };
        parse().with_context(|| format!("{} is no plan", display_path(&path)))
    }

    /// Writes the plan beside its path and renames it: a directory is a plan as a whole or not at
    /// all.
    fn write(&self, dir: &Path) -> Result<()> {
        let (path, beside) = (dir.join(NAME), dir.join("plan.json.part"));
        let write = || -> Result<()> {
            let mut file = File::create(&beside)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            File::open(dir)?.sync_all()?;
            Ok(())
        };
        write().with_context(|| format!("{} cannot be written", display_path(&path)))
    }

    /// The board, as it was.
    ///
    /// # Errors
    /// If the file was altered.
    pub fn board(&self) -> Result<Board> {
        self.board.to_ranking().context("the plan's board is broken")
    }

    /// The partitions of the deployment.
    pub fn partitions(&self) -> Result<Partitions> {
        Ok(Partitions::new(self.partitions)?)
    }

    /// The commit that the events of a partition reach to.
    pub fn head(&self, partition: PartitionNo) -> Result<&PinnedHead> {
        let mut heads = self.heads.iter();
        heads.find(|head| head.partition == partition.0).with_context(|| {
            format!("the plan has no head of partition {partition}: expected a plan of this board")
        })
    }

    /// The periods of a window.
    ///
    /// # Errors
    /// If a time of the plan is in no period.
    pub fn periods_of(&self, board: &Board, window: Window) -> Result<WindowPeriods> {
        WindowPeriods::of(board, window, self.span_ms, self.through_ms)
    }

    /// The totals that the states of a window must have, by partition.
    pub fn totals_of(&self, window: Window) -> Result<&[Total]> {
        let name = window.to_string();
        let totals = self.windows.iter().find(|totals| totals.window == name);
        Ok(&totals.with_context(|| format!("the plan has no window {window}"))?.partitions)
    }

    /// The number of events of a partition that count.
    pub fn events_in(&self, partition: PartitionNo) -> usize {
        let all = self.totals_of(Window::All).unwrap_or_default().iter();
        all.filter(|total| total.partition == partition.0).map(|total| total.events as usize).sum()
    }

    /// Checks that the files of events are as they were written.
    ///
    /// # Errors
    /// If one is missing or altered; the message names it.
    pub fn check_files(&self, dir: &Path) -> Result<()> {
        for file in &self.files {
            let path = dir.join(&file.path);
            let sum = parquet::sum(&path)?;
            ensure!(
                (sum.bytes, &sum.sha256) == (file.bytes, &file.sha256),
                "{} is not as the plan wrote it: expected {} bytes with SHA-256 {}; make another plan",
                display_path(&path),
                file.bytes,
                file.sha256
            );
        }
        Ok(())
    }

    /// The events of the plan as a frame.
    pub fn events(&self, dir: &Path) -> Result<LazyFrame> {
        let paths = self.files.iter().map(|file| dir.join(&file.path));
        scan_all(paths)
    }

    /// Why the plan does not fit a board as it is now; `None` if it does.
    pub fn difference(&self, now: &Board) -> Option<String> {
        self.board.difference(&PlanBoard::of(now))
    }
}

/// Files of events as one frame.
fn scan_all(paths: impl Iterator<Item = PathBuf>) -> Result<LazyFrame> {
    let parts = paths.map(|path| parquet::scan_events(&path)).collect::<Result<Vec<_>>>()?;
    Ok(concat(parts, UnionArgs::default())?)
}
