//! The names of standings, and the escaping of a name's parts.

use std::fmt;

use crate::board::Board;
use crate::id::BoardNo;
use crate::window::seal::SealName;
use crate::window::{Period, Window};

/// The standings of one board, segment, window and period. All shards share this name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StandingsId {
    /// The board.
    pub board: BoardNo,
    /// The generation in which the board got this window.
    pub generation: u32,
    /// A member attribute such as `region:eu`; empty for everyone.
    pub segment: String,
    /// The window.
    pub window: Window,
    /// The period's label.
    pub period: String,
}

impl StandingsId {
    /// The standings of a board's segment in a period of a window.
    pub fn of(board: &Board, segment: &str, window: Window, period: &Period) -> Self {
        Self {
            board: board.no,
            generation: board.generation_of(window),
            segment: segment.to_owned(),
            window,
            period: period.label.clone(),
        }
    }

    /// The part of the name that all periods of the window share: `1:region%3Aeu:7d`. It leaves out
    /// the board.
    pub fn series(&self) -> String {
        let (generation, segment) = (self.generation, escape(&self.segment));
        format!("{generation}:{segment}:{}", escape(&self.window.to_string()))
    }

    /// The name of their seal; `None` if their window is never sealed.
    pub fn seal_name(&self) -> Option<SealName> {
        self.window.has_periods().then_some(SealName {
            board: self.board,
            generation: self.generation,
            window: self.window,
        })
    }

    /// The all-time standings of a board's segment.
    pub fn all_time(board: &Board, segment: String) -> Self {
        Self {
            board: board.no,
            generation: board.generation_of(Window::All),
            segment,
            window: Window::All,
            period: Period::all().label,
        }
    }
}

impl fmt::Display for StandingsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.board, self.series(), escape(&self.period))
    }
}

/// Writes `:` and `%` as `%3A` and `%25`, so that a part can stand between colons.
pub fn escape(part: &str) -> String {
    part.replace('%', "%25").replace(':', "%3A")
}

/// The inverse of [`escape`].
pub fn unescape(part: &str) -> String {
    part.replace("%3A", ":").replace("%25", "%")
}
