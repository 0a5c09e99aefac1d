//! The mutations that remove many members from a board, in bounded steps.

use async_graphql::{Context, ID, InputObject, SimpleObject};
use engine::history::period_reset::void_step;
use engine::history::remove::{self, Step};
use entity::audit::AUDIT_KEYS_MAX;
use entity::board::check_segment;
use entity::standings::filter::Filter;
use futures::FutureExt;
use ranking::id::MemberId;
use ranking::score;
use serde_json::json;
use tokio::time::Instant;

use super::amendment::{AMEND_TIMEOUT, on_present_board};
use crate::cache::boards::CachedBoard;
use crate::error::{Error, Result};
use crate::graphql::audit::writer::Audit;
use crate::graphql::board::{self, Board};
use crate::graphql::member::Member;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::standings::{Choice, Standings, StandingsOf, member_id, member_ids};
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::{DateTime, Decimal, int};

/// The entries to remove: those in "all" that meet every condition given, at least one.
#[derive(InputObject)]
pub struct EntryFilterInput {
    /// The segment that the entry is in, such as "region:eu"; its score there counts.
    segment: Option<String>,
    /// The lowest score.
    min_score: Option<Decimal>,
    /// The highest score.
    max_score: Option<Decimal>,
    /// The beginning of the member's key.
    key_prefix: Option<String>,
    /// The members' keys, at most 1,000.
    members: Option<Vec<String>>,
    /// The first instant at which the entry was reached: its `reachedAt`.
    reached_since: Option<DateTime>,
    /// The first instant after it.
    reached_before: Option<DateTime>,
}

/// The entries to remove from a board.
#[derive(InputObject)]
pub struct RemoveEntriesInput {
    /// The board's slug.
    board: String,
    /// The entries.
    filter: EntryFilterInput,
    /// The `endCursor` of the step before; absent for the first step.
    after: Option<String>,
    /// True to remove nothing, and to be told what would be removed.
    #[graphql(default)]
    dry_run: bool,
}

/// The board to reset.
#[derive(InputObject)]
pub struct ResetBoardInput {
    /// The board's slug.
    board: String,
    /// The `endCursor` of the step before; absent for the first step.
    after: Option<String>,
}

/// The period to reset.
#[derive(InputObject)]
pub struct ResetPeriodInput {
    /// The board's slug.
    board: String,
    /// The window, and the label of the period or an instant in it; the present period by default.
    /// A window with one period after another: hourly to yearly, or seasons.
    of: StandingsOf,
    /// The `endCursor` of the step before; absent for the first step.
    after: Option<String>,
}

/// The result of `removeEntries`.
#[derive(SimpleObject)]
pub struct RemoveEntriesPayload {
    /// The board.
    board: Board,
    /// The number of members that this step removed.
    removed: i32,
    /// In a dry run, the number of all members that the filter selects; otherwise null.
    matched: Option<i32>,
    /// The members that this step removed, or would remove, ordered by key.
    members: Vec<Member>,
    /// The global ids that their entries in "all" have, or would have: for caches to forget.
    deleted_entry_ids: Vec<ID>,
    /// The cursor for the next step; null if the filter selects no member any more.
    end_cursor: Option<String>,
    /// True if the filter selects more members.
    has_more: bool,
}

/// The result of `resetBoard`.
#[derive(SimpleObject)]
pub struct ResetBoardPayload {
    /// The board.
    board: Board,
    /// The number of members that this step removed.
    removed: i32,
    /// The cursor for the next step; null if no member was left.
    end_cursor: Option<String>,
    /// True if members are left.
    has_more: bool,
}

/// The result of `resetPeriod`.
#[derive(SimpleObject)]
pub struct ResetPeriodPayload {
    /// The standings of the period.
    standings: Standings,
    /// The number of scores that this step voided.
    voided: i32,
    /// The cursor for the next step; null if no score was left.
    end_cursor: Option<String>,
    /// True if scores are left.
    has_more: bool,
}

/// Removes the next members that a filter selects.
pub(crate) async fn remove_entries(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: RemoveEntriesInput,
) -> Result<RemoveEntriesPayload> {
    audit.note(|act| act.on_slug(&input.board));
    state(ctx).spend(price::AMENDMENT_OF_MANY).await?;
    let board = board::named(ctx, &input.board).await.map_err(|error| error.within("input"))?;
    if input.filter.is_empty() {
        let message =
            "invalid filter: expected at least one condition; resetBoard removes all members";
        return Err(Error::bad_input(message).at("input.filter"));
    }
    let filter = input.filter.read(&board).map_err(|error| error.within("input.filter"))?;
    match input.dry_run {
        true => audit.changes_nothing(),
        false => begin_step(audit, &board, input.after.as_deref()).await?,
    }
    let after = check_cursor(input.after.as_deref())?;
    let deadline = Instant::now() + AMEND_TIMEOUT;
    let deployment = &app(ctx).deployment;
    let (filter, dry_run) = (&filter, input.dry_run);
    let remove = |board: ranking::board::Board| {
        async move {
            if dry_run {
                let found = remove::find(deployment, &board, filter, after, deadline).await?;
                return Ok((found.0, Some(found.1)));
            }
            let step = remove::remove_step(deployment, &board, filter, after, deadline).await?;
            Ok((step, None))
        }
        .boxed()
    };
    let (step, matched) = on_present_board(ctx, &board, remove).await?;
    let Step { members, end, has_more } = step;
    let first: Vec<&str> = members.iter().take(AUDIT_KEYS_MAX).map(MemberId::as_str).collect();
    let value = json!({ "removed": members.len(), "members": first, "hasMore": has_more });
    audit.note(|act| act.after(value));
    let standings = Standings::of_all_time(ctx, &board)?;
    let id = |member: &MemberId| {
        let entry = GlobalId::Entry(standings.name(), member.to_string());
        entry.to_text().into()
    };
    Ok(RemoveEntriesPayload {
        deleted_entry_ids: members.iter().filter(|_| !dry_run).map(id).collect(),
        board: Board(board),
        removed: if dry_run { 0 } else { int(members.len() as u64)? },
        matched: matched.map(int).transpose()?,
        members: members.iter().map(|member| Member::named(member.as_str())).collect(),
        end_cursor: end,
        has_more,
    })
}

/// Removes the next members of a board.
pub(crate) async fn reset_board(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: ResetBoardInput,
) -> Result<ResetBoardPayload> {
    audit.note(|act| act.on_slug(&input.board));
    state(ctx).spend(price::AMENDMENT_OF_MANY).await?;
    let board = board::named(ctx, &input.board).await.map_err(|error| error.within("input"))?;
    let after = check_cursor(input.after.as_deref())?;
    let deadline = Instant::now() + AMEND_TIMEOUT;
    let deployment = &app(ctx).deployment;
    let everyone = &Filter::default();
    begin_step(audit, &board, after).await?;
    let remove = |board: ranking::board::Board| {
        async move { remove::remove_step(deployment, &board, everyone, after, deadline).await }
            .boxed()
    };
    let step = on_present_board(ctx, &board, remove).await?;
    let value = json!({ "removed": step.members.len(), "hasMore": step.has_more });
    audit.note(|act| act.after(value));
    Ok(ResetBoardPayload {
        board: Board(board),
        removed: int(step.members.len() as u64)?,
        end_cursor: step.end,
        has_more: step.has_more,
    })
}

/// Voids the next scores of a period.
pub(crate) async fn reset_period(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: ResetPeriodInput,
) -> Result<ResetPeriodPayload> {
    audit.note(|act| act.on_slug(&input.board));
    state(ctx).spend(price::AMENDMENT_OF_MANY).await?;
    let board = board::named(ctx, &input.board).await.map_err(|error| error.within("input"))?;
    let choice = Choice::from(Some(input.of));
    if choice.segment.as_ref().is_some_and(|segment| !segment.is_empty()) {
        let message = "invalid segment: expected none, as a score counts in all of its segments";
        return Err(Error::bad_input(message).at("input.of.segment"));
    }
    let standings =
        Standings::choose(ctx, &board, choice).await.map_err(|error| error.within("input"))?;
    let window = standings.read.id.window;
    if !window.has_periods() || window.rolling().is_some() {
        let message = "invalid window: expected one with a period after another, such as daily or season; resetBoard empties all windows";
        return Err(Error::bad_input(message).at("input.of.window"));
    }
    let after = input.after.as_deref().map(|cursor| {
        cursor.parse().map_err(|_| {
            let message = "invalid cursor: expected the endCursor of the step before";
            Error::bad_input(message).at("input.after")
        })
    });
    let after = after.transpose()?;
    let deadline = Instant::now() + AMEND_TIMEOUT;
    let (deployment, period) = (&app(ctx).deployment, &standings.read.period);
    begin_step(audit, &board, input.after.as_deref()).await?;
    let void = |board: ranking::board::Board| {
        async move { void_step(deployment, &board, period, after, deadline).await }.boxed()
    };
    let step = on_present_board(ctx, &board, void).await?;
    let value = json!({
        "window": window.to_string(), "period": period.label, "voided": step.voided,
        "hasMore": step.has_more,
    });
    audit.note(|act| act.after(value));
    Ok(ResetPeriodPayload {
        voided: int(step.voided as u64)?,
        end_cursor: step.end.map(|end| end.to_string()),
        has_more: step.has_more,
        standings,
    })
}

/// Notes that a step is about to begin.
async fn begin_step(audit: &Audit<'_>, board: &CachedBoard, after: Option<&str>) -> Result<()> {
    audit.note(|act| act.on(&board.row).before(json!({ "after": after })));
    audit.announce().await
}

/// A cursor is the key of the last member that the step before looked at.
fn check_cursor(after: Option<&str>) -> Result<Option<&str>> {
    let cursor = |key| {
        MemberId::new(key).map(|_| key).map_err(|_| {
            let message = "invalid cursor: expected the endCursor of the step before";
            Error::bad_input(message).at("input.after")
        })
    };
    after.map(cursor).transpose()
}

impl EntryFilterInput {
    /// True without a condition.
    fn is_empty(&self) -> bool {
        let is_everyone = self.segment.as_ref().is_none_or(String::is_empty);
        let of_member = self.key_prefix.is_some() || self.members.is_some();
        let of_score = self.min_score.is_some() || self.max_score.is_some();
        let of_time = self.reached_since.is_some() || self.reached_before.is_some();
        is_everyone && !of_member && !of_score && !of_time
    }

    fn read(self, board: &CachedBoard) -> Result<Filter> {
        let Self { segment, min_score, max_score, key_prefix, members, .. } = &self;
        if let Some(segment) = segment {
            check_segment(&board.row.slug, &board.segment_by, segment)
                .map_err(|error| Error::from(error).at("segment"))?;
        }
        let raw = |score: &Option<Decimal>, argument: &str| {
            let decimals = board.board.rules.decimals;
            let parsed = score.as_ref().map(|score| score::parse(&score.0, decimals));
            parsed.transpose().map_err(|error| Error::from(error).at(argument))
        };
        let (min, max) = (raw(min_score, "minScore")?, raw(max_score, "maxScore")?);
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            let message = "invalid minScore: expected at most maxScore";
            return Err(Error::bad_input(message).at("minScore"));
        }
        if let Some(prefix) = key_prefix {
            member_id("keyPrefix", prefix)?;
        }
        let members = members.as_deref().map(|keys| member_ids("members", keys)).transpose()?;
        let filter = Filter {
            segment: segment.clone().unwrap_or_default(),
            min_score: min,
            max_score: max,
            key_prefix: key_prefix.clone(),
            members,
            reached_since_ms: self.reached_since.map(|at| at.0),
            reached_before_ms: self.reached_before.map(|at| at.0),
        };
        let argument =
            if filter.reached_since_ms.is_some() { "reachedSince" } else { "reachedBefore" };
        filter.check(&board.board).map_err(|error| Error::from(error).at(argument))?;
        Ok(filter)
    }
}
