//! Access tokens: those that exist, without their secrets, and the mutations that make and revoke
//! them. For administrators.

use std::time::Duration;

use async_graphql::connection::{Edge, EmptyFields};
use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use entity::access_token as row;
use entity::board::seen::Seen;
use ranking::id::MemberId;
use serde_json::json;
use tokio::time::timeout;

use super::audit::writer::Audit;
use super::guard::Needs;
use super::member::Member;
use super::price;
use super::request::{app, state};
use super::types::connection::{Connection, PageCursor, limit};
use super::types::global_id::{BoardName, GlobalId};
use super::types::scalar::{DateTime, text};
use crate::access::creation::{self, LIFETIME_HOURS_MAX, NewToken};
use crate::access::scope::{Scope, Scopes};
use crate::error::{Error, ErrorCode, Result};

/// How long Redis may take to note that a token was revoked.
const NOTE_TIMEOUT: Duration = Duration::from_secs(1);

/// An access token. Its secret cannot be read.
pub struct AccessToken(row::Model);

/// An access token. Its secret cannot be read.
#[Object]
impl AccessToken {
    /// The global id: "accessToken:<id>". The id is the middle part of the token.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::AccessToken(self.0.id.clone()).to_text().into()
    }

    /// The name that its creator gave it.
    async fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The scopes that it grants, also those that others include.
    async fn scopes(&self) -> Vec<Scope> {
        Scopes::parse(&self.0.scopes).list()
    }

    /// The only member that it speaks for; null for a token of a service.
    async fn member(&self) -> Option<Member> {
        self.0.member.as_deref().map(Member::named)
    }

    /// The global ids of the only boards that it sees, at most 100, deleted ones too; null if it is
    /// not bound to any.
    async fn board_ids(&self, ctx: &Context<'_>) -> Result<Option<Vec<ID>>> {
        let Seen::Listed(numbers) = self.0.seen() else { return Ok(None) };
        state(ctx).spend(numbers.len() as u64 * price::BOARD_ROW).await?;
        let boards = state(ctx).loaders.boards(numbers).await?;
        let mut names: Vec<BoardName> = boards.values().map(|board| BoardName::of(board)).collect();
        names.sort_by_key(|name| name.no);
        Ok(Some(names.into_iter().map(|name| GlobalId::Board(name).to_text().into()).collect()))
    }

    /// The time of creation.
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at_ms)
    }

    /// The first instant at which it no longer works; null if it does not expire.
    async fn expires_at(&self) -> Option<DateTime> {
        self.0.expires_at_ms.map(DateTime)
    }

    /// The last use, to a minute; null if it was never used.
    async fn last_used_at(&self) -> Option<DateTime> {
        self.0.last_used_at_ms.map(DateTime)
    }

    /// The time of its revocation; null unless it was revoked.
    async fn revoked_at(&self) -> Option<DateTime> {
        self.0.revoked_at_ms.map(DateTime)
    }
}

/// A token to be made.
#[derive(InputObject)]
pub struct CreateAccessTokenInput {
    /// The scopes that it grants, at least one; each includes READ, and ADMIN includes all.
    scopes: Vec<Scope>,
    /// A name that tells what it is for, at most 200 characters.
    name: Option<String>,
    /// The key of the only member that it speaks for. Not with scope MODERATE or ADMIN.
    member: Option<String>,
    /// The slugs of the only boards that it sees, at most 100, private ones among them; by default
    /// it sees all public boards. Not with scope ADMIN, which sees all boards.
    boards: Option<Vec<String>>,
    /// The time for which it works, in seconds: at most 315,360,000, which are ten years of 365
    /// days. By default it does not expire.
    lifetime_seconds: Option<i32>,
}

/// The result of `createAccessToken`.
#[derive(SimpleObject)]
pub struct CreateAccessTokenPayload {
    /// The token as it is listed.
    access_token: AccessToken,
    /// The token to send as "Authorization: Bearer …". It cannot be shown again.
    token: String,
}

/// A token to be revoked.
#[derive(InputObject)]
pub struct RevokeAccessTokenInput {
    /// The global id of the token.
    id: ID,
}

/// The result of `revokeAccessToken`.
#[derive(SimpleObject)]
pub struct RevokeAccessTokenPayload {
    /// The token.
    access_token: AccessToken,
}

/// Makes a token.
pub(crate) async fn create(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: CreateAccessTokenInput,
) -> Result<CreateAccessTokenPayload> {
    let app = app(ctx);
    let CreateAccessTokenInput { scopes, name, member, boards, lifetime_seconds } = input;
    let name = name.map(|name| text("name", name)).transpose();
    let name = name.map_err(|error| error.within("input"))?;
    let member = member.as_deref().map(MemberId::for_new).transpose();
    let member = member.map_err(|error| Error::from(error).at("input.member"))?;
    let seconds_max = LIFETIME_HOURS_MAX * 3600;
    let lifetime = lifetime_seconds.map(|seconds| {
        let seconds = u64::try_from(seconds).ok();
        let seconds = seconds.filter(|seconds| (1..=seconds_max.unsigned_abs()).contains(seconds));
        seconds.map(Duration::from_secs).ok_or_else(|| {
            let message = format!("invalid lifetimeSeconds: expected 1 to {seconds_max}");
            Error::bad_input(message).at("input.lifetimeSeconds")
        })
    });
    let member = member.map(|member| member.to_string());
    let new = NewToken { scopes, name, member, boards, lifetime: lifetime.transpose()? };
    let now_ms = app.deployment.clock.now_ms();
    let (row, token) = creation::create(&app.deployment.db, new, now_ms, audit.act()).await?;
    audit.written();
    Ok(CreateAccessTokenPayload { access_token: AccessToken(row), token })
}

/// Revokes a token: at once in this process, within a second in others. They learn of it by SQL or
/// by Redis, whichever they reach.
pub(crate) async fn revoke(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &RevokeAccessTokenInput,
) -> Result<RevokeAccessTokenPayload> {
    let app = app(ctx);
    let unknown = || {
        let message = "there is no such access token: expected an id of accessTokens";
        Error::new(ErrorCode::NotFound, message).at("input.id")
    };
    let Some(GlobalId::AccessToken(id)) = GlobalId::parse(&input.id) else {
        return Err(unknown());
    };
    let (db, now_ms) = (&app.deployment.db, app.deployment.clock.now_ms());
    app.access.revoke(&id).await;
    let note = timeout(NOTE_TIMEOUT, app.deployment.store.note_revoked(&id));
    audit.note(|act| act.after(json!({ "id": id })));
    let (revoked, noted) = tokio::join!(row::revoke(db, &id, now_ms, audit.act()), note);
    if let Err(error) = noted
        .map_err(|_| "no answer".into())
        .and_then(|noted| noted.map_err(|error| error.to_string()))
    {
        tracing::warn!(error, "Redis does not tell other processes of a revoked token; SQL does");
    }
    if revoked? {
        audit.written();
    }
    let row = row::find(db, &id).await?.ok_or_else(unknown)?;
    Ok(RevokeAccessTokenPayload { access_token: AccessToken(row) })
}

/// The token of an id.
pub(crate) async fn find(ctx: &Context<'_>, id: &str) -> Result<Option<AccessToken>> {
    Needs::Scope(Scope::Admin).met(ctx)?;
    state(ctx).spend(price::select(1)).await?;
    Ok(row::find(&app(ctx).deployment.reads, id).await?.map(AccessToken))
}

/// A page of the tokens, oldest first.
pub(crate) async fn list(
    ctx: &Context<'_>,
    first: Option<i32>,
    after: Option<&str>,
) -> Result<Connection<AccessToken, EmptyFields>> {
    let limit = limit("first", first)?;
    let after_place = after.map(PageCursor::place::<(i64, String)>).transpose();
    let after_place = after_place.map_err(|error| error.at("after"))?;
    state(ctx).spend(price::select(limit)).await?;
    let db = &app(ctx).deployment.reads;
    let mut rows = row::after(db, after_place, limit + 1).await?;
    let has_next = rows.len() > limit;
    rows.truncate(limit);
    let mut connection = Connection::new(after.is_some(), has_next);
    let edges = rows.into_iter().map(|row| {
        let cursor = PageCursor::of(&(row.created_at_ms, row.id.clone()));
        Edge::new(cursor, AccessToken(row))
    });
    connection.edges.extend(edges);
    Ok(connection)
}
