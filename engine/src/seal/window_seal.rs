//! A window of a board that takes a step of its seal.

use ranking::board::Board;
use ranking::standings_id::StandingsId;
use ranking::window::Period;
use ranking::window::seal::SealName;

use super::due::{Due, Step};
use super::listing::Listing;
use crate::deployment::Deployment;
use crate::partition::Partition;
use entity::board::{self, WindowRow, windows_text};
use entity::error::Result;
use entity::sql::set_windows;

/// A window of a board that is being sealed.
pub(super) struct WindowSeal<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) row: board::Model,
    pub(super) board: Board,
    pub(super) name: SealName,
    windows: Vec<WindowRow>,
    index: usize,
}

impl<'a> WindowSeal<'a> {
    /// The window of a board that is due, and its step.
    pub(super) fn of(
        deployment: &'a Deployment,
        row: board::Model,
        due: Due,
    ) -> Result<(Self, Step)> {
        let Due { board, windows, index, step } = due;
        let window = &windows[index];
        let name =
            SealName { board: board.no, generation: window.since, window: window.name.parse()? };
        Ok((Self { deployment, row, board, name, windows, index }, step))
    }

    /// The window as the row has it.
    pub(super) fn window(&self) -> &WindowRow {
        &self.windows[self.index]
    }

    /// The partitions of the board.
    pub(super) fn partitions(&self) -> Vec<Partition<'_>> {
        self.deployment.partitions_of(&self.board)
    }

    /// Records progress in the board's row. If another process changed the row first, this changes
    /// nothing, and the row is read again.
    pub(super) async fn record(&self, progress: impl FnOnce(&mut WindowRow)) -> Result<()> {
        let mut windows = self.windows.clone();
        progress(&mut windows[self.index]);
        set_windows(&self.row, &windows_text(&windows)).exec(&self.deployment.db).await?;
        Ok(())
    }

    /// The partition's listed standings whose periods start in a span.
    pub(super) fn standings(
        &self,
        listing: &Listing,
        partition: Partition<'_>,
        from_ms: i64,
        before_ms: i64,
    ) -> Result<Vec<(StandingsId, Period)>> {
        let mut found = vec![];
        for id in listing.standings(partition.no, self.name)? {
            // Laurel never writes a label that names no period; such keys are skipped.
            if let Ok(period) = id.window.period_named(&id.period, &self.board.rules.calendar)
                && (from_ms..before_ms).contains(&period.present_from_ms)
            {
                found.push((id.clone(), period));
            }
        }
        Ok(found)
    }
}
