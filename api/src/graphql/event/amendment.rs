//! Amendments to a member's history on a board: a removal, a void.

use std::time::Duration;

use async_graphql::{Context, ID, InputObject, SimpleObject};
use engine::history::amend::{Amended, Amendment, amend};
use entity::archive::archive_file;
use entity::board::seen::Seen;
use futures::FutureExt;
use futures::future::BoxFuture;
use ranking::commit::{EventKind as Kind, EventPlace};
use ranking::id::MemberId;
use serde_json::json;
use tokio::time::Instant;

use super::{ScoreEvent, find};
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::audit::writer::Audit;
use crate::graphql::board::{self, Board};
use crate::graphql::member::Member;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::standings::entry::Entry;
use crate::graphql::standings::{Standings, member_id};
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::Decimal;

/// How long an amendment is tried.
pub(crate) const AMEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The member to remove from a board.
#[derive(InputObject)]
pub struct RemoveEntryInput {
    /// The board's slug.
    board: String,
    /// The member's key.
    member: String,
}

/// The event to void.
#[derive(InputObject)]
pub struct VoidEventInput {
    /// The event's global id, from `Member.events`.
    pub(crate) id: ID,
}

/// The result of `removeEntry`.
#[derive(SimpleObject)]
pub struct RemoveEntryPayload {
    /// True if the member was on the board.
    removed: bool,
    /// The board.
    board: Board,
    /// The member; null if there is no member with this key.
    member: Option<Member>,
    /// The global id that the member's entry in "all" has, or would have: for caches to forget.
    deleted_entry_id: ID,
}

/// The result of `voidEvent`.
#[derive(SimpleObject)]
pub struct VoidEventPayload {
    /// True if the event counted until now; false if it was voided before.
    voided: bool,
    /// The event.
    event: ScoreEvent,
    /// The board.
    board: Board,
    /// The member's entry in "all" now; null if the member has none left.
    entry: Option<Entry>,
}

/// Removes a member from a board.
pub(crate) async fn remove_entry(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &RemoveEntryInput,
) -> crate::error::Result<RemoveEntryPayload> {
    audit.note(|act| act.on_slug(&input.board).on_member(&input.member));
    state(ctx).spend(price::AMENDMENT).await?;
    let board = board::named(ctx, &input.board).await.map_err(|error| error.within("input"))?;
    let member = member_id("input.member", &input.member)?;
    audit.note(|act| act.on(&board.row));
    audit.announce().await?;
    let amended = amend_now(ctx, &board, &member, Amendment::Removal).await?;
    let removed = amended == Amended::Done;
    audit.note(|act| act.after(json!({ "removed": removed })));
    let mut found = Member::find(ctx, std::slice::from_ref(&input.member)).await?;
    let standings = Standings::of_all_time(ctx, &board)?;
    let entry = GlobalId::Entry(standings.name(), member.to_string());
    Ok(RemoveEntryPayload {
        deleted_entry_id: entry.to_text().into(),
        removed,
        board: Board(board),
        member: found.pop().flatten(),
    })
}

/// Voids an event.
pub(crate) async fn void_event(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    id: &str,
) -> crate::error::Result<VoidEventPayload> {
    state(ctx).spend(price::AMENDMENT).await?;
    let Some(GlobalId::Event(place)) = GlobalId::parse(id) else {
        let message = "invalid event id: expected one from Member.events";
        return Err(Error::bad_input(message).at("input.id"));
    };
    let Some(event) = find(ctx, place).await? else {
        return Err(not_there(ctx, place).await?);
    };
    if matches!(event.row.to_ranking()?.kind, Kind::Void { .. }) {
        return Err(Error::bad_input("a void cannot be voided; submit the score again"));
    }
    let board = event.board.clone();
    let member = MemberId::new(&event.row.member)?;
    let decimals = board.board.rules.decimals;
    let score = event.row.score.map(|score| Decimal::of(score, decimals).0);
    let value = json!({ "event": id, "score": score, "at": event.row.at_ms });
    audit.note(|act| act.on(&board.row).on_member(member.as_str()).before(value));
    audit.announce().await?;
    let amended = amend_now(ctx, &board, &member, Amendment::Void(place)).await?;
    if amended == Amended::NoSuchEvent {
        return Err(not_there(ctx, place).await?);
    }
    let voided = amended == Amended::Done;
    audit.note(|act| act.after(json!({ "voided": voided })));
    let standings = Standings::of_all_time(ctx, &board)?;
    Ok(VoidEventPayload {
        voided,
        event: event.voided_now(),
        board: Board(board),
        entry: standings.entry_of(ctx, member).await?,
    })
}

/// The error for an event that SQL does not have. It may have been archived a moment ago, which is
/// told to those alone who see every board: SQL does not say on which one.
async fn not_there(ctx: &Context<'_>, place: EventPlace) -> crate::error::Result<Error> {
    let db = &app(ctx).deployment.db;
    let sees_all = matches!(state(ctx).seen(), Seen::All);
    Ok(match sees_all && archive_file::has(db, place.partition, place.seq).await? {
        true => Error::bad_input(
            "this event is archived and cannot be voided; removeEntry can remove the member",
        ),
        false => Error::new(
            ErrorCode::NotFound,
            "there is no such event; a recent one may still be on its way to the database, and an archived one cannot be voided",
        ),
    })
}

async fn amend_now(
    ctx: &Context<'_>,
    board: &CachedBoard,
    member: &MemberId,
    amendment: Amendment,
) -> crate::error::Result<Amended> {
    let deadline = Instant::now() + AMEND_TIMEOUT;
    let deployment = &app(ctx).deployment;
    let amend = |board: ranking::board::Board| {
        async move { amend(deployment, &board, member, amendment, deadline).await }.boxed()
    };
    on_present_board(ctx, board, amend).await
}

/// Changes what a board has of members. If another process changed the board a moment ago and it is
/// still the same board, the change means the same, and is tried once more.
pub(crate) async fn on_present_board<'a, T>(
    ctx: &Context<'_>,
    board: &CachedBoard,
    change: impl Fn(ranking::board::Board) -> BoxFuture<'a, entity::error::Result<T>>,
) -> crate::error::Result<T> {
    let (app, gone) = (app(ctx), ranking::Error::BoardGone);
    let mut changed = change(board.board.clone()).await;
    if matches!(&changed, Err(entity::Error::Ranking(error)) if *error == gone) {
        app.boards.changed(&board.row.slug);
        let now = board::find(app, state(ctx), &board.row.slug).await?;
        if let Some(now) = now.filter(|now| now.row.no == board.row.no) {
            changed = change(now.board.clone()).await;
        }
    }
    state(ctx).loaders.clear().await;
    Ok(changed?)
}
