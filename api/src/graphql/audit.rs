//! The audit log, for administrators: the acts of administrators and moderators.

pub(crate) mod writer;

use async_graphql::connection::{Edge, EmptyFields};
use async_graphql::{Context, Enum, ID, InputObject, Object};
use entity::audit as row;
use ranking::id::check_slug;

use super::guard::Needs;
use super::price;
use super::request::{app, state};
use super::standings::member_id;
use super::types::connection::{Connection, Page, PageCursor};
use super::types::global_id::GlobalId;
use super::types::scalar::{DateTime, text};
use crate::access::scope::Scope;
use crate::error::{Error, Result};

/// The outcome of an act.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::audit::Outcome")]
pub enum AuditOutcome {
    /// It is under way, or its process ended before it could tell: it may have taken effect.
    Begun,
    /// It took effect, or there was nothing to do.
    Done,
    /// It was refused or failed; `error` says why. If it takes several steps, some may have taken
    /// effect.
    Failed,
}

/// An act of an administrator or a moderator.
pub struct AuditEntry(row::Model);

/// An act of an administrator or a moderator.
#[Object]
impl AuditEntry {
    /// The global id: "auditEntry:<number>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::AuditEntry(self.0.no).to_text().into()
    }

    /// The time when it began.
    async fn at(&self) -> DateTime {
        DateTime(self.0.at_ms)
    }

    /// The actor: the global id of an access token, "accessToken:<id>", or at a command line the
    /// user and the machine, "user:<name>@<host>".
    async fn actor(&self) -> &str {
        &self.0.actor
    }

    /// The name that the access token has; null if it has none.
    async fn actor_name(&self) -> Option<&str> {
        self.0.actor_name.as_deref()
    }

    /// The name of the mutation, such as "voidEvent", or of the command, such as "laurel rebuild".
    async fn act(&self) -> &str {
        &self.0.act
    }

    /// The slug that the board had, also if it was deleted since; null if the act is about no board
    /// or about several.
    async fn board(&self) -> Option<&str> {
        self.0.board.as_deref()
    }

    /// The key of the member; null if the act is about none or about several.
    async fn member(&self) -> Option<&str> {
        self.0.member.as_deref()
    }

    /// The outcome.
    async fn outcome(&self) -> AuditOutcome {
        self.0.outcome.into()
    }

    /// The code of the error of a mutation, or the message of a command; null unless it FAILED.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// The values before the act, as JSON of at most 4,096 bytes; null if there were none.
    async fn before(&self) -> Option<&str> {
        self.0.before.as_deref()
    }

    /// The values after the act, or its result, as JSON of at most 4,096 bytes; null if there are
    /// none.
    async fn after(&self) -> Option<&str> {
        self.0.after.as_deref()
    }
}

/// The acts to list: those that meet every condition given.
#[derive(InputObject, Default)]
pub struct AuditFilterInput {
    /// The actor, as `AuditEntry.actor` has it.
    actor: Option<String>,
    /// The name of the act.
    act: Option<String>,
    /// The slug that the board had.
    board: Option<String>,
    /// The key of the member.
    member: Option<String>,
    /// The first instant.
    since: Option<DateTime>,
    /// The first instant after it.
    until: Option<DateTime>,
}

impl AuditFilterInput {
    fn read(self) -> Result<row::Filter> {
        let Self { actor, act, board, member, since, until } = self;
        if let Some(slug) = &board {
            check_slug(slug).map_err(|error| Error::from(error).at("board"))?;
        }
        if let Some(member) = &member {
            member_id("member", member)?;
        }
        Ok(row::Filter {
            actor: actor.map(|actor| text("actor", actor)).transpose()?,
            act: act.map(|act| text("act", act)).transpose()?,
            board,
            member,
            since_ms: since.map(|since| since.0),
            until_ms: until.map(|until| until.0),
        })
    }
}

/// The act of a number.
pub(crate) async fn find(ctx: &Context<'_>, no: i64) -> Result<Option<AuditEntry>> {
    Needs::Scope(Scope::Admin).met(ctx)?;
    state(ctx).spend(price::select(1)).await?;
    Ok(row::find(&app(ctx).deployment.reads, no).await?.map(AuditEntry))
}

/// A page of the acts of a filter, newest first.
pub(crate) async fn list(
    ctx: &Context<'_>,
    filter: Option<AuditFilterInput>,
    page: Page,
) -> Result<Connection<AuditEntry, EmptyFields>> {
    let filter = filter.unwrap_or_default().read().map_err(|error| error.within("filter"))?;
    let place = |cursor: &Option<String>| {
        cursor.as_deref().map(PageCursor::place::<row::Place>).transpose()
    };
    let db = &app(ctx).deployment.reads;
    let (Page::Forward { limit, .. } | Page::Backward { limit, .. }) = &page;
    state(ctx).spend(price::select(*limit)).await?;
    let (rows, has_previous, has_next) = match page {
        Page::Forward { limit, after } => {
            let (rows, more) = row::page_after(db, &filter, place(&after)?, limit).await?;
            (rows, after.is_some(), more)
        }
        Page::Backward { limit, before } => {
            let (rows, more) = row::page_before(db, &filter, place(&before)?, limit).await?;
            (rows, more, before.is_some())
        }
    };
    let mut connection = Connection::new(has_previous, has_next);
    connection.edges.extend(
        rows.into_iter()
            .map(|row| Edge::new(PageCursor::of(&(row.at_ms, row.no)), AuditEntry(row))),
    );
    Ok(connection)
}
