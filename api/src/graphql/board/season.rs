//! The seasons of a board: the periods of its window "season", which its owner lists.

use std::sync::Arc;

use async_graphql::{Context, InputObject, Object, SimpleObject};
use engine::board::season;
use engine::board::windows::{self, Changed};
use engine::merge::check_none_under_way;
use entity::board;
use entity::board::{WindowRow, windows_text};
use ranking::board::admission::Admission;
use ranking::id::check_slug;
use ranking::window::season::check_name;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::Board;
use super::input::{UPDATES_MAX, no_board};
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::audit::writer::Audit;
use crate::graphql::request::app;
use crate::graphql::types::scalar::DateTime;

/// How long a request waits until every partition knows its season; the background work finishes
/// what is left.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause between two attempts of such a request.
const FINISH_PAUSE: Duration = Duration::from_millis(100);

/// A season to be listed.
#[derive(InputObject)]
pub struct AddSeasonInput {
    /// The board's slug.
    board: String,
    /// The name, which is the label of the period: [a-z0-9][a-z0-9_-]{0,63}, no other season of the
    /// board has it.
    name: String,
    /// The first instant in the season. One in the past is fine, unless later seasons are sealed or
    /// its scores are archived.
    starts_at: DateTime,
    /// The first instant after the season, at most 366 days after its first. No season of the board
    /// overlaps another. Neither instant can be changed.
    ends_at: DateTime,
}

/// The season to take back.
#[derive(InputObject)]
pub struct RemoveSeasonInput {
    /// The board's slug.
    board: String,
    /// The name of a season that has not begun.
    name: String,
}

/// The result of `addSeason`.
#[derive(SimpleObject)]
pub struct AddSeasonPayload {
    /// The board as it is now.
    board: Board,
    /// The season.
    season: Season,
}

/// The result of `removeSeason`.
#[derive(SimpleObject)]
pub struct RemoveSeasonPayload {
    /// The board as it is now.
    board: Board,
    /// True if this request took the season back; false if the board had none of that name.
    removed: bool,
}

/// A period of the window "season".
pub struct Season(pub(super) ranking::window::season::Season);

/// A period of the window "season".
#[Object]
impl Season {
    /// The name, which is the label of the period.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// The first instant in the season.
    async fn starts_at(&self) -> DateTime {
        DateTime(self.0.start_ms)
    }

    /// The first instant after the season.
    async fn ends_at(&self) -> DateTime {
        DateTime(self.0.end_ms)
    }

    /// True once the season includes the scores from before it was listed. Until then its standings
    /// are UNAVAILABLE.
    async fn ready(&self) -> bool {
        self.0.is_ready
    }
}

/// Lists a season.
pub(crate) async fn add_season(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &AddSeasonInput,
) -> crate::error::Result<AddSeasonPayload> {
    let app = app(ctx);
    audit.note(|act| act.on_slug(&input.board));
    check_none_under_way(&app.deployment).await?;
    let (starts_ms, ends_ms) = (input.starts_at.0, input.ends_at.0);
    check_name(&input.name).map_err(|error| Error::from(error).at("input.name"))?;
    let asked = ranking::window::season::Season::new(&input.name, starts_ms, ends_ms);
    let instant = if starts_ms < 0 { "input.startsAt" } else { "input.endsAt" };
    let asked = asked.map_err(|error| Error::from(error).at(instant))?;
    let planned = |row: &board::Model| {
        season::check_window(row).map_err(|error| Error::from(error).at("input.board"))?;
        if row.to_ranking()?.rules.calendar.season_named(&input.name).is_some() {
            let message = format!("season {} already exists: expected another name", input.name);
            return Err(Error::new(ErrorCode::AlreadyExists, message).at("input.name"));
        }
        season::added(row, &asked).map(Some).map_err(|error| match Error::from(error) {
            error if error.code == ErrorCode::BadUserInput => error.at("input.startsAt"),
            error => error,
        })
    };
    let (board, _) = change((app, audit), &input.board, planned).await?;
    let season = board.board.rules.calendar.season_named(&input.name).cloned();
    let season = season.ok_or_else(|| {
        // The history did not fit into its range, or another request was faster.
        let message = format!("season {} is gone again", input.name);
        Error::new(ErrorCode::NotFound, message).at("input.name")
    })?;
    Ok(AddSeasonPayload { board: Board(board), season: Season(season) })
}

/// Takes a season back.
pub(crate) async fn remove_season(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &RemoveSeasonInput,
) -> crate::error::Result<RemoveSeasonPayload> {
    let app = app(ctx);
    audit.note(|act| act.on_slug(&input.board));
    let now_ms = app.deployment.clock.now_ms();
    let planned = |row: &board::Model| {
        season::check_window(row).map_err(|error| Error::from(error).at("input.board"))?;
        let removed = season::removed(row, &input.name, now_ms);
        removed.map_err(|error| Error::from(error).at("input.name"))
    };
    let (board, removed) = change((app, audit), &input.board, planned).await?;
    Ok(RemoveSeasonPayload { board: Board(board), removed })
}

/// Changes the seasons of a board as planned, and tells every partition. Returns the board, and
/// true if it changed.
async fn change(
    (app, audit): (&App, &Audit<'_>),
    slug: &str,
    plan: impl Fn(&board::Model) -> crate::error::Result<Option<Changed>>,
) -> crate::error::Result<(Arc<CachedBoard>, bool)> {
    let no_board = || no_board(slug).at("input.board");
    check_slug(slug).map_err(|_| no_board())?;
    let db = &app.deployment.db;
    for _ in 0..UPDATES_MAX {
        let row = board::of_slug(db, slug).await?.ok_or_else(no_board)?;
        let Some(Changed { windows, generation }) = plan(&row)? else {
            return Ok((CachedBoard::new(row)?, false));
        };
        if row.reshard.is_some() {
            return Err(ranking::Error::BoardHeld.into());
        }
        let generation = generation.try_into().unwrap_or(i32::MAX);
        let change = board::Change {
            windows: Some((windows_text(&windows), generation)),
            admission: Admission::new(row.opens_at_ms, row.closes_at_ms, row.lateness_max_ms)?,
            fair_play: row.fair_play(),
            ..board::Change::default()
        };
        let updated = board::update(db, &row, change, &audit.act()).await?;
        app.boards.changed(slug);
        if let Some(row) = updated {
            audit.written();
            finish(app, &row).await;
            let row = board::find(db, row.no).await?.ok_or_else(no_board)?;
            app.boards.changed(slug);
            return Ok((CachedBoard::new(row)?, true));
        }
    }
    Err(Error::new(ErrorCode::Unavailable, "other requests keep changing this board; try again"))
}

/// Tells every partition of a change, and fills the season with what came before. The background
/// work does what fails here or takes too long.
async fn finish(app: &App, row: &board::Model) {
    let slug = &row.slug;
    let (deployment, row) = (app.deployment.clone(), row.clone());
    // A job that is begun goes on to its end.
    let finishing = tokio::spawn(async move {
        let began = Instant::now();
        while began.elapsed() < FINISH_TIMEOUT {
            windows::finish(&deployment, &row).await?;
            let now = board::find(&deployment.db, row.no).await?;
            let is_done = |now: &board::Model| {
                let windows = now.window_rows();
                now.generation != row.generation
                    || windows.is_ok_and(|windows| windows.iter().all(WindowRow::is_settled))
            };
            if now.as_ref().is_none_or(is_done) {
                break;
            }
            // Another job of the board is running, or has just failed.
            sleep(FINISH_PAUSE).await;
        }
        Ok::<_, entity::Error>(())
    });
    match timeout(FINISH_TIMEOUT, finishing).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => {
            tracing::warn!(slug, %error, "a change of seasons is left to the background work");
        }
        Ok(Err(_)) | Err(_) => {
            tracing::info!(slug, "a change of seasons is left to the background work");
        }
    }
}
