//! Selects the standings that a command is about.

use anyhow::{Result, bail};
use entity::board;
use ranking::board::Board;
use ranking::window::{Period, Window};

/// A board's window, period and segment.
#[derive(Debug, clap::Args)]
pub struct Choice {
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

impl Choice {
    /// The selected period.
    ///
    /// # Errors
    /// If the board has no such window, segment or period, or if it is not there yet. The message
    /// says what is expected.
    pub fn period(&self, row: &board::Model, board: &Board, now_ms: i64) -> Result<Period> {
        let (window, rules) = (self.window, &board.rules);
        if !rules.is_shown(window) {
            let names: Vec<String> = rules.shown().map(|window| window.to_string()).collect();
            bail!("board {} has no window {window}: expected {}", row.slug, names.join(", "));
        }
        if !board.is_whole(window) {
            bail!(
                "window {window} of board {} is being filled from the history; try again later",
                row.slug
            );
        }
        board::check_segment(&row.slug, &row.segment_attributes()?, &self.segment)?;
        let period = match &self.period {
            Some(label) => window.period_named(label, &rules.zone)?,
            None => window.period_at(now_ms, &rules.zone)?,
        };
        if window.rolling().is_some() && period.present_from_ms > now_ms {
            bail!("the period {} of the rolling window {window} has not begun yet", period.label);
        }
        Ok(period)
    }
}
