//! A choice among the standings of a board, and the period that it names.

use entity::board::check_segment;
use ranking::board::Board;
use ranking::standings_id::StandingsId;
use ranking::window::{Period, Window};

/// A choice among the standings of a board.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The window.
    pub window: Window,
    /// The period.
    pub period: PeriodChoice,
    /// The segment; empty for everyone.
    pub segment: String,
}

/// A choice among the periods of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeriodChoice {
    /// The present one.
    Present,
    /// The one that an instant belongs to, in Unix milliseconds.
    At(i64),
    /// The one with a label.
    Label(String),
    /// Any: the reader asks about the window.
    Any,
}

/// The reason why a choice names no standings.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The board has no such segment or period; the message says what is expected.
    #[error(transparent)]
    Invalid(#[from] ranking::Error),
    /// The board has no such window; the message names those that it has.
    #[error("{0}")]
    NoWindow(String),
    /// No season is open at the instant; the message says what is expected.
    #[error("{0}")]
    NoSeason(String),
    /// A new window or season is still being filled from the history.
    #[error("window {window} of board {board} is being filled from the history; try again later")]
    Filling {
        /// The window.
        window: Window,
        /// The board's slug.
        board: String,
    },
}

impl Unreadable {
    /// The error for a window, or a name in quotes that is none, which a board does not have.
    pub fn no_window(board: &Board, slug: &str, window: &str) -> Self {
        let names: Vec<String> = board.rules.shown().map(|window| window.to_string()).collect();
        let names = names.join(", ");
        Self::NoWindow(format!("board {slug} has no window {window}: expected {names}"))
    }

    /// The error for an instant in no season.
    fn no_season(chosen: &PeriodChoice, slug: &str) -> Self {
        let when = if *chosen == PeriodChoice::Present { "now" } else { "then" };
        Self::NoSeason(format!(
            "no season of board {slug} is open {when}: expected the name of a season, or an instant in one"
        ))
    }
}

impl Choice {
    /// The standings that it names on a board, and their period. `slug` and `segment_by` are the
    /// board's slug and the member attributes that have standings of their own.
    ///
    /// # Errors
    /// If the board has no such standings, or does not have all of their entries yet.
    pub fn resolve(
        &self,
        board: &Board,
        slug: &str,
        segment_by: &[String],
        now_ms: i64,
    ) -> Result<(StandingsId, Period), Unreadable> {
        let (window, rules) = (self.window, &board.rules);
        let invalid = |message| Err(ranking::Error::Invalid(message).into());
        if !rules.is_shown(window) {
            return Err(Unreadable::no_window(board, slug, &window.to_string()));
        }
        check_segment(slug, segment_by, &self.segment)?;
        let period = match &self.period {
            PeriodChoice::Present | PeriodChoice::Any => {
                window.period_at(now_ms, &rules.calendar)?
            }
            PeriodChoice::At(at_ms) => window.period_at(*at_ms, &rules.calendar)?,
            PeriodChoice::Label(label) => window.period_named(label, &rules.calendar)?,
        };
        let is_of_window = self.period == PeriodChoice::Any;
        if period.is_gap() && !is_of_window {
            return Err(Unreadable::no_season(&self.period, slug));
        }
        let is_filled = match is_of_window {
            true => board.is_whole(window) || window == Window::Season,
            false => board.is_filled(window, &period),
        };
        if !is_filled {
            return Err(Unreadable::Filling { window, board: slug.to_owned() });
        }
        if window.rolling().is_some() && period.present_from_ms > now_ms {
            let label = &period.label;
            return invalid(format!(
                "the period {label} of the rolling window {window} has not begun yet"
            ));
        }
        Ok((StandingsId::of(board, &self.segment, window, &period), period))
    }
}
