//! The series of a rolling window: a segment of a board.

use ranking::board::Board;
use ranking::standings_id::{StandingsId, unescape};
use ranking::window::roll::RollMark;
use ranking::window::{Period, Rolling, Window};

/// A segment of a board in a rolling window.
pub(super) struct Series<'a> {
    pub(super) board: &'a Board,
    pub(super) segment: String,
    pub(super) window: Window,
    pub(super) rolling: Rolling,
}

impl<'a> Series<'a> {
    pub(super) fn parse(board: &'a Board, name: &str) -> Option<Self> {
        let mut parts = name.split(':');
        let generation: u32 = parts.next()?.parse().ok()?;
        let segment = unescape(parts.next()?);
        let window: Window = parts.next()?.parse().ok()?;
        let is_ours =
            board.rules.windows.contains(&window) && board.generation_of(window) == generation;
        Some(Self { board, segment, window, rolling: window.rolling().filter(|_| is_ours)? })
    }

    pub(super) fn at(&self, at_ms: i64) -> ranking::Result<Period> {
        self.window.period_at(at_ms, &self.board.rules.calendar)
    }

    pub(super) fn id(&self, period: &Period) -> StandingsId {
        StandingsId::of(self.board, &self.segment, self.window, period)
    }

    /// The last period begun, and the one after it.
    pub(super) fn pair(&self, mark: RollMark) -> ranking::Result<(Period, Period)> {
        let from = self.at(mark.begun_ms)?;
        let next = self.at(from.end_ms.unwrap_or(i64::MAX))?;
        Ok((from, next))
    }
}
