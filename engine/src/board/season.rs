//! Listing the seasons of a board, and taking back those that have not begun.
//!
//! A season is part of the board's window `season`, so a change of the list is a change of the
//! board's windows: a new generation, which a commit tells every partition. From there on, every
//! writer knows the list. Once SQL has the commits before, it tells whether an event of the season
//! came earlier. Then the standings of the window are filled from the history, as those of a new
//! window are.

use entity::board::{self, SeasonRow, WindowRow, WindowState};
use entity::error::Result;
use entity::history::span;
use ranking::window::Window;
use ranking::window::season::{SEASONS_MAX, Season};
use ranking::{Error, shown_instant};

use super::windows::Changed;
use crate::deployment::Deployment;

/// Checks that a board has the window of seasons.
///
/// # Errors
/// `Invalid` if it has not; `Corrupt` if the row is invalid.
pub fn check_window(row: &board::Model) -> ranking::Result<()> {
    of_seasons(&mut row.window_rows()?, &row.slug).map(drop)
}

/// Plans one more season.
///
/// # Errors
/// `Invalid` or `LimitExceeded` if the season cannot be beside the others, or begins before the
/// instant up to which past seasons are sealed or events archived. `Corrupt` if the row is invalid.
pub fn added(row: &board::Model, season: &Season) -> ranking::Result<Changed> {
    let mut windows = row.window_rows()?;
    let window = of_seasons(&mut windows, &row.slug)?;
    let Season { name, start_ms, end_ms, .. } = season.clone();
    if window.seasons.iter().any(|other| other.name == name && other.state == WindowState::Dropped)
    {
        return Err(Error::Overloaded(format!("season {name} is being removed; try again later")));
    }
    let sealing_before_ms = window.sealed().sealing_before_ms;
    let from_ms = sealing_before_ms.max(row.archived_before_ms.unwrap_or(i64::MIN));
    if start_ms < from_ms {
        let from = shown_instant(from_ms);
        return Err(Error::Invalid(format!(
            "invalid season {name}: past seasons are sealed or archived: expected startsAt of {from} or later"
        )));
    }
    // Those that are being removed count here: the row has them until their standings are gone.
    if window.seasons.len() >= 2 * SEASONS_MAX {
        let text = "too many seasons are being removed; try again later";
        return Err(Error::Overloaded(text.to_owned()));
    }
    window.seasons.push(SeasonRow { name, start_ms, end_ms, state: WindowState::Filling });
    changed(row, windows)
}

/// Plans without a season that has not begun at an instant; `None` if the board has no such season.
///
/// # Errors
/// `Invalid` if the season has begun. `Corrupt` if the row is invalid.
pub fn removed(row: &board::Model, name: &str, now_ms: i64) -> ranking::Result<Option<Changed>> {
    let mut windows = row.window_rows()?;
    let window = of_seasons(&mut windows, &row.slug)?;
    let mut seasons = window.seasons.iter_mut();
    let listed = seasons.find(|season| season.name == name && season.state != WindowState::Dropped);
    let Some(season) = listed else { return Ok(None) };
    if season.start_ms <= now_ms {
        return Err(Error::Invalid(format!(
            "season {name} has begun: expected one that has not begun"
        )));
    }
    season.state = WindowState::Dropped;
    changed(row, windows).map(Some)
}

/// True if the standings of a board's seasons do not follow from what writers did: of a season that
/// was added or taken back, SQL has an event. The caller has told every partition of the change,
/// and SQL has the commits before.
pub(super) async fn needs_fill(deployment: &Deployment, row: &board::Model) -> Result<bool> {
    let windows = row.window_rows()?;
    let seasons = windows.iter().flat_map(|window| &window.seasons);
    for season in seasons.filter(|season| season.state != WindowState::Whole) {
        let span = season.start_ms..season.end_ms;
        if span::has_events(&deployment.db, row.no, &span).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The window of seasons among those of a board.
fn of_seasons<'w>(windows: &'w mut [WindowRow], slug: &str) -> ranking::Result<&'w mut WindowRow> {
    let name = Window::Season.to_string();
    let is_it = |row: &&mut WindowRow| row.name == name && row.state != WindowState::Dropped;
    windows.iter_mut().find(is_it).ok_or_else(|| {
        Error::Invalid(format!("board {slug} has no window season: expected a board that has it"))
    })
}

/// The change to these windows, if the board may have them.
fn changed(row: &board::Model, windows: Vec<WindowRow>) -> ranking::Result<Changed> {
    let generation = row.generation.unsigned_abs() + 1;
    let mut later = row.clone();
    later.windows = board::windows_text(&windows);
    later.to_ranking()?;
    Ok(Changed { windows, generation })
}
