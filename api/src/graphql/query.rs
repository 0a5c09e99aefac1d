//! The queries.

use std::sync::Arc;

use async_graphql::connection::EmptyFields;
use async_graphql::{Context, ID, Interface, Object, Result, SimpleObject};
use ranking::id::MemberId;
use ranking::shown;

use super::audit::{self, AuditEntry, AuditFilterInput};
use super::board::list::BoardTotal;
use super::board::window::BoardWindow;
use super::board::{self, Board};
use super::event::{self, ScoreEvent};
use super::guard::Needs;
use super::integrity::{self, Finding, IntegrityRun, IntegrityRunTotal};
use super::job::{self, Job, JobKind, JobTotal};
use super::member::Member;
use super::member::erasure::{self, ErasureReceipt};
use super::member::friend::{self, FriendEntry};
use super::member::quarantine::{self, QuarantinedScore};
use super::member::report::{self, MemberReport};
use super::member::search::{MemberTotal, search};
use super::partition::{self, Partition};
use super::request::{app, state};
use super::standings::entry::Entry;
use super::standings::period::Period;
use super::standings::{Choice, Standings, member_ids};
use super::token::{self, AccessToken};
use super::types::connection::{Connection, Page};
use super::types::global_id::{BoardName, GlobalId, StandingsName};
use super::webhook::{self, Webhook};
use crate::access::scope::Scope;
use crate::cache::boards::CachedBoard;
use crate::error::Error;

/// Anything with a global id.
#[derive(Interface)]
#[graphql(field(name = "id", ty = "ID", desc = "The global id, as readable text."))]
pub enum Node {
    /// A board.
    Board(Board),
    /// A member.
    Member(Member),
    /// Standings.
    Standings(Standings),
    /// An entry.
    Entry(Entry),
    /// An event.
    ScoreEvent(ScoreEvent),
    /// A job.
    Job(Job),
    /// A partition.
    Partition(Partition),
    /// A run of the integrity diff.
    IntegrityRun(IntegrityRun),
    /// A finding.
    Finding(Finding),
    /// A window.
    BoardWindow(BoardWindow),
    /// A period.
    Period(Period),
    /// A friend.
    FriendEntry(FriendEntry),
    /// An access token.
    AccessToken(AccessToken),
    /// A score in quarantine.
    QuarantinedScore(QuarantinedScore),
    /// An act of the audit log.
    AuditEntry(AuditEntry),
    /// A report of a member.
    MemberReport(MemberReport),
    /// The receipt of an erasure.
    ErasureReceipt(ErasureReceipt),
    /// A webhook.
    Webhook(Webhook),
}

/// The client, as its access token identifies it.
#[derive(SimpleObject)]
pub struct Viewer {
    /// The member that the token is bound to; null for a token of a service.
    member: Option<Member>,
    /// The scopes that the token grants.
    scopes: Vec<Scope>,
}

/// All reads.
pub struct Query;

/// All reads. A cache between server and client may keep an answer for a second, unless one of its
/// fields allows less.
#[Object(cache_control(max_age = 1))]
impl Query {
    /// The object with this id; null if there is none.
    #[graphql(guard = "Needs::Nothing")]
    async fn node(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A global id, such as \"member:u42\".")] id: ID,
    ) -> Result<Option<Node>> {
        Ok(Box::pin(node(ctx, &id)).await?)
    }

    /// The board with this slug; null if there is none.
    #[graphql(guard = "Needs::Nothing")]
    async fn board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board's slug.")] slug: String,
    ) -> Result<Option<Board>> {
        Ok(board::find(app(ctx), state(ctx), &slug).await?.map(Board))
    }

    /// The boards, ordered by slug; with `query` or `tags`, those that match all of them.
    #[expect(clippy::too_many_arguments, reason = "each is an argument of the field")]
    #[graphql(guard = "Needs::Nothing")]
    async fn boards(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A part of the slug or the title, ignoring case: 1 to 200 characters.")]
        query: Option<String>,
        #[graphql(default, desc = "Tags that a board has, all of them; at most 10.")] tags: Vec<
            String,
        >,
        #[graphql(default = 10, desc = "The number of items from the front, at most 1,000.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the back, at most 1,000; instead of `first`.")]
        last: Option<i32>,
        #[graphql(desc = "Only items before this page cursor.")] before: Option<String>,
    ) -> Result<Option<Connection<Board, BoardTotal>>> {
        let filter = board::list::filter(state(ctx), query, &tags)?;
        let page = Page::new(first, after, last, before)?;
        Ok(Some(Box::pin(board::list::list(ctx, filter, page)).await?))
    }

    /// The member with this key; null if there is none. A member is created by its first accepted
    /// score or by `upsertMembers`.
    #[graphql(guard = "Needs::Nothing")]
    async fn member(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member's key.")] key: String,
    ) -> Result<Option<Member>> {
        Ok(Box::pin(Member::find(ctx, &[key])).await?.pop().flatten())
    }

    /// The members with these keys, at most 1,000, in the order of `keys`; null for a key that no
    /// member has.
    #[graphql(guard = "Needs::Nothing")]
    async fn members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The members' keys.")] keys: Vec<String>,
    ) -> Result<Option<Vec<Option<Member>>>> {
        member_ids("keys", &keys)?;
        Ok(Some(Box::pin(Member::find(ctx, &keys)).await?))
    }

    /// The members whose key starts with a prefix, ordered by key; then those whose name does,
    /// ignoring case, ordered by name. For clients with a token, unless `LAUREL_MEMBERS` says
    /// otherwise. Members who are on private boards alone are found by clients that see one of
    /// these.
    #[graphql(guard = "Needs::Search")]
    async fn search_members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The start of a key or name: 1 to 128 bytes.")] prefix: String,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<Member, MemberTotal>>> {
        Ok(Some(Box::pin(search(ctx, &prefix, first, after)).await?))
    }

    /// The jobs, newest first. Needs scope admin.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Admin)")]
    async fn jobs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A board's slug: only jobs of this board alone.")] board: Option<String>,
        #[graphql(desc = "Only jobs of this kind.")] kind: Option<JobKind>,
        #[graphql(desc = "The number of items, at most 1,000.", default = 20)] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<Job, JobTotal>>> {
        Ok(Some(Box::pin(job::list(ctx, board.as_deref(), kind, first, after.as_deref())).await?))
    }

    /// The run of the integrity diff with an id; null if there is none. Needs scope admin.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Admin)")]
    async fn integrity_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The global id, \"integrityRun:1\", or the number alone, as `laurel diff` prints it."
        )]
        id: ID,
    ) -> Result<Option<IntegrityRun>> {
        Ok(Box::pin(integrity::find_named(ctx, &id)).await?)
    }

    /// The runs of the integrity diff, newest first. Needs scope admin.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Admin)")]
    async fn integrity_runs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A board's slug: only runs over this board alone.")] board: Option<String>,
        #[graphql(desc = "The number of items, at most 1,000.", default = 20)] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<IntegrityRun, IntegrityRunTotal>>> {
        Ok(Some(Box::pin(integrity::list(ctx, board.as_deref(), first, after.as_deref())).await?))
    }

    /// The partitions, in the order of their numbers, as the process that answers sees them. Needs
    /// scope admin.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Admin)")]
    async fn partitions(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            default = false,
            desc = "Only those that are not level, or whose commits do not get to SQL."
        )]
        unwell: bool,
        #[graphql(desc = "The number of items, at most 1,000.", default = 20)] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<Partition, EmptyFields>>> {
        Ok(Some(partition::list(ctx, unwell, first, after.as_deref()).await?))
    }

    /// The access tokens, oldest first, ended ones too. Needs scope admin.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Admin)")]
    async fn access_tokens(
        &self,
        ctx: &Context<'_>,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<AccessToken, EmptyFields>>> {
        Ok(Some(Box::pin(token::list(ctx, first, after.as_deref())).await?))
    }

    /// The audit log: the acts of administrators and moderators, newest first. Needs scope admin.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Admin)")]
    async fn audit_log(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The acts to list; by default all.")] filter: Option<AuditFilterInput>,
        #[graphql(default = 10, desc = "The number of items from the front, at most 1,000.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the back, at most 1,000; instead of `first`.")]
        last: Option<i32>,
        #[graphql(desc = "Only items before this page cursor.")] before: Option<String>,
    ) -> Result<Option<Connection<AuditEntry, EmptyFields>>> {
        let page = Page::new(first, after, last, before)?;
        Ok(Some(Box::pin(audit::list(ctx, filter, page)).await?))
    }

    /// The receipts of erased members, and the erasures under way, newest first. Needs scope admin.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Admin)")]
    async fn erasure_receipts(
        &self,
        ctx: &Context<'_>,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<ErasureReceipt, EmptyFields>>> {
        Ok(Some(Box::pin(erasure::list(ctx, first, after.as_deref())).await?))
    }

    /// The webhooks, oldest first. Needs scope admin.
    #[graphql(cache_control(private), guard = "Needs::Scope(Scope::Admin)")]
    async fn webhooks(
        &self,
        ctx: &Context<'_>,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
    ) -> Result<Option<Connection<Webhook, EmptyFields>>> {
        Ok(Some(Box::pin(webhook::list(ctx, first, after.as_deref())).await?))
    }

    /// The client, as its access token identifies it; null without a token.
    #[graphql(cache_control(private), guard = "Needs::Nothing")]
    async fn viewer(&self, ctx: &Context<'_>) -> Option<Viewer> {
        let principal = state(ctx).principal.as_ref()?;
        Some(Viewer {
            member: principal.member.as_deref().map(Member::named),
            scopes: principal.scopes.list(),
        })
    }
}

/// The object with a global id.
async fn node(ctx: &Context<'_>, id: &str) -> crate::error::Result<Option<Node>> {
    let unknown = || {
        Error::bad_input(format!(
            "invalid id {}: expected one from a field id, such as \"member:u42\"",
            shown(id)
        ))
        .at("id")
    };
    Ok(match GlobalId::parse(id).ok_or_else(unknown)? {
        GlobalId::Board(name) => board::of_name(ctx, &name).await?.map(|board| Board(board).into()),
        GlobalId::Member(key) => Member::find(ctx, &[key]).await?.pop().flatten().map(Into::into),
        GlobalId::Window(board, window) => {
            let found = window_of(ctx, &board, &window).await?;
            found.map(|(board, window)| BoardWindow::new(&board, window).into())
        }
        GlobalId::Period(board, window, label) => match window_of(ctx, &board, &window).await? {
            Some((board, window)) => {
                let period = window.period_named(&label, &board.board.rules.calendar)?;
                Some(Period::new(&board, window, &period, state(ctx).now_ms).into())
            }
            None => None,
        },
        GlobalId::Standings(name) => standings(ctx, name).await?.map(Into::into),
        GlobalId::Entry(name, member) => match standings(ctx, name).await? {
            Some(standings) => {
                standings.seen_entry_of(ctx, MemberId::new(&member)?).await?.map(Into::into)
            }
            None => None,
        },
        GlobalId::AnonymousEntry(name, sealed) => match standings(ctx, name).await? {
            Some(standings) => {
                let opened = app(ctx).visibilities.sealing().open(&standings.read.id, &sealed);
                match opened {
                    Some(member) => standings.entry_of(ctx, member).await?.map(Into::into),
                    None => None,
                }
            }
            None => None,
        },
        GlobalId::FriendEntry(name, member, friend) => match standings(ctx, name).await? {
            Some(standings) => {
                friend::find(ctx, &standings, &member, &friend).await?.map(Into::into)
            }
            None => None,
        },
        GlobalId::Event(place) => event::find(ctx, place).await?.map(Into::into),
        GlobalId::AccessToken(id) => token::find(ctx, &id).await?.map(Into::into),
        GlobalId::Quarantined(number) => quarantine::find(ctx, number).await?.map(Into::into),
        GlobalId::AuditEntry(number) => audit::find(ctx, number).await?.map(Into::into),
        GlobalId::MemberReport(number) => report::find(ctx, number).await?.map(Into::into),
        GlobalId::ErasureReceipt(id) => erasure::find(ctx, &id).await?.map(Into::into),
        GlobalId::Webhook(id) => webhook::find(ctx, &id).await?.map(Into::into),
        GlobalId::Job(number) => job::find(ctx, number).await?.map(Into::into),
        GlobalId::Partition(number) => partition::find(ctx, number)?.map(Into::into),
        GlobalId::IntegrityRun(number) => integrity::find(ctx, number).await?.map(Into::into),
        GlobalId::Finding(run, index) => {
            integrity::find_finding(ctx, run, index).await?.map(Into::into)
        }
    })
}

/// The board and the window of a global id.
async fn window_of(
    ctx: &Context<'_>,
    board: &BoardName,
    window: &str,
) -> crate::error::Result<Option<(Arc<CachedBoard>, ranking::window::Window)>> {
    let Some(board) = board::of_name(ctx, board).await? else {
        return Ok(None);
    };
    let window = window.parse().ok().filter(|window| board.board.rules.is_shown(*window));
    Ok(window.map(|window| (board, window)))
}

async fn standings(
    ctx: &Context<'_>,
    name: StandingsName,
) -> crate::error::Result<Option<Standings>> {
    let Some((board, _)) = window_of(ctx, &name.board, &name.window).await? else {
        return Ok(None);
    };
    let choice = Choice {
        window: name.window,
        at_ms: None,
        period: Some(name.period),
        segment: Some(name.segment),
    };
    Ok(Some(Standings::choose(ctx, &board, choice).await?))
}
