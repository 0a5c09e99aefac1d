//! The choice of standings: by a client's words, by a page cursor, or as the period before others.

use std::sync::Arc;

use async_graphql::{Context, InputObject};
use engine::read::choice::{self, PeriodChoice, Unreadable};
use entity::board::check_segment;
use ranking::shown;
use ranking::submission::effect::Effect;
use ranking::window::Window;

use super::Standings;
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::types::connection::EntryCursor;
use crate::graphql::types::scalar::DateTime;

/// The copies of a segment in standings: its own, and in the names of keys.
const SEGMENT_COPIES: usize = 4;

/// Selects standings of a board; by default, those of everyone in "all".
#[derive(InputObject, Debug, Clone)]
pub struct StandingsOf {
    /// The window's name.
    #[graphql(default_with = "Some(\"all\".to_owned())")]
    window: Option<String>,
    /// The label of the period; the present period by default.
    period: Option<String>,
    /// An instant in the period, instead of `period`.
    at: Option<DateTime>,
    /// The segment, such as "region:eu"; everyone by default.
    segment: Option<String>,
}

/// A choice among the standings of a board.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The window's name.
    pub window: String,
    /// An instant in the period, in Unix milliseconds.
    pub at_ms: Option<i64>,
    /// The period's label.
    pub period: Option<String>,
    /// The segment.
    pub segment: Option<String>,
}

impl Default for Choice {
    fn default() -> Self {
        Self { window: "all".to_owned(), at_ms: None, period: None, segment: None }
    }
}

impl From<Option<StandingsOf>> for Choice {
    /// An explicit null means the default, as an absent field does.
    fn from(of: Option<StandingsOf>) -> Self {
        let all = Self::default();
        let Some(of) = of else { return all };
        Self {
            window: of.window.unwrap_or(all.window),
            at_ms: of.at.map(|at| at.0),
            period: of.period,
            segment: of.segment,
        }
    }
}

impl Standings {
    /// The standings that a choice names. Pays for the segment, which they keep several times.
    pub(crate) async fn choose(
        ctx: &Context<'_>,
        board: &Arc<CachedBoard>,
        choice: Choice,
    ) -> crate::error::Result<Self> {
        let segment = choice.segment.unwrap_or_default();
        price::pay_text(ctx, SEGMENT_COPIES * segment.len()).await?;
        let period = match (choice.period, choice.at_ms) {
            (Some(_), Some(_)) => {
                let message = "both at and period are given: expected one of them";
                return Err(Error::bad_input(message).at("of.at"));
            }
            (Some(label), None) => PeriodChoice::Label(label),
            (None, Some(at_ms)) => PeriodChoice::At(at_ms),
            (None, None) => PeriodChoice::Present,
        };
        let now_ms = state(ctx).now_ms;
        let (app, window) = (app(ctx), &choice.window);
        let chosen = Self::choose_period(app, board, window, period, segment, now_ms)?;
        price::pay_fold(ctx, &chosen.read).await?;
        Ok(chosen)
    }

    /// The standings of everyone in some period of a window, to ask about the window.
    pub(crate) fn of_window(
        app: &App,
        board: &Arc<CachedBoard>,
        window: &str,
        now_ms: i64,
    ) -> crate::error::Result<Self> {
        Self::choose_period(app, board, window, PeriodChoice::Any, String::new(), now_ms)
    }

    fn choose_period(
        app: &App,
        board: &Arc<CachedBoard>,
        window: &str,
        period: PeriodChoice,
        segment: String,
        now_ms: i64,
    ) -> crate::error::Result<Self> {
        let period_chosen = period != PeriodChoice::Present;
        let (slug, segment_by) = (&board.row.slug, &board.segment_by);
        check_segment(slug, segment_by, &segment)
            .map_err(|error| Error::from(error).at("of.segment"))?;
        let argument = match period {
            PeriodChoice::At(_) => "of.at",
            PeriodChoice::Label(_) => "of.period",
            PeriodChoice::Present | PeriodChoice::Any => "of.window",
        };
        let no_window = || Unreadable::no_window(&board.board, slug, &shown(window));
        let window = window.parse().map_err(|_| Error::from(no_window()).at("of.window"))?;
        let choice = choice::Choice { window, period, segment };
        let resolved = choice.resolve(&board.board, slug, segment_by, now_ms);
        let (id, period) = resolved.map_err(|unreadable| {
            let argument = match unreadable {
                Unreadable::NoWindow(_) => Some("of.window"),
                Unreadable::NoSeason(_) => Some(argument),
                Unreadable::Invalid(_) => Some(argument),
                Unreadable::Filling { .. } => None,
            };
            let error = Error::from(unreadable);
            argument.map_or(error.clone(), |argument| error.at(argument))
        })?;
        Ok(Self::new(app, board, id, period, period_chosen))
    }

    /// The standings of everyone in "all".
    pub(crate) fn of_all_time(
        ctx: &Context<'_>,
        board: &Arc<CachedBoard>,
    ) -> crate::error::Result<Self> {
        let (present, everyone) = (PeriodChoice::Present, String::new());
        let window = Window::All.to_string();
        Self::choose_period(app(ctx), board, &window, present, everyone, state(ctx).now_ms)
    }

    /// The standings of an effect of a submission.
    pub(crate) fn of_effect(app: &App, board: &Arc<CachedBoard>, effect: &Effect) -> Self {
        Self::new(app, board, effect.id.clone(), effect.period.clone(), true)
    }

    /// The standings of the period before this one; `None` if there is none, as in windows
    /// without periods.
    pub(crate) fn last_period(&self, app: &App) -> crate::error::Result<Option<Self>> {
        let (window, rules) = (self.read.id.window, &self.read.rules);
        let last = window.period_before(&self.read.period, &rules.calendar)?;
        last.map(|period| self.filled(app, period)).transpose()
    }

    /// A page cursor, and the standings in which it continues.
    pub(crate) fn list_of(
        &self,
        app: &App,
        cursor: &str,
    ) -> crate::error::Result<(Self, EntryCursor)> {
        let cursor = EntryCursor::decode(cursor)?;
        let id = &self.read.id;
        if cursor.board() != (id.board, id.generation)
            || cursor.list() != (&id.segment, &id.window.to_string())
        {
            return Err(Error::bad_input(
                "invalid page cursor: it is of another list; expected one from this list",
            ));
        }
        if cursor.period() == id.period {
            return Ok((self.clone(), cursor));
        }
        if self.period_chosen {
            return Err(Error::bad_input(format!(
                "invalid page cursor: it is of the period {}, but the request asks for {}",
                cursor.period(),
                id.period
            )));
        }
        let period = id.window.period_named(cursor.period(), &self.read.rules.calendar)?;
        Ok((self.filled(app, period)?, cursor))
    }

    /// The standings of another period of the same window and segment.
    ///
    /// # Errors
    /// `UNAVAILABLE` while a season is being filled.
    fn filled(&self, app: &App, period: ranking::window::Period) -> crate::error::Result<Self> {
        let window = self.read.id.window;
        if !self.board.board.is_filled(window, &period) {
            let board = self.board.row.slug.clone();
            return Err(Unreadable::Filling { window, board }.into());
        }
        Ok(self.of_period(app, period))
    }
}
