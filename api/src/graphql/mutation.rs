//! What can be written.

use async_graphql::{Context, InputObject, MaybeUndefined, Object, Result, SimpleObject};
use entity::board;
use entity::member;
use ranking::board::{Rules, RulesInput};
use ranking::id::{MemberId, check_slug};
use ranking::score::DECIMALS_MAX;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, EntityTrait, SqlErr, TransactionTrait};

use super::board::{Board, Direction, ScorePolicy, TieBreak, Visibility};
use super::connection::PAGE_MAX;
use super::member::Member;
use super::request::{app, state};
use super::scalar::Decimal;
use super::submission::{SubmitScoresInput, SubmitScoresPayload, submit};
use crate::access::Scope;
use crate::app::App;
use crate::boards::KnownBoard;
use crate::error::{Error, ErrorCode};

/// The longest title, member name or region, in characters.
const TEXT_CHARS_MAX: usize = 200;

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
    /// Member attributes that have standings of their own. Not available yet: empty is accepted.
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
}

/// A window of a new board.
#[derive(InputObject)]
pub struct WindowInput {
    /// "hourly", "daily", "weekly" or "monthly".
    name: String,
}

/// What a member is called and where it belongs.
#[derive(InputObject)]
pub struct MemberInput {
    /// The id that the game gives: 1 to 128 bytes, no control characters.
    key: String,
    /// Its name, at most 200 characters; null takes it away, absent leaves it.
    name: MaybeUndefined<String>,
    /// Its region, at most 200 characters; null takes it away, absent leaves it.
    region: MaybeUndefined<String>,
}

/// A board that was written.
#[derive(SimpleObject)]
pub struct BoardPayload {
    /// The board.
    board: Board,
}

/// Members that were written.
#[derive(SimpleObject)]
pub struct MembersPayload {
    /// In the order sent.
    members: Vec<Member>,
}

/// What can be written. Every mutation needs an access token.
pub struct Mutation;

#[Object]
impl Mutation {
    /// Creates a board. Needs the scope admin.
    async fn create_board(
        &self,
        ctx: &Context<'_>,
        input: CreateBoardInput,
    ) -> Result<BoardPayload> {
        state(ctx).require(Scope::Admin)?;
        let row = board_row(app(ctx), input)?;
        Ok(BoardPayload {
            board: Board(insert_board(app(ctx), row).await?),
        })
    }

    /// Submits scores to a board. Needs the scope submit. Each score is taken or refused for itself: read its status.
    async fn submit_scores(
        &self,
        ctx: &Context<'_>,
        input: SubmitScoresInput,
    ) -> Result<SubmitScoresPayload> {
        Ok(submit(ctx, input).await?)
    }

    /// Creates members, or changes what they are called; 1 to 1,000 at once, all or none. Needs the scope admin.
    async fn upsert_members(
        &self,
        ctx: &Context<'_>,
        input: Vec<MemberInput>,
    ) -> Result<MembersPayload> {
        state(ctx).require(Scope::Admin)?;
        let members = upsert(app(ctx), input).await?;
        state(ctx).loaders.clear().await;
        Ok(MembersPayload { members })
    }
}

fn board_row(app: &App, input: CreateBoardInput) -> crate::error::Result<board::ActiveModel> {
    check_slug(&input.slug)?;
    if input
        .segment_by
        .is_some_and(|attributes| !attributes.is_empty())
    {
        return Err(Error::bad_input(
            "segmentBy is not available yet; an empty list is accepted",
        ));
    }
    let title = text("title", input.title.unwrap_or_else(|| input.slug.clone()))?;
    let asked = input.decimals.unwrap_or(0);
    let decimals = u8::try_from(asked)
        .ok()
        .filter(|&decimals| decimals <= DECIMALS_MAX);
    let decimals = decimals.ok_or_else(|| {
        Error::bad_input(format!(
            "decimals is {asked}; 0 to {DECIMALS_MAX} is accepted"
        ))
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
        shards: app
            .deployment
            .store
            .partitions()
            .check_shards(input.shards.unwrap_or(1).into())?,
        windows: input
            .windows
            .iter()
            .flatten()
            .map(|window| window.name.parse())
            .collect::<ranking::Result<_>>()?,
    })?;
    let mut row = board::of_rules(&input.slug, &title, &rules, &time_zone, entity::now_ms());
    row.visibility = Set(input
        .visibility
        .unwrap_or(Visibility::Public)
        .name()
        .to_owned());
    row.self_submit = Set(input.self_submit.unwrap_or(false));
    Ok(row)
}

async fn insert_board(
    app: &App,
    row: board::ActiveModel,
) -> crate::error::Result<std::sync::Arc<KnownBoard>> {
    let slug = row.slug.clone().take().unwrap_or_default();
    match board::Entity::insert(row)
        .exec_with_returning(&app.deployment.db)
        .await
    {
        Ok(row) => app.boards.learn(row).await,
        Err(error) if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) => {
            Err(Error::new(
                ErrorCode::AlreadyExists,
                format!("there is a board {slug:?} already"),
            ))
        }
        Err(error) => Err(error.into()),
    }
}

async fn upsert(app: &App, input: Vec<MemberInput>) -> crate::error::Result<Vec<Member>> {
    if input.is_empty() {
        return Err(Error::bad_input(format!(
            "input is empty; 1 to {PAGE_MAX} members are accepted"
        )));
    }
    if input.len() > PAGE_MAX {
        return Err(Error::new(
            ErrorCode::LimitExceeded,
            format!(
                "{} members were sent; at most {PAGE_MAX} are accepted at once",
                input.len()
            ),
        ));
    }
    let mut writes = vec![];
    for MemberInput { key, name, region } in input {
        let key = MemberId::new(&key)?.to_string();
        let mut changed = vec![];
        let mut row = member::ActiveModel {
            key: Set(key),
            created_at_ms: Set(entity::now_ms()),
            name: Set(None),
            region: Set(None),
        };
        if !name.is_undefined() {
            row.name = Set(name.take().map(|name| text("name", name)).transpose()?);
            changed.push(member::Column::Name);
        }
        if !region.is_undefined() {
            row.region = Set(region
                .take()
                .map(|region| text("region", region))
                .transpose()?);
            changed.push(member::Column::Region);
        }
        writes.push((row, changed));
    }
    let transaction = app.deployment.db.begin().await?;
    let mut members = vec![];
    for (row, changed) in writes {
        let key = row.key.clone().take().unwrap_or_default();
        let mut on_conflict = OnConflict::column(member::Column::Key);
        if changed.is_empty() {
            on_conflict.do_nothing_on([member::Column::Key]);
        } else {
            on_conflict.update_columns(changed);
        }
        member::Entity::insert(row)
            .on_conflict(on_conflict)
            .exec_without_returning(&transaction)
            .await?;
        members.push(key);
    }
    let mut rows = vec![];
    for key in members {
        rows.extend(member::Entity::find_by_id(key).one(&transaction).await?);
    }
    transaction.commit().await?;
    Ok(rows.into_iter().map(Member::of_row).collect())
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

fn text(name: &str, text: String) -> crate::error::Result<String> {
    let count = text.chars().count();
    if count == 0 || count > TEXT_CHARS_MAX || text.chars().any(char::is_control) {
        return Err(Error::bad_input(format!(
            "{name} has 1 to {TEXT_CHARS_MAX} characters, none of them control characters; this one does not"
        )));
    }
    Ok(text)
}
