//! Mutations of boards: create, update, delete.

use std::collections::BTreeMap;

use async_graphql::{Context, InputObject, MaybeUndefined, SimpleObject};
use engine::board::windows;
use engine::merge::check_none_under_way;
use entity::board;
use entity::board::windows_text;
use ranking::attribute::check_segment_by;
use ranking::board::admission::Admission;
use ranking::board::fair_play::FairPlay;
use ranking::board::rules::{Rules, RulesInput};
use ranking::id::check_slug;
use ranking::metadata;
use ranking::score::DECIMALS_MAX;
use ranking::shown;
use ranking::window::{Calendar, Window, parse_zone};

use super::display::BoardDisplayInput;
use super::fair_play::FairPlayInput;
use super::joining::check_entrants_max;
use super::window_input::{WindowInput, attempts, check_attempts, retained};
use super::{Board, ScoreOrder, ScorePolicy, TieBreak, Visibility, Weekday};
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::audit::writer::Audit;
use crate::graphql::request::app;
use crate::graphql::types::scalar::{DateTime, Decimal, text};

/// The lateness of scores, in seconds, that a new board accepts where members submit their own, if
/// its creator names none.
const LATENESS_SELF_SUBMIT_SECONDS: i32 = 7 * 24 * 3600;

/// How often an update is tried while other requests change the same board.
pub(super) const UPDATES_MAX: usize = 20;

/// A new board. Its scoring rules are fixed at creation; `updateBoard` can change the rest.
#[derive(InputObject)]
pub struct CreateBoardInput {
    /// The name of the board in queries: [a-z0-9][a-z0-9_-]{0,63}.
    slug: String,
    /// The title, for people; the slug by default.
    title: Option<String>,
    #[graphql(flatten)]
    display: BoardDisplayInput,
    /// The order of scores.
    #[graphql(default_with = "Some(ScoreOrder::HighFirst)")]
    direction: Option<ScoreOrder>,
    /// How a submitted score changes the member's score.
    #[graphql(default_with = "Some(ScorePolicy::Sum)")]
    policy: Option<ScorePolicy>,
    /// The order of members with equal scores.
    #[graphql(default_with = "Some(TieBreak::Earliest)")]
    tie_break: Option<TieBreak>,
    /// The unit of time in tie-breaks: 1, 10, 100, 1000, 10000 or 100000 ms. By default, the finest
    /// unit that fits beside the score range, but never coarser than 1 s.
    tie_break_resolution_ms: Option<i32>,
    /// The number of decimals in a score, 0 to 9.
    #[graphql(default_with = "Some(0)")]
    decimals: Option<i32>,
    /// The lowest score that a member can have in "all".
    #[graphql(default_with = "Some(Decimal(\"0\".to_owned()))")]
    min_score: Option<Decimal>,
    /// The highest score that a member can have in "all". The range may take at most 53 bits.
    #[graphql(default_with = "Some(Decimal(\"999999999\".to_owned()))")]
    max_score: Option<Decimal>,
    /// The IANA time zone in which periods begin.
    #[graphql(default_with = "Some(\"UTC\".to_owned())")]
    time_zone: Option<String>,
    /// The hour of the local clock at which days begin, 0 to 23; weeks, months, quarters and years
    /// begin with their first day. Hours are those of the clock.
    #[graphql(default_with = "Some(0)")]
    reset_hour: Option<i32>,
    /// The day with which weeks begin. Weeks from Monday have ISO labels: "2025-W36". Others are
    /// labeled by their first day: "2025-08-31/P7D".
    #[graphql(default_with = "Some(Weekday::Monday)")]
    week_start: Option<Weekday>,
    /// The number of Redis sorted sets that the entries of each window and period are spread over:
    /// a power of two, at most the number of partitions.
    #[graphql(default_with = "Some(1)")]
    shards: Option<i32>,
    /// The attributes whose values have standings of their own, at most three: "region", or names
    /// of your own such as "country". A score counts in the segments of its own attributes, and
    /// else of those that its member has when it is accepted. It stays there when the member moves.
    #[graphql(default_with = "Some(vec![])")]
    segment_by: Option<Vec<String>>,
    /// The clients that may read the board.
    #[graphql(default_with = "Some(Visibility::Public)")]
    visibility: Option<Visibility>,
    /// True if a member's own token may submit that member's scores.
    #[graphql(default_with = "Some(false)")]
    self_submit: Option<bool>,
    /// True if scores may have metadata, which entries then show. Not with tie-break MEMBER. It
    /// cannot be changed later.
    #[graphql(default_with = "Some(false)")]
    metadata: Option<bool>,
    /// True if only members who joined may submit: see `joinBoard`. Scores of others are rejected
    /// with NOT_JOINED. It cannot be changed later.
    #[graphql(default_with = "Some(false)")]
    joining: Option<bool>,
    /// The most members who may have joined, 1 to 1,000,000,000; no limit by default. Only with
    /// `joining`.
    entrants_max: Option<i32>,
    /// The windows besides "all".
    #[graphql(default_with = "Some(vec![])")]
    windows: Option<Vec<WindowInput>>,
    /// The limits for the scores of each member; none by default.
    fair_play: Option<FairPlayInput>,
    /// The earliest time at which an accepted score was earned (`at`); no limit by default. Scores
    /// earned earlier are rejected with BOARD_NOT_OPEN.
    opens_at: Option<DateTime>,
    /// The time from which on scores that are earned (`at`) are rejected with BOARD_CLOSED; no
    /// limit by default.
    closes_at: Option<DateTime>,
    /// The longest time in seconds from an accepted score's `at` to its arrival; null for no limit.
    /// By default 604,800 (7 days) if `selfSubmit` is true, otherwise no limit. Later scores are
    /// rejected with TOO_LATE.
    max_lateness_seconds: MaybeUndefined<i32>,
}

/// Changes to a board; absent fields stay as they are. Of the scoring rules, only the windows can
/// change.
#[derive(InputObject)]
pub struct UpdateBoardInput {
    /// The board's slug.
    slug: String,
    /// The title, for people.
    title: Option<String>,
    #[graphql(flatten)]
    display: BoardDisplayInput,
    /// The windows besides "all". Windows of the board that are not listed are dropped with their
    /// standings. New ones are filled from the history; each is complete once its field `ready` is
    /// true.
    windows: Option<Vec<WindowInput>>,
    /// The clients that may read the board.
    visibility: Option<Visibility>,
    /// True if a member's own token may submit that member's scores.
    self_submit: Option<bool>,
    /// The most members who may have joined; null for no limit. Those who have stay, even if they
    /// are more. Only of a board that was created with `joining`.
    entrants_max: MaybeUndefined<i32>,
    /// The limits for the scores of each member, in place of the present ones; null for none.
    fair_play: MaybeUndefined<FairPlayInput>,
    /// The earliest time at which an accepted score was earned (`at`); null for no limit.
    opens_at: MaybeUndefined<DateTime>,
    /// The time from which on scores that are earned (`at`) are no longer accepted; null for no
    /// limit.
    closes_at: MaybeUndefined<DateTime>,
    /// The longest time in seconds from an accepted score's `at` to its arrival; null for no limit.
    /// Where members begin to submit themselves (`selfSubmit`) and there is no limit, it becomes
    /// 604,800 (7 days) unless this is given.
    max_lateness_seconds: MaybeUndefined<i32>,
}

/// The result of `createBoard`.
#[derive(SimpleObject)]
pub struct CreateBoardPayload {
    /// The new board.
    pub(crate) board: Board,
}

/// The result of `updateBoard`.
#[derive(SimpleObject)]
pub struct UpdateBoardPayload {
    /// The board as it is now.
    pub(crate) board: Board,
}

/// Creates a board.
pub(crate) async fn create(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: CreateBoardInput,
) -> crate::error::Result<CreateBoardPayload> {
    let app = app(ctx);
    audit.note(|act| act.on_slug(&input.slug));
    let row = board_row(app, input).map_err(|error| error.within("input"))?;
    let slug = row.slug.clone();
    let row = app.deployment.create_board(row, audit.act()).await?.ok_or_else(|| {
        let message = format!("board {} already exists", shown(&slug));
        Error::new(ErrorCode::AlreadyExists, message).at("input.slug")
    })?;
    audit.written();
    app.boards.changed(&slug);
    Ok(CreateBoardPayload { board: Board(CachedBoard::new(row)?) })
}

/// Changes a board.
pub(crate) async fn update(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: UpdateBoardInput,
) -> crate::error::Result<UpdateBoardPayload> {
    let app = app(ctx);
    audit.note(|act| act.on_slug(&input.slug));
    let no_board = || no_board(&input.slug).at("input.slug");
    check_slug(&input.slug).map_err(|_| no_board())?;
    let db = &app.deployment.db;
    let windows = input.windows.as_deref().map(retained).transpose();
    let windows = windows.map_err(|error| error.within("input"))?;
    let now_ms = app.deployment.clock.now_ms();
    for _ in 0..UPDATES_MAX {
        let row = board::of_slug(db, &input.slug).await?.ok_or_else(no_board)?;
        check_attempts(input.windows.as_deref().unwrap_or_default(), &row)
            .map_err(|error| error.within("input"))?;
        let change = change(&input, windows.as_ref(), &row, now_ms)
            .map_err(|error| error.within("input"))?;
        if change.windows.is_some() {
            check_none_under_way(&app.deployment).await?;
        }
        let updated = board::update(db, &row, change, &audit.act()).await?;
        app.boards.changed(&input.slug);
        if let Some(row) = updated {
            audit.written();
            return Ok(UpdateBoardPayload { board: Board(CachedBoard::new(row)?) });
        }
    }
    Err(Error::new(ErrorCode::Unavailable, "other requests keep changing this board; try again"))
}

/// The changes to write, given the present row.
fn change(
    input: &UpdateBoardInput,
    windows: Option<&BTreeMap<Window, Option<u32>>>,
    row: &board::Model,
    now_ms: i64,
) -> crate::error::Result<board::Change> {
    let mut changed = board::Change::default();
    if let Some(windows) = windows
        && let Some(change) = windows::change(row, windows, now_ms)?
    {
        if row.reshard.is_some() {
            return Err(ranking::Error::BoardHeld.into());
        }
        let mut later = row.clone();
        later.windows = windows_text(&change.windows);
        later.generation = change.generation.try_into().unwrap_or(i32::MAX);
        // Checks that the new windows fit beside the board's range and tie-break.
        later.to_ranking()?;
        changed.windows = Some((later.windows, later.generation));
    }
    changed.title = input.title.clone().map(|title| text("title", title)).transpose()?;
    let mut shown = row.clone();
    shown.title = changed.title.clone().unwrap_or(shown.title);
    input.display.apply(&mut shown)?;
    changed.display = Some(shown.display);
    changed.search = Some(shown.search);
    changed.visibility = input.visibility.map(Into::into);
    changed.self_submit = input.self_submit;
    changed.entrants_max = match input.entrants_max {
        MaybeUndefined::Undefined => None,
        MaybeUndefined::Null => Some(None),
        MaybeUndefined::Value(max) => Some(Some(check_entrants_max(max, row.joining)?)),
    };
    changed.fair_play = match &input.fair_play {
        MaybeUndefined::Undefined => row.fair_play(),
        MaybeUndefined::Null => FairPlay::default(),
        MaybeUndefined::Value(given) => given.read(row.to_ranking()?.rules.decimals)?,
    };
    let end =
        |asked: MaybeUndefined<DateTime>, present| or_present(asked.map_value(|at| at.0), present);
    let lateness_ms = match input.max_lateness_seconds {
        // Members begin to submit themselves: by default as on a board where they always could.
        MaybeUndefined::Undefined if input.self_submit == Some(true) && !row.self_submit => {
            row.lateness_max_ms.or(Some(milliseconds(LATENESS_SELF_SUBMIT_SECONDS)))
        }
        given => or_present(given.map_value(milliseconds), row.lateness_max_ms),
    };
    changed.admission = Admission::new(
        end(input.opens_at, row.opens_at_ms),
        end(input.closes_at, row.closes_at_ms),
        lateness_ms,
    )?;
    Ok(changed)
}

fn milliseconds(seconds: i32) -> i64 {
    i64::from(seconds) * 1000
}

/// The new value: null clears it, absent keeps the present one.
fn or_present(asked: MaybeUndefined<i64>, present: Option<i64>) -> Option<i64> {
    match asked {
        MaybeUndefined::Undefined => present,
        asked => asked.take(),
    }
}

/// The error for a board that does not exist.
pub(crate) fn no_board(slug: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("there is no board {}", shown(slug)))
}

fn board_row(app: &App, input: CreateBoardInput) -> crate::error::Result<board::Model> {
    check_slug(&input.slug).map_err(|error| Error::from(error).at("slug"))?;
    let segment_by = input.segment_by.unwrap_or_default();
    check_segment_by(&segment_by).map_err(|error| Error::from(error).at("segmentBy"))?;
    let title = text("title", input.title.unwrap_or_else(|| input.slug.clone()))?;
    let decimals = checked_decimals(input.decimals.unwrap_or(0))?;
    let time_zone = input.time_zone.unwrap_or_else(|| "UTC".to_owned());
    let zone = parse_zone(&time_zone).map_err(|error| Error::from(error).at("timeZone"))?;
    let calendar = Calendar::of_zone(zone).reset_at(input.reset_hour.unwrap_or(0));
    let calendar = calendar.map_err(|error| Error::from(error).at("resetHour"))?;
    let week_start = input.week_start.unwrap_or(Weekday::Monday);
    let windows = input.windows.as_deref().unwrap_or_default();
    let retained = retained(windows)?;
    let tick_ms = input.tie_break_resolution_ms.map(u32::try_from).transpose();
    let rules = Rules::new(RulesInput {
        direction: input.direction.unwrap_or(ScoreOrder::HighFirst).into(),
        policy: input.policy.unwrap_or(ScorePolicy::Sum).into(),
        tie_break: input.tie_break.unwrap_or(TieBreak::Earliest).into(),
        tick_ms: tick_ms.map_err(|_| {
            Error::bad_input(
                "invalid tieBreakResolutionMs: expected 1, 10, 100, 1000, 10000 or 100000",
            )
            .at("tieBreakResolutionMs")
        })?,
        decimals,
        min: bound("minScore", input.min_score, "0", decimals)?,
        max: bound("maxScore", input.max_score, "999999999", decimals)?,
        calendar: Calendar { week_start: week_start.into(), ..calendar },
        shards: app.deployment.store.partitions().check_shards(input.shards.unwrap_or(1).into())?,
        windows: retained.keys().copied().collect(),
        attempts: attempts(windows)?,
    })?;
    let mut row =
        board::of_rules(&input.slug, &title, &rules, &time_zone, app.deployment.clock.now_ms());
    input.display.apply(&mut row)?;
    row.windows = windows_text(&board::first_windows(&rules, &retained));
    row.visibility = input.visibility.unwrap_or(Visibility::Public).into();
    row.self_submit = input.self_submit.unwrap_or(false);
    row.metadata = input.metadata.unwrap_or(false);
    row.joining = input.joining.unwrap_or(false);
    let max = input.entrants_max.map(|max| check_entrants_max(max, row.joining)).transpose();
    row.entrants_max = max?;
    if let Some(fair_play) = &input.fair_play {
        row.set_fair_play(&fair_play.read(decimals)?);
    }
    if row.metadata {
        metadata::check_rules(&rules).map_err(|error| Error::from(error).at("metadata"))?;
    }
    row.segment_by = serde_json::to_string(&segment_by).expect("texts have a JSON form");
    let lateness_seconds = match input.max_lateness_seconds {
        MaybeUndefined::Undefined => row.self_submit.then_some(LATENESS_SELF_SUBMIT_SECONDS),
        given => given.take(),
    };
    let admission = Admission::new(
        input.opens_at.map(|at| at.0),
        input.closes_at.map(|at| at.0),
        lateness_seconds.map(milliseconds),
    )?;
    row.opens_at_ms = admission.opens_at_ms;
    row.closes_at_ms = admission.closes_at_ms;
    row.lateness_max_ms = admission.lateness_max_ms;
    Ok(row)
}

fn checked_decimals(asked: i32) -> crate::error::Result<u8> {
    let decimals = u8::try_from(asked).ok().filter(|&decimals| decimals <= DECIMALS_MAX);
    decimals.ok_or_else(|| {
        Error::bad_input(format!("invalid decimals {asked}: expected 0 to {DECIMALS_MAX}"))
            .at("decimals")
    })
}

fn bound(
    name: &str,
    decimal: Option<Decimal>,
    default: &str,
    decimals: u8,
) -> crate::error::Result<i64> {
    let is_default = decimal.is_none();
    let text = decimal.map_or_else(|| default.to_owned(), |decimal| decimal.0);
    ranking::score::parse(&text, decimals).map_err(|error| {
        let message = match is_default {
            true => {
                let most = ranking::score::format(ranking::score::RAW_MAX, decimals);
                format!(
                    "the default {name} {default} is out of range at {decimals} decimals: expected a {name} of at most {most}"
                )
            }
            false => format!("{name}: {}", Error::from(error).message),
        };
        Error::bad_input(message).at(name)
    })
}
