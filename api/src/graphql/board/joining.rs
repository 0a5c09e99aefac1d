//! Joining a board, leaving it, and its entrants.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::{Context, InputObject, Object, Result, SimpleObject};
use engine::board::entrants::{self, Leaving};
use engine::merge::check_unmerged;
use entity::board::entrant::{self, Joined};
use entity::member;
use futures::FutureExt;
use ranking::id::MemberId;
use ranking::shown;
use serde_json::json;
use tokio::time::Instant;

use super::input::no_board;
use super::{Board, find};
use crate::access::scope::Scope;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::audit::writer::Audit;
use crate::graphql::event::amendment::on_present_board;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::sight::is_hidden;
use crate::graphql::standings::member_id;
use crate::graphql::types::scalar::int;

/// The most members that a board may be limited to.
pub const ENTRANTS_MAX: i32 = 1_000_000_000;

/// How long `leaveBoard` is tried.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A member and the board to join.
#[derive(InputObject)]
pub struct JoinBoardInput {
    /// The board's slug.
    board: String,
    /// The member's key.
    member: String,
}

/// A member and the board to leave.
#[derive(InputObject)]
pub struct LeaveBoardInput {
    /// The board's slug.
    board: String,
    /// The member's key.
    member: String,
}

/// The result of `joinBoard`.
#[derive(SimpleObject)]
pub struct JoinBoardPayload {
    /// True if the member joined now; false if it had joined before.
    joined: bool,
    /// The board.
    board: Board,
}

/// The result of `leaveBoard`.
#[derive(SimpleObject)]
pub struct LeaveBoardPayload {
    /// True if the member left now; false if it had not joined.
    left: bool,
    /// The board.
    board: Board,
}

/// The members who joined a board.
pub struct Entrants(Arc<CachedBoard>);

/// The members who joined a board.
#[Object]
impl Entrants {
    /// The number of members who have joined. Needs SQL.
    async fn count(&self, ctx: &Context<'_>) -> Result<Option<i32>> {
        state(ctx).spend(price::select(1)).await?;
        let (app, no) = (app(ctx), self.0.row.no);
        let count = async { Ok::<_, Error>(entrant::count(&app.deployment.reads, no).await?) };
        let count = app.health.sql.read(count).await?.unwrap_or(0);
        Ok(Some(int(count.unsigned_abs())?))
    }

    /// The most members who may have joined; null if there is no limit.
    async fn max(&self) -> Option<i32> {
        self.0.row.entrants_max
    }

    /// True if a member has joined. Needs SQL.
    async fn includes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member's key.")] member: String,
    ) -> Result<Option<bool>> {
        let member = member_id("member", &member)?;
        state(ctx).spend(price::select(1)).await?;
        let (app, no) = (app(ctx), self.0.row.no);
        let (db, member) = (&app.deployment.reads, member.as_str());
        let row = async { Ok::<_, Error>(entrant::of(db, no, member).await?) };
        let has_joined = app.health.sql.read(row).await?.is_some();
        Ok(Some(has_joined && !is_hidden(ctx, member).await))
    }
}

impl Entrants {
    /// Those of a board; `None` if members do not join it.
    pub(super) fn of(board: &Arc<CachedBoard>) -> Option<Self> {
        board.row.joining.then(|| Self(board.clone()))
    }
}

/// Checks the limit of a board's entrants.
pub(super) fn check_entrants_max(max: i32, joining: bool) -> crate::error::Result<i32> {
    let at = |error: Error| error.at("entrantsMax");
    if !joining {
        let message = "invalid entrantsMax: expected it only with joining";
        return Err(at(Error::bad_input(message)));
    }
    if max < 1 {
        let message = format!("invalid entrantsMax {max}: expected 1 to {ENTRANTS_MAX}");
        return Err(at(Error::bad_input(message)));
    }
    if max > ENTRANTS_MAX {
        let message = format!("invalid entrantsMax {max}: expected at most {ENTRANTS_MAX}");
        return Err(at(Error::limit_exceeded(message)));
    }
    Ok(max)
}

/// Lets a member join a board.
pub(crate) async fn join_board(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &JoinBoardInput,
) -> crate::error::Result<JoinBoardPayload> {
    audit.note(|act| act.on_slug(&input.board).on_member(&input.member));
    let (board, member) = both(ctx, &input.board, &input.member).await?;
    let app = app(ctx);
    check_unmerged(&app.deployment, &[member.as_str()]).await?;
    audit.note(|act| act.on(&board.row));
    audit.announce().await?;
    // A new member is of use to friends and searches before its first score.
    member::insert_missing(&app.deployment.db, member.as_str(), app.deployment.clock.now_ms())
        .await?;
    let joined = entrants::join(&app.deployment, &board.board, &member).await?;
    state(ctx).loaders.clear().await;
    let joined = match joined {
        Joined::Now(_) => true,
        Joined::Before(_) => false,
        Joined::Full(max) => {
            let slug = &board.row.slug;
            return Err(Error::new(
                ErrorCode::EntrantsFull,
                format!("board {slug} has {max} entrants, as many as it may have"),
            ));
        }
        Joined::NoBoard => return Err(no_board(&input.board).at("input.board")),
    };
    audit.note(|act| act.after(json!({ "joined": joined })));
    Ok(JoinBoardPayload { joined, board: Board(board) })
}

/// Lets a member leave a board.
pub(crate) async fn leave_board(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &LeaveBoardInput,
) -> crate::error::Result<LeaveBoardPayload> {
    audit.note(|act| act.on_slug(&input.board).on_member(&input.member));
    let (board, member) = both(ctx, &input.board, &input.member).await?;
    audit.note(|act| act.on(&board.row));
    audit.announce().await?;
    let deadline = Instant::now() + LEAVE_TIMEOUT;
    let (deployment, member) = (&app(ctx).deployment, &member);
    let leave = |board: ranking::board::Board| {
        async move { entrants::leave(deployment, &board, member, deadline).await }.boxed()
    };
    match on_present_board(ctx, &board, leave).await? {
        Leaving::HasScored => Err(Error::bad_input(format!(
            "member {} has a score on this board and stays: expected a member without one",
            shown(member.as_str())
        ))
        .at("input.member")),
        left => {
            let left = left == Leaving::Done;
            audit.note(|act| act.after(json!({ "left": left })));
            Ok(LeaveBoardPayload { left, board: Board(board) })
        }
    }
}

/// Checks that the client may let this member join or leave, and that members join the board.
async fn both(
    ctx: &Context<'_>,
    board: &str,
    member: &str,
) -> crate::error::Result<(Arc<CachedBoard>, MemberId)> {
    let principal = state(ctx).require(Scope::Submit)?;
    match principal.member.as_deref() {
        Some(own) if own != member => {
            let message = format!("this access token may let {own} join and leave boards only");
            return Err(Error::forbidden(message));
        }
        Some(_) => {}
        None => {
            state(ctx).require(Scope::Admin)?;
        }
    }
    let member =
        MemberId::for_new(member).map_err(|error| Error::from(error).at("input.member"))?;
    let found = find(app(ctx), state(ctx), board).await?;
    let found = found.ok_or_else(|| no_board(board).at("input.board"))?;
    if !found.row.joining {
        return Err(Error::bad_input(format!(
            "members do not join board {board}: expected one that was created with joining"
        ))
        .at("input.board"));
    }
    Ok((found, member))
}
