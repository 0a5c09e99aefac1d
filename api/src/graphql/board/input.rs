//! Boards on their way in: created, changed, deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::{ID, InputObject, MaybeUndefined, SimpleObject};
use engine::board::{delete, windows};
use entity::board;
use entity::board::windows_text;
use ranking::board::admission::Admission;
use ranking::board::{Rules, RulesInput};
use ranking::id::check_slug;
use ranking::score::DECIMALS_MAX;
use ranking::seal::RETAIN_MAX;
use ranking::submission::REGION;
use ranking::window::Window;
use sea_orm::{ActiveValue::Set, ColumnTrait, Condition, EntityTrait, QueryFilter, SqlErr};

use super::{Board, Direction, ScorePolicy, TieBreak, Visibility};
use crate::app::App;
use crate::cache::boards::KnownBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::{DateTime, Decimal, text};

/// How often a change is made again because others changed the same board at once.
const UPDATES_MAX: usize = 20;

/// How long the request that deletes a board waits until all of it is gone; what is left then the background work takes away.
const PURGE_TIMEOUT: Duration = Duration::from_secs(15);

/// The rules of a new board. They are fixed at its creation.
#[derive(InputObject)]
pub struct CreateBoardInput {
    /// Its name in queries: [a-z0-9][a-z0-9_-]{0,63}.
    slug: String,
    /// Its title, for people; the slug by default.
    title: Option<String>,
    /// Which scores are better.
    #[graphql(default_with = "Some(Direction::HighFirst)")]
    direction: Option<Direction>,
    /// How a submission meets the score that is there.
    #[graphql(default_with = "Some(ScorePolicy::Sum)")]
    policy: Option<ScorePolicy>,
    /// Who ranks higher at equal scores.
    #[graphql(default_with = "Some(TieBreak::Earliest)")]
    tie_break: Option<TieBreak>,
    /// How fine the time in a tie-break is: 1, 10, 100, 1000, 10000 or 100000 ms. By default the finest that fits beside the score
    /// range, at most 1 s.
    tie_break_resolution_ms: Option<i32>,
    /// How many decimals a score has, 0 to 9.
    #[graphql(default_with = "Some(0)")]
    decimals: Option<i32>,
    /// The lowest score that a member can have in "all".
    #[graphql(default_with = "Some(Decimal(\"0\".to_owned()))")]
    min_score: Option<Decimal>,
    /// The highest score that a member can have in "all". The range has at most 53 bits.
    #[graphql(default_with = "Some(Decimal(\"999999999\".to_owned()))")]
    max_score: Option<Decimal>,
    /// The IANA zone in which its days, weeks and months begin.
    #[graphql(default_with = "Some(\"UTC\".to_owned())")]
    time_zone: Option<String>,
    /// How many sorted sets its standings are split into: a power of two, at most the number of partitions.
    #[graphql(default_with = "Some(1)")]
    shards: Option<i32>,
    /// Member attributes that have standings of their own: "region", or none. A score counts in the region that its member has when it is
    /// accepted, and stays there.
    #[graphql(default_with = "Some(vec![])")]
    segment_by: Option<Vec<String>>,
    /// Who may read it.
    #[graphql(default_with = "Some(Visibility::Public)")]
    visibility: Option<Visibility>,
    /// Whether a member-bound token may submit its own scores.
    #[graphql(default_with = "Some(false)")]
    self_submit: Option<bool>,
    /// Its windows besides "all".
    #[graphql(default_with = "Some(vec![])")]
    windows: Option<Vec<WindowInput>>,
    /// The first instant that it takes scores for, by their `at`; always by default. Others are rejected.
    opens_at: Option<DateTime>,
    /// The first instant that it takes no scores for any more, by their `at`; never by default.
    closes_at: Option<DateTime>,
    /// How many seconds after they were earned it takes scores, by their `at`; however long by default. Those that come later are rejected
    /// with LIMIT_EXCEEDED.
    lateness_max_seconds: Option<i32>,
}

/// A window of a board.
#[derive(InputObject)]
pub struct WindowInput {
    /// "hourly", "daily", "weekly", "monthly"; a rolling one of 1 to 366 hours, days, weeks or months, the present one among them: "24h",
    /// "7d", "12w", "3mo"; or, with policy SUM and direction HIGH_FIRST, one in which scores have half their weight after every 1 to 366 hours, days or
    /// weeks: "decay:12h", "decay:7d".
    name: String,
    /// How many past periods are kept in Redis besides the present one, 0 to 1,000,000, which is in effect all, and the default of a new
    /// window. Older ones are sealed: their final standings move to SQL, where they are read from; late scores correct them there. More
    /// does not bring back what is sealed; where it is not said of a window that the board has, it stays.
    retain: Option<i32>,
}

/// What is to change of a board; what is absent stays. Its rules are fixed, but for its windows.
#[derive(InputObject)]
pub struct UpdateBoardInput {
    /// The board's slug.
    slug: String,
    /// Its title, for people.
    title: Option<String>,
    /// Its windows besides "all": those that it has and are not named are dropped with their standings, new ones are filled from the history;
    /// each is ready when its field `ready` says so.
    windows: Option<Vec<WindowInput>>,
    /// Who may read it.
    visibility: Option<Visibility>,
    /// Whether a member-bound token may submit its own scores.
    self_submit: Option<bool>,
    /// The first instant that it takes scores for, by their `at`; null for always.
    opens_at: MaybeUndefined<DateTime>,
    /// The first instant that it takes no scores for any more, by their `at`; null for never.
    closes_at: MaybeUndefined<DateTime>,
    /// How many seconds after they were earned it takes scores; null for however long.
    lateness_max_seconds: MaybeUndefined<i32>,
}

/// A board that was written.
#[derive(SimpleObject)]
pub struct BoardPayload {
    /// The board.
    pub(crate) board: Board,
}

/// A board that was deleted.
#[derive(SimpleObject)]
pub struct DeleteBoardPayload {
    /// The global id that it had.
    deleted_board_id: ID,
}

/// Creates a board.
pub(crate) async fn create(
    app: &App,
    input: CreateBoardInput,
) -> crate::error::Result<Arc<KnownBoard>> {
    let row = board_row(app, input)?;
    let slug = row.slug.clone().take().unwrap_or_default();
    match board::Entity::insert(row).exec_with_returning(&app.deployment.db).await {
        Ok(row) => {
            app.boards.changed(&slug);
            KnownBoard::new(row)
        }
        Err(error) if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) => {
            Err(Error::new(ErrorCode::AlreadyExists, format!("there is a board {slug:?} already")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Changes a board.
pub(crate) async fn update(
    app: &App,
    input: UpdateBoardInput,
) -> crate::error::Result<Arc<KnownBoard>> {
    check_slug(&input.slug).map_err(|_| no_board(&input.slug))?;
    let db = &app.deployment.db;
    let windows = input.windows.as_deref().map(retained).transpose()?;
    for _ in 0..UPDATES_MAX {
        let row = board::living()
            .filter(board::Column::Slug.eq(&input.slug))
            .one(db)
            .await?
            .ok_or_else(|| no_board(&input.slug))?;
        // Not in a transaction: SQLite refuses one that reads first where another one wrote meanwhile.
        let updated = board::Entity::update_many()
            .set(changes(&input, windows.as_ref(), &row)?)
            .filter(is_still(&row))
            .exec(db)
            .await?;
        app.boards.changed(&input.slug);
        if updated.rows_affected == 1 {
            let row = board::Entity::find_by_id(row.no).one(db).await?;
            return KnownBoard::new(row.ok_or_else(|| no_board(&input.slug))?);
        }
    }
    Err(Error::new(ErrorCode::Unavailable, "others change this board at the same time; try again"))
}

/// The windows that are named, and how many past periods they retain where that is said.
fn retained(windows: &[WindowInput]) -> crate::error::Result<BTreeMap<Window, Option<u32>>> {
    let mut retained = BTreeMap::new();
    for window in windows {
        let named: Window = window.name.parse()?;
        let retain = window.retain.map(|retain| check_retain(named, retain)).transpose()?;
        if retained.insert(named, retain).is_some() {
            return Err(Error::bad_input("a window is named twice; each is accepted once"));
        }
    }
    Ok(retained)
}

fn check_retain(window: Window, retain: i32) -> crate::error::Result<u32> {
    if !window.has_periods() {
        return Err(Error::bad_input(format!(
            "the window {window} has no past periods; it is accepted without retain"
        )));
    }
    let count = u32::try_from(retain).map_err(|_| {
        Error::bad_input(format!("retain is {retain}; 0 to {RETAIN_MAX} past periods are accepted"))
    })?;
    if count > RETAIN_MAX {
        return Err(Error::new(
            ErrorCode::LimitExceeded,
            format!("retain is {retain}; at most {RETAIN_MAX} past periods are accepted"),
        ));
    }
    Ok(count)
}

/// What is to be written of a row as it stands.
fn changes(
    input: &UpdateBoardInput,
    windows: Option<&BTreeMap<Window, Option<u32>>>,
    row: &board::Model,
) -> crate::error::Result<board::ActiveModel> {
    let mut changed = board::ActiveModel::default();
    if let Some(windows) = windows
        && let Some(change) = windows::change(row, windows)?
    {
        if row.reshard.is_some() {
            return Err(ranking::Error::BoardHeld.into());
        }
        let mut later = row.clone();
        later.windows = windows_text(&change.windows);
        later.generation = change.generation.try_into().unwrap_or(i32::MAX);
        // Whether the new ones fit beside the board's range and tie-break.
        later.to_ranking()?;
        changed.windows = Set(later.windows);
        changed.generation = Set(later.generation);
    }
    if let Some(title) = &input.title {
        changed.title = Set(text("title", title.clone())?);
    }
    if let Some(visibility) = input.visibility {
        changed.visibility = Set(visibility.name().to_owned());
    }
    if let Some(self_submit) = input.self_submit {
        changed.self_submit = Set(self_submit);
    }
    let end =
        |asked: MaybeUndefined<DateTime>, present| or_present(asked.map_value(|at| at.0), present);
    let lateness_ms = input.lateness_max_seconds.map_value(milliseconds);
    let admission = Admission::new(
        end(input.opens_at, row.opens_at_ms),
        end(input.closes_at, row.closes_at_ms),
        or_present(lateness_ms, row.lateness_max_ms),
    )?;
    set_admission(&mut changed, admission);
    Ok(changed)
}

/// The condition that nobody changed what [`changes`] looked at.
fn is_still(row: &board::Model) -> Condition {
    use board::Column::{
        ArchivedBeforeMs, ClosesAtMs, DeletedAtMs, Generation, LatenessMaxMs, No, OpensAtMs,
        Reshard, Windows,
    };
    let mut still = Condition::all()
        .add(No.eq(row.no))
        .add(DeletedAtMs.is_null())
        .add(Generation.eq(row.generation))
        .add(Windows.eq(&row.windows));
    for (column, value) in [
        (OpensAtMs, row.opens_at_ms),
        (ClosesAtMs, row.closes_at_ms),
        (LatenessMaxMs, row.lateness_max_ms),
        (ArchivedBeforeMs, row.archived_before_ms),
    ] {
        still = still.add(match value {
            Some(value) => column.eq(value),
            None => column.is_null(),
        });
    }
    still.add(match &row.reshard {
        Some(reshard) => Reshard.eq(reshard),
        None => Reshard.is_null(),
    })
}

/// Deletes a board: it is gone for readers and writers when this returns; so is what it had, unless there is very much of it.
pub(crate) async fn delete(app: &App, slug: &str) -> crate::error::Result<DeleteBoardPayload> {
    check_slug(slug).map_err(|_| no_board(slug))?;
    let row = delete::mark(&app.deployment, slug).await?.ok_or_else(|| no_board(slug))?;
    app.boards.changed(slug);
    match tokio::time::timeout(PURGE_TIMEOUT, delete::purge(&app.deployment, &row)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(slug, %error, "a deleted board's data is left to the background work");
        }
        Err(_) => tracing::info!(slug, "a deleted board's data is left to the background work"),
    }
    Ok(DeleteBoardPayload { deleted_board_id: GlobalId::Board(slug.to_owned()).to_text().into() })
}

fn set_admission(row: &mut board::ActiveModel, admission: Admission) {
    row.opens_at_ms = Set(admission.opens_at_ms);
    row.closes_at_ms = Set(admission.closes_at_ms);
    row.lateness_max_ms = Set(admission.lateness_max_ms);
}

fn milliseconds(seconds: i32) -> i64 {
    i64::from(seconds) * 1000
}

/// What is asked for; null takes it away, absent leaves it.
fn or_present(asked: MaybeUndefined<i64>, present: Option<i64>) -> Option<i64> {
    match asked {
        MaybeUndefined::Undefined => present,
        asked => asked.take(),
    }
}

/// The error where there is no such board.
pub(crate) fn no_board(slug: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("there is no board {slug:?}"))
}

fn board_row(app: &App, input: CreateBoardInput) -> crate::error::Result<board::ActiveModel> {
    check_slug(&input.slug)?;
    let segment_by = input.segment_by.unwrap_or_default();
    if !segment_by.is_empty() && segment_by != [REGION] {
        return Err(Error::bad_input(format!(
            "segmentBy is {segment_by:?}; [] and [\"{REGION}\"] are accepted"
        )));
    }
    let title = text("title", input.title.unwrap_or_else(|| input.slug.clone()))?;
    let asked = input.decimals.unwrap_or(0);
    let decimals = u8::try_from(asked).ok().filter(|&decimals| decimals <= DECIMALS_MAX);
    let decimals = decimals.ok_or_else(|| {
        Error::bad_input(format!("decimals is {asked}; 0 to {DECIMALS_MAX} is accepted"))
    })?;
    let time_zone = input.time_zone.unwrap_or_else(|| "UTC".to_owned());
    let tick_ms = input.tie_break_resolution_ms.map(u32::try_from).transpose();
    let rules = Rules::new(RulesInput {
        direction: input.direction.unwrap_or(Direction::HighFirst).into(),
        policy: input.policy.unwrap_or(ScorePolicy::Sum).into(),
        tie_break: input.tie_break.unwrap_or(TieBreak::Earliest).into(),
        tick_ms: tick_ms.map_err(|_| {
            Error::bad_input(
                "tieBreakResolutionMs is negative; 1, 10, 100, 1000, 10000 and 100000 are accepted",
            )
        })?,
        decimals,
        min: bound("minScore", input.min_score, "0", decimals)?,
        max: bound("maxScore", input.max_score, "999999999", decimals)?,
        zone: ranking::window::parse_zone(&time_zone)?,
        shards: app.deployment.store.partitions().check_shards(input.shards.unwrap_or(1).into())?,
        windows: input
            .windows
            .iter()
            .flatten()
            .map(|window| window.name.parse())
            .collect::<ranking::Result<_>>()?,
    })?;
    let mut row = board::of_rules(&input.slug, &title, &rules, &time_zone, entity::now_ms());
    let retained = retained(input.windows.as_deref().unwrap_or_default())?;
    row.windows = Set(windows_text(&board::first_windows(&rules, &retained)));
    row.visibility = Set(input.visibility.unwrap_or(Visibility::Public).name().to_owned());
    row.self_submit = Set(input.self_submit.unwrap_or(false));
    row.segment_by = Set(serde_json::to_string(&segment_by).expect("texts have a JSON form"));
    let admission = Admission::new(
        input.opens_at.map(|at| at.0),
        input.closes_at.map(|at| at.0),
        input.lateness_max_seconds.map(milliseconds),
    )?;
    set_admission(&mut row, admission);
    Ok(row)
}

fn bound(
    name: &str,
    decimal: Option<Decimal>,
    default: &str,
    decimals: u8,
) -> crate::error::Result<i64> {
    let text = decimal.map_or_else(|| default.to_owned(), |decimal| decimal.0);
    ranking::score::parse(&text, decimals).map_err(|error| {
        let error = Error::from(error);
        Error::bad_input(format!("{name}: {}", error.message))
    })
}
