//! Selects the standings that a command is about.

use anyhow::Result;
use engine::read::choice::{Choice, PeriodChoice};
use entity::board;
use ranking::board::Board;
use ranking::standings_id::StandingsId;
use ranking::window::{Period, Window};

/// A board's window, period and segment.
#[derive(Debug, clap::Args)]
pub struct StandingsArguments {
    /// The board's slug.
    #[arg(long)]
    pub board: String,
    /// The window.
    #[arg(long, default_value = "all")]
    pub window: Window,
    /// The period's label, such as 2025-09-03, 2025-W36 or 2025-09; the present period by default.
    #[arg(long)]
    pub period: Option<String>,
    /// The segment, such as region:eu; everyone by default.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub segment: String,
}

impl StandingsArguments {
    /// The standings that they name on a board, and their period.
    ///
    /// # Errors
    /// If the board has no such standings, or they are not complete yet. The message says what is expected.
    pub fn resolve(
        &self,
        row: &board::Model,
        board: &Board,
        now_ms: i64,
    ) -> Result<(StandingsId, Period)> {
        let period = match &self.period {
            Some(label) => PeriodChoice::Label(label.clone()),
            None => PeriodChoice::Present,
        };
        let choice = Choice { window: self.window, period, segment: self.segment.clone() };
        Ok(choice.resolve(board, &row.slug, &row.segment_attributes()?, now_ms)?)
    }
}
