//! The fold of a part's history, window by window.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use ranking::window::Window;
use ranking::window::roll::Rolls;
use tokio::task::spawn_blocking;

use super::archived::ArchivedTotals;
use super::later::Later;
use super::{PartitionDiff, small};
use crate::diff::rows::Rows;
use crate::fold::load::CheckedStates;
use crate::frame::counted::Counted;
use crate::frame::fold::{Which, folded};
use crate::frame::history::{self, History, through_ms};

/// The entries that a part's history folds to.
pub(super) enum Fold {
    /// The rows of a small board.
    Small(BTreeMap<Window, Rows>),
    /// The history of any other, which polars folds.
    Frames(Box<Frames>),
    /// The states of an engine, and the events that came since.
    States(Arc<CheckedStates>, Later),
}

/// A history as frames.
pub(super) struct Frames {
    history: Arc<History>,
    archived: Option<ArchivedTotals>,
    /// The events that "all" is folded from, if they are others.
    of_all: Option<Counted>,
}

impl Fold {
    /// Reads the history of the members whose entries lie in the part's partition, and how far its
    /// rolling windows have come by then.
    pub(super) async fn begin(part: &PartitionDiff<'_>, is_small: bool) -> Result<(Self, Rolls)> {
        let (board, partition) = (part.board, part.partition);
        if let Some(states) = part.states {
            let head = states.fit_in(partition, board).await?;
            let later = Later::read(part, head.seq).await?;
            return Ok((Self::States(states.clone(), later), part.rolls().await?));
        }
        if is_small && let Some(events) = small::events(part).await? {
            let rolls = part.rolls().await?;
            // Polars tells more of a history that cannot be folded.
            if let Ok(rows) = small::rows(board, &events, through(part, &rolls)) {
                return Ok((Self::Small(rows), rolls));
            }
        }
        let history = history::read_in(partition.deployment, board, &[partition], part.job).await?;
        let history = Arc::new(history);
        let rolls = part.rolls().await?;
        let archived = ArchivedTotals::of(part, &history).await?;
        let of_all = archived.as_ref().map(|archived| archived.and_later(board, &history.counted));
        let of_all = of_all.transpose()?.flatten();
        Ok((Self::Frames(Box::new(Frames { history, archived, of_all })), rolls))
    }

    /// The events that came after what was folded.
    pub(super) fn later(&self) -> Option<&Later> {
        match self {
            Self::States(_, later) => Some(later),
            Self::Small(_) | Self::Frames(_) => None,
        }
    }

    /// The totals of archived events, if there are any.
    pub(super) fn archived(&self) -> Option<&ArchivedTotals> {
        match self {
            Self::Small(_) | Self::States(..) => None,
            Self::Frames(frames) => frames.archived.as_ref(),
        }
    }

    /// The entries of a window; asked for once.
    pub(super) async fn rows(
        &mut self,
        part: &PartitionDiff<'_>,
        window: Window,
        rolls: &Rolls,
    ) -> Result<Rows> {
        let frames = match self {
            Self::Small(rows) => return Ok(rows.remove(&window).unwrap_or_default()),
            Self::Frames(frames) => frames,
            Self::States(states, _) => {
                let (states, board, no) = (states.clone(), part.board.clone(), part.partition.no);
                let folded = spawn_blocking(move || {
                    Rows::of_fold(&board, window, states.folded(window, no)?)
                });
                return folded.await?;
            }
        };
        let (board, through_ms) = (part.board.clone(), through(part, rolls));
        let history = Arc::clone(&frames.history);
        let of_all = frames.of_all.clone().filter(|_| window == Window::All);
        let fold = spawn_blocking(move || {
            let events = of_all.as_ref().unwrap_or(&history.counted);
            let folded = folded(&board, window, events, through_ms, Which::of(&board, window))?;
            Rows::of_fold(&board, window, folded)
        });
        fold.await?
    }
}

fn through(part: &PartitionDiff<'_>, rolls: &Rolls) -> i64 {
    through_ms(&BTreeMap::from([(part.partition.no, rolls.clone())]), rolls.now_ms)
}
