//! The windows of a board.

use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::graphql::price;
use crate::graphql::request::state;
use crate::graphql::standings::period::Period;
use crate::graphql::types::global_id::{BoardName, GlobalId};
use crate::graphql::types::scalar::int;
use async_graphql::{Context, Enum, ID, Object, Result};
use entity::board::{WindowRow, WindowState};
use ranking::window::seal::RETAIN_MAX;
use std::sync::Arc;

/// The kind of a window.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowKind {
    /// All time.
    AllTime,
    /// Local hours.
    Hourly,
    /// Local days.
    Daily,
    /// Weeks, from the board's `weekStart`; ISO weeks from Monday.
    Weekly,
    /// Calendar months.
    Monthly,
    /// Calendar quarters.
    Quarterly,
    /// Calendar years.
    Yearly,
    /// Periods that the board's owner lists.
    Season,
    /// The present hour, day, week or month, and a number of earlier ones.
    Rolling,
    /// All time, with scores that lose half their weight with every half-life.
    Decay,
}

/// A rule about time, with standings of its own.
pub struct BoardWindow {
    board: Arc<CachedBoard>,
    window: ranking::window::Window,
}

impl BoardWindow {
    pub(crate) fn new(board: &Arc<CachedBoard>, window: ranking::window::Window) -> Self {
        Self { board: board.clone(), window }
    }
}

/// A rule about time, with standings of its own.
#[Object]
impl BoardWindow {
    /// The global id: "window:<slug>.<number>:<name>".
    pub(crate) async fn id(&self) -> ID {
        let board = BoardName::of(&self.board);
        GlobalId::Window(board, self.window.to_string()).to_text().into()
    }

    /// The name: "all", "hourly", "daily", "weekly", "monthly", "quarterly", "yearly" or
    /// "season"; of a rolling window "24h", "7d" (today and the six days before), "12w" or "3mo";
    /// of a window in which scores decay "decay:7d".
    async fn name(&self) -> String {
        self.window.to_string()
    }

    /// The kind of the window.
    async fn kind(&self) -> WindowKind {
        use ranking::window::Window as Rule;
        match self.window {
            Rule::All => WindowKind::AllTime,
            Rule::Hourly => WindowKind::Hourly,
            Rule::Daily => WindowKind::Daily,
            Rule::Weekly => WindowKind::Weekly,
            Rule::Monthly => WindowKind::Monthly,
            Rule::Quarterly => WindowKind::Quarterly,
            Rule::Yearly => WindowKind::Yearly,
            Rule::Season => WindowKind::Season,
            Rule::Rolling(_) => WindowKind::Rolling,
            Rule::Decay(_) => WindowKind::Decay,
            // No board shows it.
            Rule::Attempts(_) => WindowKind::AllTime,
        }
    }

    /// The number of past periods kept in Redis; older ones are sealed and read from SQL. 1,000,000
    /// means, in effect, all of them; "all", which has a single period, reports that number.
    async fn retain(&self, ctx: &Context<'_>) -> Result<i32> {
        // It is parsed, with all seasons of the board.
        price::pay_text(ctx, self.board.row.windows.len()).await?;
        let rows = self.board.row.window_rows().map_err(Error::from)?;
        let named = self.window.to_string();
        let row = rows.iter().find(|row| row.name == named && row.state != WindowState::Dropped);
        let retain = row.map_or(RETAIN_MAX, WindowRow::retained);
        Ok(int(retain.into())?)
    }

    /// The most scores that the board accepts of a member in each period; null if there is no
    /// limit.
    async fn attempts_max(&self) -> Result<Option<i32>> {
        let max = self.board.board.rules.attempts_max(self.window);
        Ok(max.map(|max| int(max.into())).transpose()?)
    }

    /// True once the window includes the scores from before it was added; of seasons, once the
    /// present one does. While it is being filled from the history, its standings are UNAVAILABLE.
    async fn ready(&self, ctx: &Context<'_>) -> Result<bool> {
        let calendar = &self.board.board.rules.calendar;
        let period = self.window.period_at(state(ctx).now_ms, calendar);
        let period = period.map_err(Error::from)?;
        Ok(period.is_gap() || self.board.board.is_filled(self.window, &period))
    }

    /// The present period; null while no season is open.
    async fn current(&self, ctx: &Context<'_>) -> Result<Option<Period>> {
        let period = self
            .window
            .period_at(state(ctx).now_ms, &self.board.board.rules.calendar)
            .map_err(Error::from)?;
        let shown = || Period::new(&self.board, self.window, &period, state(ctx).now_ms);
        Ok((!period.is_gap()).then(shown))
    }
}
