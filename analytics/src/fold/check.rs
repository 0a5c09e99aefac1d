//! The check of an engine's states: rows, totals, and members drawn at random.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::window::Window;
use serde::Serialize;

use super::drawn::{self, Draw};
use super::plan::Plan;
use super::run::states_of;
use super::states::WindowStates;
use crate::frame::sorted::Sorted;

/// The members that are drawn, unless the command says how many.
pub const MEMBERS: u64 = 1000;

/// Options of `fold check`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The directory of the plan.
    #[arg(long)]
    plan: PathBuf,
    /// The directory with the engine's answers: a directory with Parquet files for each window,
    /// named as `fold sql` says; by default the directory `states` of the plan.
    #[arg(long)]
    states: Option<PathBuf>,
    /// The members to draw at random, whose states are folded again.
    #[arg(long, default_value_t = MEMBERS)]
    members: u64,
}

/// The outcome.
#[derive(Debug, Serialize)]
pub struct Checked {
    windows: usize,
    entries: usize,
    /// The members that were folded again.
    members: usize,
    seconds: f64,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { windows, entries, members, seconds } = self;
        write!(
            f,
            "checked {entries} entries of {windows} windows, and folded {members} members again: the states are those of the plan, in {seconds:.1} s"
        )
    }
}

/// Checks states.
///
/// # Errors
/// If there is no plan, its events were altered, or a state is wrong; the message names it.
pub fn check(arguments: &Arguments) -> Result<Checked> {
    let Arguments { plan: dir, states, members } = arguments;
    let plan = Plan::read(dir)?;
    let board = plan.board()?;
    check_states(&plan, &board, dir, &states_of(dir, states.as_deref()), *members)
}

/// As [`check`].
pub fn check_states(
    plan: &Plan,
    board: &Board,
    dir: &Path,
    states: &Path,
    members: u64,
) -> Result<Checked> {
    let began = Instant::now();
    plan.check_files(dir)?;
    let partitions = plan.partitions()?.of_board(board);
    let mut windows: Vec<(Window, WindowStates<'_>)> = vec![];
    for &window in &board.rules.windows {
        windows.push((window, WindowStates::find(plan, board, window, states)?));
    }
    let (mut entries, mut everyone) = (0, 0);
    for (window, of_window) in &windows {
        let (found, of_everyone) = rows(board, *window, of_window, &partitions)?;
        entries += found;
        if *window == Window::All {
            everyone = of_everyone;
        }
    }
    let draw = Draw::new(seed(), members, everyone);
    let members = drawn::check(plan, board, dir, &windows, draw)?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Checked { windows: windows.len(), entries, members, seconds })
}

/// Checks all rows of a window. Returns the number of entries, and of those of everyone.
fn rows(
    board: &Board,
    window: Window,
    states: &WindowStates<'_>,
    partitions: &[PartitionNo],
) -> Result<(usize, u64)> {
    let (mut entries, mut everyone) = (0, 0);
    let mut check = || -> Result<()> {
        states.check_partitions(partitions)?;
        for &partition in partitions {
            let checked = states.of_partition(partition)?;
            let sorted = Sorted::of(board, window, &checked.folded)?;
            entries += sorted.runs().iter().map(|run| run.rows.len()).sum::<usize>();
            everyone += checked.everyone;
        }
        Ok(())
    };
    check().with_context(|| format!("the states of window {window} are refused"))?;
    Ok((entries, everyone))
}

/// A number that an engine cannot know.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u8)
}
