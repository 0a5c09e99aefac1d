//! The source of standings that are staged: polars' fold of the history, or states that an engine
//! folded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use engine::partition::Partition;
use engine::stage::Staged;
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::window::Window;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::fold::load::CheckedStates;
use crate::frame::fold;
use crate::frame::history::{self, History};
use crate::frame::sorted::Sorted;
use crate::job::Job;

/// The source of standings.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The history, for one window or for all.
    History(Option<Window>),
    /// The states of an engine.
    States(Arc<CheckedStates>),
}

/// The data that the windows of a partition are folded from.
pub(super) enum Folds {
    /// A history, and the instant that rolling windows have reached.
    History(Arc<History>, i64),
    /// The states of a partition.
    States(Arc<CheckedStates>, PartitionNo),
}

impl Source {
    /// The one window to rebuild; `None` for all.
    pub(super) fn window(&self) -> Option<Window> {
        match self {
            Self::History(window) => *window,
            Self::States(_) => None,
        }
    }

    /// Begins the stage of a partition.
    pub(super) async fn stage<'a>(
        &self,
        partition: Partition<'a>,
        board: &'a Board,
        windows: BTreeSet<Window>,
    ) -> Result<Staged<'a>> {
        match self {
            Self::History(_) => Ok(Staged::begin(partition, board, windows).await?),
            Self::States(states) => states.stage(partition, board, windows).await,
        }
    }

    /// Reads what the stage begins with.
    pub(super) async fn read(
        &self,
        partition: Partition<'_>,
        board: &Board,
        staged: &Staged<'_>,
        job: &Job,
    ) -> Result<Folds> {
        if let Self::States(states) = self {
            return Ok(Folds::States(states.clone(), partition.no));
        }
        let heads = BTreeMap::from([(partition.no, staged.head())]);
        let history = history::read_to(partition.deployment, board, heads, job).await?;
        let rolls = BTreeMap::from([(partition.no, staged.rolls().clone())]);
        let through_ms = history::through_ms(&rolls, staged.rolls().now_ms);
        Ok(Folds::History(Arc::new(history), through_ms))
    }
}

impl Folds {
    /// The number of events.
    pub(super) fn events(&self) -> usize {
        match self {
            Self::History(history, _) => history.counted.count,
            Self::States(states, partition) => states.events_in(*partition),
        }
    }

    /// Folds a window on a blocking thread. Returns the seconds that it took, too.
    pub(super) fn aside(&self, board: &Board, window: Window) -> JoinHandle<Result<(Sorted, f64)>> {
        let began = Instant::now();
        match self {
            Self::History(history, through_ms) => {
                let (board, history, through_ms) = (board.clone(), history.clone(), *through_ms);
                spawn_blocking(move || {
                    let sorted = fold::sorted(&board, window, &history.counted, through_ms)?;
                    Ok((sorted, began.elapsed().as_secs_f64()))
                })
            }
            Self::States(states, partition) => {
                let (states, partition) = (states.clone(), *partition);
                spawn_blocking(move || {
                    let sorted = states.sorted(window, partition)?;
                    Ok((sorted, began.elapsed().as_secs_f64()))
                })
            }
        }
    }
}
