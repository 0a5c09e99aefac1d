//! Standings: all entries of a board in one segment and one period of one window.

pub(crate) mod dense;
pub mod distribution;
pub mod entries;
pub mod entry;
pub(crate) mod entry_page;
pub mod period;
pub mod source;

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};
use engine::read::choice::{self, PeriodChoice};
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use ranking::store::read::{RankedEntry, Standings as Read};
use ranking::window::Window as RankingWindow;

use super::board::Board;
use super::board::window::Window;
use super::member::friend::{FriendEntryConnection, FriendsPage, friends_page};
use super::price::{self, LookUp};
use super::request::state;
use super::standings::distribution::{BUCKETS_DEFAULT, Bucket, distribution, rank_of_percentile};
use super::standings::entries::{Entries, EntryConnection};
use super::standings::entry::Entry;
use super::standings::period::Period;
use super::standings::source::{Source, source_of};
use super::types::connection::{EntryCursor, PAGE_MAX, Page, limit};
use super::types::global_id::{GlobalId, StandingsName};
use super::types::scalar::{DateTime, Decimal, int};
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::loader::{Found, Place};

/// The default number of neighbors on each side.
const AROUND_DEFAULT: i32 = 5;

/// A choice among the standings of a board.
#[derive(Debug, Default)]
pub struct Choice {
    /// The window's name.
    pub window: String,
    /// An instant in the period, in Unix milliseconds.
    pub at_ms: Option<i64>,
    /// The period's label.
    pub period: Option<String>,
    /// The segment.
    pub segment: Option<String>,
}

/// All entries of a board in one segment and one period of one window.
#[derive(Clone)]
pub struct Standings {
    pub(crate) board: Arc<CachedBoard>,
    pub(crate) read: Arc<Read>,
    /// True if the request chose the period. Otherwise it is the present one, and a page cursor of
    /// an earlier period continues in that period.
    period_chosen: bool,
}

impl Standings {
    /// The standings that a choice names.
    pub(crate) fn choose(
        app: &App,
        board: &Arc<CachedBoard>,
        choice: Choice,
        now_ms: i64,
    ) -> crate::error::Result<Self> {
        let period = match (choice.period, choice.at_ms) {
            (Some(_), Some(_)) => {
                return Err(Error::bad_input("both at and period are given: expected one of them"));
            }
            (Some(label), None) => PeriodChoice::Label(label),
            (None, Some(at_ms)) => PeriodChoice::At(at_ms),
            (None, None) => PeriodChoice::Present,
        };
        let period_chosen = period != PeriodChoice::Present;
        let segment = choice.segment.unwrap_or_default();
        let choice = choice::Choice { window: choice.window.parse()?, period, segment };
        let (slug, segment_by) = (&board.row.slug, &board.segment_by);
        let (id, period) = choice.resolve(&board.board, slug, segment_by, now_ms)?;
        Ok(Self::new(app, board, id, period, period_chosen))
    }

    fn new(
        app: &App,
        board: &Arc<CachedBoard>,
        id: StandingsId,
        period: ranking::window::Period,
        period_chosen: bool,
    ) -> Self {
        let read = Arc::new(Read::new(&app.deployment.store, &board.board, id, period));
        Self { board: board.clone(), read, period_chosen }
    }

    /// The standings of another period of the same window and segment, as a request chose it.
    fn of_period(&self, app: &App, period: ranking::window::Period) -> Self {
        let id = StandingsId { period: period.label.clone(), ..self.read.id.clone() };
        Self::new(app, &self.board, id, period, true)
    }

    pub(crate) fn name(&self) -> StandingsName {
        let id = &self.read.id;
        StandingsName {
            board: self.board.row.slug.clone(),
            window: id.window.to_string(),
            period: id.period.clone(),
            segment: id.segment.clone(),
        }
    }

    /// The standings of the period before this one; `None` if there is none. `since` must be the
    /// window itself, or the window of the periods that it rolls over.
    pub(crate) fn last_period(&self, app: &App, since: &str) -> crate::error::Result<Option<Self>> {
        let (window, rules) = (self.read.id.window, &self.read.rules);
        let of = window.rolling().map_or(window, |rolling| rolling.base());
        if !window.has_periods() {
            return Err(Error::bad_input(format!(
                "window {window} has no periods, so it has no last one: expected a window with periods, such as daily or 7d"
            )));
        }
        let since: RankingWindow = since.parse()?;
        if since != of && since != window {
            return Err(Error::bad_input(format!(
                "invalid since \"{since}\" in window {window}: expected \"{of}\""
            )));
        }
        let last_ms = self.read.period.present_from_ms - 1;
        if last_ms < 0 {
            return Ok(None);
        }
        let period = window.period_at(last_ms, &rules.zone)?;
        Ok(Some(self.of_period(app, period)))
    }

    /// A member's entry, by the loader of the request.
    pub(crate) async fn entry_of(
        &self,
        ctx: &Context<'_>,
        member: MemberId,
    ) -> crate::error::Result<Option<Entry>> {
        let price = price::entries(&self.read, 1);
        price::pay(state(ctx), LookUp::Entry(&self.read.id, &member), price)?;
        let place = Place { standings: self.read.clone(), key: member.clone() };
        let found = state(ctx).loaders.entry(place).await?;
        price::pay_position(ctx, &self.read, found.as_ref().map_or(0, |found| found.position))?;
        Ok(found.map(|found| Entry::new(self.clone(), member, found)))
    }

    /// The place of a page cursor, if there is one, and the standings in which the page continues.
    pub(crate) fn resume(
        &self,
        app: &App,
        cursor: Option<&str>,
    ) -> crate::error::Result<(Self, Option<RankedEntry>)> {
        let Some(cursor) = cursor else {
            return Ok((self.clone(), None));
        };
        let (list, cursor) = self.list_of(app, cursor)?;
        Ok((list, Some(cursor.place()?)))
    }

    /// A page cursor, and the standings in which it continues.
    pub(crate) fn list_of(
        &self,
        app: &App,
        cursor: &str,
    ) -> crate::error::Result<(Self, EntryCursor)> {
        let cursor = EntryCursor::decode(cursor)?;
        let id = &self.read.id;
        if cursor.board() != (id.board, id.generation)
            || cursor.list() != (&id.segment, &id.window.to_string())
        {
            return Err(Error::bad_input(
                "invalid page cursor: it is of another list; expected one from this list",
            ));
        }
        if cursor.period() == id.period {
            return Ok((self.clone(), cursor));
        }
        if self.period_chosen {
            return Err(Error::bad_input(format!(
                "invalid page cursor: it is of the period {}, but the request asks for {}",
                cursor.period(),
                id.period
            )));
        }
        let period = id.window.period_named(cursor.period(), &self.read.rules.zone)?;
        Ok((self.of_period(app, period), cursor))
    }
}

/// All entries of a board in one segment and one period of one window.
#[Object]
impl Standings {
    /// The global id: "standings:<board>:<window>:<period>:<segment>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Standings(self.name()).to_text().into()
    }

    /// The board.
    async fn board(&self) -> Board {
        Board(self.board.clone())
    }

    /// The window.
    async fn window(&self) -> Window {
        Window::new(&self.board, self.read.id.window)
    }

    /// The period.
    async fn period(&self, ctx: &Context<'_>) -> Period {
        Period::new(&self.board, self.read.id.window, &self.read.period, state(ctx).now_ms)
    }

    /// The segment; null for everyone.
    async fn segment(&self) -> Option<String> {
        Some(self.read.id.segment.clone()).filter(|segment| !segment.is_empty())
    }

    /// The source of the answers.
    async fn source(&self, ctx: &Context<'_>) -> Source {
        source_of(ctx, &self.read).await.0
    }

    /// The instant up to which the answers have every score, about: that of the request if they
    /// come from Redis, and else that up to which SQL has them. Null if the server has not seen
    /// Redis since it started.
    async fn as_of(&self, ctx: &Context<'_>) -> Option<DateTime> {
        source_of(ctx, &self.read).await.1
    }

    /// The number of entries.
    async fn size(&self, ctx: &Context<'_>) -> Result<i32> {
        Ok(int(self.count(ctx).await?)?)
    }

    /// A page of entries in rank order: the first ones, those after or before a page cursor, or
    /// those from an offset on. A page cursor continues in its own period, even after the next one
    /// has begun.
    async fn top(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The number of items from the front, at most 1,000; 10 by default.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the back, at most 1,000.")] last: Option<i32>,
        #[graphql(desc = "Only items before this page cursor.")] before: Option<String>,
        #[graphql(desc = "The number of entries to skip from the front; goes with `first` only.")]
        offset: Option<i32>,
    ) -> Result<Option<EntryConnection>> {
        let offset = offset
            .map(|offset| {
                u64::try_from(offset).map_err(|_| {
                    Error::bad_input(format!("invalid offset {offset}: expected 0 or more"))
                })
            })
            .transpose()?;
        let page = Page::new(first, after, last, before)?;
        if offset.is_some() && !matches!(page, Page::Forward { after: None, .. }) {
            return Err(Error::bad_input(
                "invalid offset: expected it with first only, not with a cursor or last",
            )
            .into());
        }
        Ok(Some(Box::pin(self.page(ctx, page, offset)).await?))
    }

    /// A member's entry; null if the member is not in these standings.
    async fn rank(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member's key.")] member: String,
    ) -> Result<Option<Entry>> {
        Ok(self.entry_of(ctx, MemberId::new(&member).map_err(Error::from)?).await?)
    }

    /// The entries of members, at most 1,000, in the order of `members`; null for members that are
    /// not in these standings.
    async fn ranks(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The members' keys.")] members: Vec<String>,
    ) -> Result<Option<Vec<Option<Entry>>>> {
        let members = member_ids(&members)?;
        state(ctx).spend(price::entries(&self.read, members.len()))?;
        let found = Box::pin(state(ctx).loaders.entries(&self.read, &members)).await?;
        let deepest = found.iter().flatten().map(|found| found.position).max().unwrap_or(0);
        price::pay_position(ctx, &self.read, deepest)?;
        let entry = |(found, member): (Option<Found>, MemberId)| {
            found.map(|found| Entry::new(self.clone(), member, found))
        };
        Ok(Some(found.into_iter().zip(members).map(entry).collect()))
    }

    /// The entries of a member's friends, in rank order, with their positions among the friends and
    /// their ranks among all members. A page cursor continues in its own period.
    async fn friends(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member's key.")] member: String,
        #[graphql(desc = "The number of items, at most 1,000; 10 by default.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(default_with = "Some(true)", desc = "True to include the member itself.")]
        include_self: Option<bool>,
        #[graphql(
            default_with = "Some(false)",
            desc = "True to list friends without an entry too, at the end, in the connection's field `missing`."
        )]
        include_missing: Option<bool>,
    ) -> Result<Option<FriendEntryConnection>> {
        let page = FriendsPage {
            first,
            after,
            include_self: include_self.unwrap_or(true),
            include_missing: include_missing.unwrap_or(false),
        };
        Ok(Some(Box::pin(friends_page(ctx, self, &member, page)).await?))
    }

    /// The entry of a rank (ordinal, from 1); null if there are fewer entries.
    async fn entry_at(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The rank, from 1.")] rank: i32,
    ) -> Result<Option<Entry>> {
        let position = u64::try_from(i64::from(rank) - 1)
            .map_err(|_| Error::bad_input(format!("invalid rank {rank}: expected 1 or more")))?;
        Ok(self.entry_of_position(ctx, position).await?)
    }

    /// The lowest score in the top (100 − percentile) %, by nearest rank; null if there are no
    /// entries.
    async fn score_for(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "0 to 100, rounded to nine decimals.")] percentile: f64,
    ) -> Result<Option<Decimal>> {
        let rank = rank_of_percentile(percentile, self.count(ctx).await?)?;
        let entry = self.entry_of_position(ctx, rank - 1).await?;
        Ok(entry.map(|entry| entry.shown_score(state(ctx).now_ms)))
    }

    /// The distribution of scores: equal buckets from the lowest score to the highest, in that
    /// order. Empty if there are no entries. There are fewer buckets than requested if fewer scores
    /// are possible between the two ends.
    async fn distribution(
        &self,
        ctx: &Context<'_>,
        #[graphql(default_with = "Some(20)", desc = "The number of buckets, 1 to 1,000.")]
        buckets: Option<i32>,
    ) -> Result<Option<Vec<Bucket>>> {
        let buckets = buckets.unwrap_or(BUCKETS_DEFAULT);
        Ok(Some(Box::pin(distribution(ctx, self, buckets)).await?))
    }

    /// The entries around a member, its own included, in rank order; empty if the member is not in
    /// these standings.
    async fn neighbors(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member's key.")] member: String,
        #[graphql(
            default_with = "Some(5)",
            desc = "The number of entries ranked above, at most 1,000."
        )]
        above: Option<i32>,
        #[graphql(
            default_with = "Some(5)",
            desc = "The number of entries ranked below, at most 1,000."
        )]
        below: Option<i32>,
    ) -> Result<Option<Entries>> {
        let member = MemberId::new(&member).map_err(Error::from)?;
        let (above, below) = (
            limit("above", above.or(Some(AROUND_DEFAULT)))?,
            limit("below", below.or(Some(AROUND_DEFAULT)))?,
        );
        Ok(Some(Entries(self.around(ctx, member, above, below).await?)))
    }
}

/// Parses a list of members' keys.
///
/// # Errors
/// `LIMIT_EXCEEDED` for more than 1,000 keys; `BAD_USER_INPUT` for an invalid key.
pub(crate) fn member_ids(keys: &[String]) -> crate::error::Result<Vec<MemberId>> {
    if keys.len() > PAGE_MAX {
        return Err(Error::limit_exceeded(format!(
            "{} members requested: expected at most {PAGE_MAX}",
            keys.len()
        )));
    }
    Ok(keys.iter().map(|key| MemberId::new(key)).collect::<ranking::Result<_>>()?)
}
