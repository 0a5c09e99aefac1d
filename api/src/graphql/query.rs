//! What can be read.

use async_graphql::{Context, ID, Interface, Object, Result, SimpleObject};

use super::board::{self, Board, BoardTotal};
use super::event::{self, ScoreEvent};
use super::integrity::{self, IntegrityRun, IntegrityRunTotal};
use super::job::{self, Job, JobKind, JobTotal};
use super::member::Member;
use super::member::search::{MemberTotal, search};
use super::request::{app, state};
use super::standings::entry::Entry;
use super::standings::{Choice, Standings, member_ids};
use super::types::connection::{Connection, Page};
use super::types::global_id::{GlobalId, StandingsName};
use crate::error::Error;

/// Anything with a global id.
#[derive(Interface)]
#[graphql(field(name = "id", ty = "ID", desc = "Its global id, readable."))]
pub enum Node {
    /// A board.
    Board(Board),
    /// A member.
    Member(Member),
    /// A standings.
    Standings(Standings),
    /// An entry.
    Entry(Entry),
    /// An event.
    ScoreEvent(ScoreEvent),
    /// A job.
    Job(Job),
    /// A run of the integrity diff.
    IntegrityRun(IntegrityRun),
}

/// Who the access token says is asking.
#[derive(SimpleObject)]
pub struct Viewer {
    /// The member that the token speaks for; null for a token of a service.
    member: Option<Member>,
    /// What the token allows.
    scopes: Vec<String>,
}

/// What can be read.
pub struct Query;

/// What can be read. An answer may be kept for a second by whoever stands between, unless a field of it says less.
#[Object(cache_control(max_age = 1))]
impl Query {
    /// Whatever has that global id; null where nothing has.
    async fn node(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A global id: \"board:redis\", \"member:u42\".")] id: ID,
    ) -> Result<Option<Node>> {
        let unknown = || {
            Error::bad_input(
                "this is no id of ours; one begins with board:, member:, standings:, entry:, event:, job: or integrityRun:",
            )
        };
        Ok(match GlobalId::parse(&id).ok_or_else(unknown)? {
            GlobalId::Board(slug) => {
                board::find(app(ctx), state(ctx), &slug).await?.map(|board| Board(board).into())
            }
            GlobalId::Member(key) => {
                Member::find(ctx, &[key]).await?.pop().flatten().map(Into::into)
            }
            GlobalId::Standings(name) => standings(ctx, name).await?.map(Into::into),
            GlobalId::Entry(name, member) => match standings(ctx, name).await? {
                Some(standings) => {
                    let mut members = member_ids(&[member])?;
                    let member = members.pop().ok_or_else(unknown)?;
                    standings.entry_of(ctx, member).await?.map(Into::into)
                }
                None => None,
            },
            GlobalId::Event(place) => event::find(ctx, place).await?.map(Into::into),
            GlobalId::Job(number) => job::find(ctx, number).await?.map(Into::into),
            GlobalId::IntegrityRun(number) => integrity::find(ctx, number).await?.map(Into::into),
        })
    }

    /// The board of a slug; null where there is none.
    async fn board(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its slug.")] slug: String,
    ) -> Result<Option<Board>> {
        Ok(board::find(app(ctx), state(ctx), &slug).await?.map(Board))
    }

    /// The boards, by slug.
    async fn boards(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the front, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only those after this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the back, at most 1,000.")] last: Option<i32>,
        #[graphql(desc = "Only those before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Board, BoardTotal>> {
        Ok(board::list(ctx, Page::new(first, after, last, before)?).await?)
    }

    /// The member of a key; null where nobody with it was ranked or named yet.
    async fn member(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The id that the game gives.")] key: String,
    ) -> Result<Option<Member>> {
        Ok(Member::find(ctx, &[key]).await?.pop().flatten())
    }

    /// The members of keys, at most 1,000, in the order asked; null where unknown.
    async fn members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The ids that the game gives.")] keys: Vec<String>,
    ) -> Result<Vec<Option<Member>>> {
        member_ids(&keys)?;
        Ok(Member::find(ctx, &keys).await?)
    }

    /// The members whose key begins with a text, by key; then those whose name does, whatever the case, by name.
    async fn search_members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The start of a key or name: 1 to 128 bytes.")] prefix: String,
        #[graphql(desc = "How many, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only those after this cursor.")] after: Option<String>,
    ) -> Result<Connection<Member, MemberTotal>> {
        Ok(search(ctx, &prefix, first, after).await?)
    }

    /// What is done, or was done, with whole boards, newest first. It needs scope admin.
    #[graphql(cache_control(private))]
    async fn jobs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The slug of a board: only what is about it alone.")] board: Option<
            String,
        >,
        #[graphql(desc = "Only those of a kind.")] kind: Option<JobKind>,
        #[graphql(desc = "How many, at most 1,000.", default = 20)] first: Option<i32>,
        #[graphql(desc = "Only those after this cursor.")] after: Option<String>,
    ) -> Result<Connection<Job, JobTotal>> {
        Ok(job::list(ctx, board.as_deref(), kind, first, after.as_deref()).await?)
    }

    /// The run of the integrity diff of an id; null where there is none. It needs scope admin.
    #[graphql(cache_control(private))]
    async fn integrity_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Its global id, \"integrityRun:1\", or its number alone, as `analytics diff` prints it."
        )]
        id: ID,
    ) -> Result<Option<IntegrityRun>> {
        Ok(integrity::find_named(ctx, &id).await?)
    }

    /// The runs of the integrity diff, newest first. It needs scope admin.
    #[graphql(cache_control(private))]
    async fn integrity_runs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The slug of a board: only runs over it alone.")] board: Option<String>,
        #[graphql(desc = "How many, at most 1,000.", default = 20)] first: Option<i32>,
        #[graphql(desc = "Only those after this cursor.")] after: Option<String>,
    ) -> Result<Connection<IntegrityRun, IntegrityRunTotal>> {
        Ok(integrity::list(ctx, board.as_deref(), first, after.as_deref()).await?)
    }

    /// Who the access token says is asking; null without one.
    #[graphql(cache_control(private))]
    async fn viewer(&self, ctx: &Context<'_>) -> Option<Viewer> {
        let principal = state(ctx).principal.as_ref()?;
        Some(Viewer {
            member: principal.member.as_deref().map(Member::named),
            scopes: principal.scope.included(),
        })
    }
}

async fn standings(
    ctx: &Context<'_>,
    name: StandingsName,
) -> crate::error::Result<Option<Standings>> {
    let Some(board) = board::find(app(ctx), state(ctx), &name.board).await? else {
        return Ok(None);
    };
    let is_kept = |window: ranking::window::Window| board.board.rules.is_shown(window);
    if !name.window.parse().is_ok_and(is_kept) {
        return Ok(None);
    }
    let choice = Choice {
        window: name.window,
        at_ms: None,
        period: Some(name.period),
        segment: Some(name.segment),
    };
    Ok(Some(Standings::choose(app(ctx), &board, choice, state(ctx).now_ms)?))
}
