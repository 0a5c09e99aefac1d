//! The windows and seasons of a board, as its row has them.

use std::collections::BTreeMap;

use ranking::board::rules::Rules;
use ranking::window::Window;
use ranking::window::seal::{NEVER_MS, RETAIN_MAX, Sealed};
use ranking::window::season::Season;

/// A window of a board, besides `all`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WindowRow {
    /// The window's name.
    pub name: String,
    /// The number of past periods kept in Redis.
    pub retain: u32,
    /// The generation that added it.
    #[serde(default = "first_generation")]
    pub since: u32,
    /// Its state.
    #[serde(default)]
    pub state: WindowState,
    /// True if no client asked for it: a rolling window is made of it, or it counts attempts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Periods that start before this instant are sealed or being sealed. In Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing_before_ms: Option<i64>,
    /// Periods that start before this instant are read from SQL. In Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_before_ms: Option<i64>,
    /// Periods that start before this instant have left Redis. In Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_before_ms: Option<i64>,
    /// In a window that counts attempts, the most of a member in a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
    /// The seasons of the window `season`, in the order in which they were listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seasons: Vec<SeasonRow>,
}

/// A season of a board.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SeasonRow {
    /// The name.
    pub name: String,
    /// The first instant in it, in Unix milliseconds.
    pub start_ms: i64,
    /// The first instant after it, in Unix milliseconds.
    pub end_ms: i64,
    /// Its state: `Filling` until every partition knows it and has its earlier events.
    #[serde(default)]
    pub state: WindowState,
}

/// The state of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum WindowState {
    /// Complete.
    #[default]
    Whole,
    /// Being filled with the events that came before it.
    Filling,
    /// Dropped; its standings are being removed.
    Dropped,
}

fn first_generation() -> u32 {
    1
}

impl WindowRow {
    /// A window that a generation added.
    pub fn new(window: Window, since: u32, state: WindowState) -> Self {
        Self {
            name: window.to_string(),
            retain: RETAIN_MAX,
            since,
            state,
            hidden: false,
            sealing_before_ms: None,
            sealed_before_ms: None,
            dropped_before_ms: None,
            attempts_max: None,
            seasons: vec![],
        }
    }

    /// True if neither the window nor one of its seasons is being filled or dropped.
    pub fn is_settled(&self) -> bool {
        let mut states = self.seasons.iter().map(|season| season.state);
        self.state == WindowState::Whole && states.all(|state| state == WindowState::Whole)
    }

    /// The window and its seasons with nothing to fill or drop any more.
    pub fn settled(mut self) -> Self {
        self.seasons.retain(|season| season.state != WindowState::Dropped);
        self.seasons.iter_mut().for_each(|season| season.state = WindowState::Whole);
        Self { state: WindowState::Whole, ..self }
    }

    /// The number of past periods kept in Redis: at most 1,000,000, in effect all.
    pub fn retained(&self) -> u32 {
        self.retain.min(RETAIN_MAX)
    }

    /// How far its past periods are sealed.
    pub fn sealed(&self) -> Sealed {
        Sealed {
            sealing_before_ms: self.sealing_before_ms.unwrap_or(NEVER_MS),
            sealed_before_ms: self.sealed_before_ms.unwrap_or(NEVER_MS),
        }
    }
}

impl SeasonRow {
    /// The season; `None` if it is being dropped.
    pub(super) fn to_ranking(&self) -> Option<Season> {
        let Self { name, start_ms, end_ms, state } = self.clone();
        let is_ready = state == WindowState::Whole;
        (state != WindowState::Dropped).then_some(Season { start_ms, end_ms, name, is_ready })
    }
}

/// The windows of a new board besides `all`. `retained` says how many past periods a window keeps;
/// the default is all. Its attempts are counted for as long.
pub fn first_windows(rules: &Rules, retained: &BTreeMap<Window, Option<u32>>) -> Vec<WindowRow> {
    let row = |&window: &Window| {
        let mut row = WindowRow::new(window, 1, WindowState::Whole);
        let retain = retained.get(&window.of_periods()).copied().flatten();
        row.retain = retain.unwrap_or(row.retain);
        row.hidden = !rules.is_shown(window);
        row.attempts_max = window.counted().and_then(|counted| rules.attempts_max(counted));
        row
    };
    rules.windows.iter().skip(1).map(row).collect()
}

/// Windows as JSON, the form of the column.
pub fn windows_text(windows: &[WindowRow]) -> String {
    serde_json::to_string(windows).expect("names and numbers have a JSON form")
}
