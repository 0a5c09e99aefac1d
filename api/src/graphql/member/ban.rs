//! Bans of members: the mutations, and the bans of a member.

use std::collections::BTreeMap;

use async_graphql::{Context, InputObject, Object, SimpleObject};
use engine::ban::{self, Changed};
use entity::board as board_row;
use entity::board::seen::Seen;
use entity::member::ban::{self as row, EVERYWHERE, Terms};
use ranking::id::MemberId;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Member;
use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::graphql::audit::writer::Audit;
use crate::graphql::board::{self, Board};
use crate::graphql::event::amendment::AMEND_TIMEOUT;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::types::scalar::{DateTime, text};

/// The member to ban.
#[derive(InputObject)]
pub struct BanMemberInput {
    /// The member's key, which need not be known yet.
    member: String,
    /// The slug of the board; all boards by default, also those that are made later. At most 100
    /// boards one by one.
    board: Option<String>,
    /// True if the member is not to be told: its scores are answered with APPLIED, without an event
    /// and without an entry.
    #[graphql(default)]
    shadow: bool,
    /// The reason, for moderators: at most 200 characters.
    reason: Option<String>,
}

/// The ban to lift.
#[derive(InputObject)]
pub struct LiftBanInput {
    /// The member's key.
    member: String,
    /// The slug of the board; by default, the ban from all boards.
    board: Option<String>,
}

/// The result of `banMember`.
#[derive(SimpleObject)]
pub struct BanMemberPayload {
    /// True if the member has no entry any more where it is banned. False if the ban is decided and
    /// goes on in the background; none of its scores is ranked from now on.
    banned: bool,
    /// The member.
    member: Member,
}

/// The result of `liftBan`.
#[derive(SimpleObject)]
pub struct LiftBanPayload {
    /// True if a ban was lifted; false if there was none.
    lifted: bool,
    /// True if the member's entries are there again. False if the lift goes on in the background.
    done: bool,
    /// The member.
    member: Member,
}

/// A ban of a member.
pub struct MemberBan {
    terms: Terms,
    board: Option<Board>,
}

/// A ban of a member.
#[Object]
impl MemberBan {
    /// The board; null for a ban from all boards.
    async fn board(&self) -> Option<Board> {
        self.board.clone()
    }

    /// True if the member is not told.
    async fn shadow(&self) -> bool {
        self.terms.shadow
    }

    /// The reason.
    async fn reason(&self) -> Option<&str> {
        self.terms.reason.as_deref()
    }

    /// The time when it began.
    async fn since(&self) -> DateTime {
        DateTime(self.terms.since_ms)
    }
}

/// Bans a member.
pub(crate) async fn ban_member(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &BanMemberInput,
) -> crate::error::Result<BanMemberPayload> {
    state(ctx).spend(price::AMENDMENT_OF_MANY).await?;
    let (member, board) = both(ctx, audit, &input.member, input.board.as_deref()).await?;
    let reason = input.reason.clone().map(|reason| text("reason", reason)).transpose();
    let app = app(ctx);
    let terms = Terms {
        board,
        shadow: input.shadow,
        reason: reason.map_err(|error| error.within("input"))?,
        since_ms: app.deployment.clock.now_ms(),
    };
    let before = terms_before(ctx, &member, board).await?;
    audit.note(|act| act.before(before).after(terms_value(&terms)));
    audit.announce().await?;
    let deadline = Instant::now() + AMEND_TIMEOUT;
    let changed = Box::pin(ban::ban(&app.deployment, &member, terms, deadline)).await;
    state(ctx).loaders.clear().await;
    let banned = changed? == Changed::Done;
    Ok(BanMemberPayload { banned, member: Member::named(member.as_str()) })
}

/// Lifts a ban.
pub(crate) async fn lift_ban(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &LiftBanInput,
) -> crate::error::Result<LiftBanPayload> {
    state(ctx).spend(price::AMENDMENT_OF_MANY).await?;
    let (member, board) = both(ctx, audit, &input.member, input.board.as_deref()).await?;
    let before = terms_before(ctx, &member, board).await?;
    audit.note(|act| act.before(before));
    audit.announce().await?;
    let deadline = Instant::now() + AMEND_TIMEOUT;
    let changed = Box::pin(ban::lift(&app(ctx).deployment, &member, board, deadline)).await;
    state(ctx).loaders.clear().await;
    let changed = changed?;
    let (lifted, done) = (changed != Changed::Nothing, changed == Changed::Done);
    audit.note(|act| act.after(json!({ "lifted": lifted, "done": done })));
    Ok(LiftBanPayload { lifted, done, member: Member::named(member.as_str()) })
}

/// The terms of a ban as the audit log has them.
fn terms_value(terms: &Terms) -> Value {
    json!({
        "everywhere": terms.board == EVERYWHERE, "shadow": terms.shadow, "reason": terms.reason,
        "since": terms.since_ms,
    })
}

/// The terms of a member's ban before it is changed; null without one.
async fn terms_before(
    ctx: &Context<'_>,
    member: &MemberId,
    board: i64,
) -> crate::error::Result<Value> {
    let Some(row) = row::of(&app(ctx).deployment.db, member.as_str()).await? else {
        return Ok(Value::Null);
    };
    let terms = row.terms()?;
    Ok(terms.iter().find(|terms| terms.board == board).map_or(Value::Null, terms_value))
}

/// The member and the number of the board of an input.
async fn both(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    member: &str,
    slug: Option<&str>,
) -> crate::error::Result<(MemberId, i64)> {
    audit.note(|act| slug.into_iter().fold(act.on_member(member), |act, slug| act.on_slug(slug)));
    let member =
        MemberId::for_new(member).map_err(|error| Error::from(error).at("input.member"))?;
    let Some(slug) = slug else {
        if matches!(state(ctx).seen(), Seen::Listed(_)) {
            let message = "invalid board: expected one, as this access token is not for all boards";
            return Err(Error::bad_input(message).at("input.board"));
        }
        return Ok((member, EVERYWHERE));
    };
    let board = board::named(ctx, slug).await.map_err(|error| error.within("input"))?;
    audit.note(|act| act.on(&board.row));
    Ok((member, board.row.no))
}

/// The bans of a member, that from all boards first; those from boards that are deleted, or that
/// the client does not see, are left out.
pub(crate) async fn bans_of(
    ctx: &Context<'_>,
    member: &str,
) -> crate::error::Result<Vec<MemberBan>> {
    state(ctx).spend(price::select(row::BOARDS_MAX + 1)).await?;
    let db = &app(ctx).deployment.reads;
    let Some(found) = row::of(db, member).await? else {
        return Ok(vec![]);
    };
    let mut terms = found.terms()?;
    terms.sort_by_key(|terms| terms.board);
    let numbers: Vec<i64> = terms.iter().map(|terms| terms.board).collect();
    let mut boards: BTreeMap<i64, board_row::Model> =
        board_row::living_of_numbers(db, &numbers).await?;
    let mut bans = vec![];
    for terms in terms {
        let board = match boards.remove(&terms.board) {
            Some(row) if !state(ctx).seen().includes(&row) => continue,
            Some(row) => Some(Board(CachedBoard::new(row)?)),
            None if terms.board == EVERYWHERE => None,
            None => continue,
        };
        bans.push(MemberBan { terms, board });
    }
    Ok(bans)
}
