//! Boards and their windows.

pub mod deletion;
pub mod display;
pub mod fair_play;
pub mod input;
pub mod joining;
pub mod list;
pub mod season;
pub(crate) mod segments;
pub mod window;
pub mod window_input;

use std::sync::Arc;

use async_graphql::connection::EmptyFields;
use async_graphql::{Context, Enum, ID, Object, Result};

use super::board::display::ScoreFormat;
use super::board::fair_play::FairPlay;
use super::board::input::no_board;
use super::board::joining::Entrants;
use super::board::season::Season;
use super::board::segments::segments_page;
use super::board::window::BoardWindow;
use super::guard::Needs;
use super::member::quarantine::{self, QuarantineState, QuarantinedScore};
use super::member::report::{self, MemberReport, ReportState};
use super::price;
use super::request::{RequestState, app, state};
use super::standings::period::{Period, PeriodTotal, periods_page};
use super::standings::{Standings, StandingsOf};
use super::types::connection::{Connection, Page};
use super::types::global_id::{BoardName, GlobalId};
use super::types::scalar::{DateTime, Decimal};
use crate::access::scope::Scope;
use crate::app::App;
use crate::cache::boards::CachedBoard;

/// The order of scores.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "ranking::board::Direction")]
pub enum ScoreOrder {
    /// The highest score ranks first.
    HighFirst,
    /// The lowest score ranks first.
    LowFirst,
}

/// How a submitted score changes the member's score.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "ranking::board::Policy")]
pub enum ScorePolicy {
    /// The submitted score is added.
    Sum,
    /// The better score stays.
    Best,
    /// The score earned last stays; of scores earned in the same tick, the better one.
    Latest,
}

/// The order of members with equal scores.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "ranking::board::TieBreak")]
pub enum TieBreak {
    /// The member that reached the score first ranks higher.
    Earliest,
    /// The member that reached the score last ranks higher.
    Latest,
    /// The member with the smaller key, by bytes, ranks higher.
    Member,
}

/// A day of the week.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "ranking::window::calendar::Weekday")]
pub enum Weekday {
    /// Monday.
    Monday,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}

/// The clients that may read a board.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::board::Visibility")]
pub enum Visibility {
    /// All clients.
    Public,
    /// Clients with an access token that names the board, or of scope admin; for others the board
    /// does not exist.
    Private,
}

/// The board of a slug, if the client may see it.
pub(crate) async fn find(
    app: &App,
    state: &RequestState,
    slug: &str,
) -> crate::error::Result<Option<Arc<CachedBoard>>> {
    state.spend(price::BOARD).await?;
    let _reading = state.loaders.reading();
    let _place = state.budget.find().await;
    let found = Box::pin(app.boards.find(app.lookups(), slug));
    let (board, good_until) = found.await?;
    state.good_until.limit(good_until);
    Ok(board.filter(|board| state.seen().includes(&board.row)))
}

/// The board of a global id, if the client may see it.
pub(crate) async fn of_name(
    ctx: &Context<'_>,
    name: &BoardName,
) -> crate::error::Result<Option<Arc<CachedBoard>>> {
    let board = find(app(ctx), state(ctx), &name.slug).await?;
    Ok(board.filter(|board| board.row.no == name.no))
}

/// The board of a slug.
///
/// # Errors
/// `NOT_FOUND` if there is no such board that the client may see.
pub(crate) async fn named(ctx: &Context<'_>, slug: &str) -> crate::error::Result<Arc<CachedBoard>> {
    let board = find(app(ctx), state(ctx), slug).await?;
    board.ok_or_else(|| no_board(slug).at("board"))
}

/// The board of a number; `None` without a number, or if the board was deleted. It does not check
/// visibility, so it is only for clients that may see every board.
pub(crate) async fn of_number(
    ctx: &Context<'_>,
    no: Option<i64>,
) -> crate::error::Result<Option<Board>> {
    let Some(no) = no else {
        return Ok(None);
    };
    state(ctx).spend(price::BOARD_ROW).await?;
    let known = state(ctx).loaders.board(no).await?;
    let living = known.filter(|known| known.row.deleted_at_ms.is_none());
    Ok(living.map(Board))
}

/// A ranking with fixed rules.
#[derive(Clone)]
pub struct Board(pub(crate) Arc<CachedBoard>);

/// A ranking with fixed rules.
#[Object]
impl Board {
    /// The global id: "board:<slug>.<number>". The number is never used again, so that another
    /// board of the same slug has another id.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Board(BoardName::of(&self.0)).to_text().into()
    }

    /// The name of the board in queries: [a-z0-9][a-z0-9_-]{0,63}.
    async fn slug(&self) -> &str {
        &self.0.row.slug
    }

    /// The title, for people.
    async fn title(&self) -> &str {
        &self.0.row.title
    }

    /// The description, for people; null for none.
    async fn description(&self) -> Option<&str> {
        self.0.display.description.as_deref()
    }

    /// The address of an icon; null for none.
    async fn icon_url(&self) -> Option<&str> {
        self.0.display.icon_url.as_deref()
    }

    /// The tags to find the board by.
    async fn tags(&self) -> &[String] {
        &self.0.display.tags
    }

    /// The form in which scores are shown; see `Entry.formattedScore`.
    async fn score_format(&self) -> ScoreFormat {
        (&self.0.display.format).into()
    }

    /// The order of scores.
    async fn direction(&self) -> ScoreOrder {
        self.0.board.rules.direction.into()
    }

    /// How a submitted score changes the member's score.
    async fn policy(&self) -> ScorePolicy {
        self.0.board.rules.policy.into()
    }

    /// The order of members with equal scores.
    async fn tie_break(&self) -> TieBreak {
        self.0.board.rules.tie_break.into()
    }

    /// The unit of time in tie-breaks, in milliseconds; fixed at creation.
    async fn tie_break_resolution_ms(&self) -> i32 {
        self.0.row.tick_ms
    }

    /// The number of decimals in a score.
    async fn decimals(&self) -> i32 {
        self.0.board.rules.decimals.into()
    }

    /// The lowest score that a member can have in "all".
    async fn min_score(&self) -> Decimal {
        Decimal::of(self.0.board.rules.min, self.0.board.rules.decimals)
    }

    /// The highest score that a member can have in "all".
    async fn max_score(&self) -> Decimal {
        Decimal::of(self.0.board.rules.max, self.0.board.rules.decimals)
    }

    /// The IANA time zone in which periods begin.
    async fn time_zone(&self) -> &str {
        &self.0.row.time_zone
    }

    /// The hour of the local clock at which days begin, and weeks, months, quarters and years with
    /// their first day; fixed at creation.
    async fn reset_hour(&self) -> i32 {
        self.0.row.reset_hour
    }

    /// The day with which weeks begin; fixed at creation.
    async fn week_start(&self) -> Weekday {
        self.0.board.rules.calendar.week_start.into()
    }

    /// The number of Redis sorted sets that the entries of each window and period are spread over.
    async fn shards(&self) -> i32 {
        self.0.board.rules.shards.into()
    }

    /// The attributes whose values have standings of their own, such as "region"; at most three.
    async fn segment_by(&self) -> &[String] {
        &self.0.segment_by
    }

    /// The clients that may read the board.
    async fn visibility(&self) -> Visibility {
        self.0.row.visibility.into()
    }

    /// True if a member's own token may submit that member's scores.
    async fn self_submit(&self) -> bool {
        self.0.row.self_submit
    }

    /// True if scores may have metadata; fixed at creation.
    async fn metadata(&self) -> bool {
        self.0.board.has_metadata
    }

    /// The limits for the scores of each member; null if the board has none.
    async fn fair_play(&self) -> Option<FairPlay> {
        FairPlay::of(&self.0)
    }

    /// The scores in quarantine, in the order of arrival. Needs scope moderate.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Moderate)")]
    async fn quarantine(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The states of the scores; HELD and RELEASING by default.")]
        states: Option<Vec<QuarantineState>>,
        #[graphql(desc = "The key of a member, to list its scores only.")] member: Option<String>,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<QuarantinedScore, EmptyFields>>> {
        let page = quarantine::page(ctx, &self.0, (states, member), first, after.as_deref());
        Ok(Some(Box::pin(page).await?))
    }

    /// The reports of members on the board, in the order of their numbers. Needs scope moderate.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Moderate)")]
    async fn reports(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The states of the reports; OPEN by default.")] states: Option<
            Vec<ReportState>,
        >,
        #[graphql(desc = "The key of a member, to list reports of it only.")] member: Option<
            String,
        >,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<MemberReport, EmptyFields>>> {
        let page = report::page(ctx, &self.0, (states, member), first, after.as_deref());
        Ok(Some(Box::pin(page).await?))
    }

    /// The members who joined; null if the board was not created with `joining`, so that anyone may
    /// submit.
    async fn entrants(&self) -> Option<Entrants> {
        Entrants::of(&self.0)
    }

    /// The windows of the board; "all" is always the first.
    async fn windows(&self) -> Vec<BoardWindow> {
        self.0.board.rules.shown().map(|window| BoardWindow::new(&self.0, window)).collect()
    }

    /// The seasons of the window "season", in the order of time; at most 200.
    async fn seasons(&self) -> Vec<Season> {
        self.0.board.rules.calendar.seasons.iter().cloned().map(Season).collect()
    }

    /// The time of creation.
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.row.created_at_ms)
    }

    /// The earliest time at which an accepted score was earned (`at`); null for no limit.
    async fn opens_at(&self) -> Option<DateTime> {
        self.0.row.opens_at_ms.map(DateTime)
    }

    /// The time from which on scores that are earned (`at`) are no longer accepted; null for no
    /// limit.
    async fn closes_at(&self) -> Option<DateTime> {
        self.0.row.closes_at_ms.map(DateTime)
    }

    /// The longest time in seconds from an accepted score's `at` to its arrival; null for no limit.
    async fn max_lateness_seconds(&self) -> Option<i32> {
        let seconds = self.0.row.lateness_max_ms? / 1000;
        Some(i32::try_from(seconds).unwrap_or(i32::MAX))
    }

    /// The periods of a window that have entries, newest first.
    async fn periods(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The window's name.")] window: String,
        #[graphql(default = 10, desc = "The number of items from the front, at most 1,000.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the back, at most 1,000; instead of `first`.")]
        last: Option<i32>,
        #[graphql(desc = "Only items before this page cursor.")] before: Option<String>,
    ) -> Result<Option<Connection<Period, PeriodTotal>>> {
        let standings = Standings::of_window(app(ctx), &self.0, &window, state(ctx).now_ms)
            .map_err(|error| if error.argument.is_some() { error.at("window") } else { error })?;
        let page = Page::new(first, after, last, before)?;
        Ok(Some(Box::pin(periods_page(ctx, standings, page)).await?))
    }

    /// The standings of each segment that has entries in "all", ordered by segment; with `of`, in
    /// another window or period. A segment is listed a moment after its first score.
    async fn segments(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The window and period, without a segment.")] of: Option<StandingsOf>,
        #[graphql(desc = "Only segments by this attribute.")] attribute: Option<String>,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<Standings, EmptyFields>>> {
        let page =
            segments_page(ctx, self, of.into(), attribute.as_deref(), first, after.as_deref());
        Ok(Some(Box::pin(page).await?))
    }

    /// The standings that `of` selects; by default, those of everyone in "all".
    async fn standings(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The window, period and segment.")] of: Option<StandingsOf>,
    ) -> Result<Option<Standings>> {
        Ok(Some(Standings::choose(ctx, &self.0, of.into()).await?))
    }
}
