//! Standings: all entries of a board in one segment and one period of one window.

pub mod attempts;
pub mod choice;
pub(crate) mod cursor;
pub(crate) mod dense;
pub mod distribution;
pub mod entries;
pub mod entry;
pub(crate) mod entry_page;
pub mod period;
pub(crate) mod score_range;
pub mod source;

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings as Read;

use super::board::Board;
use super::board::window::BoardWindow;
use super::guard::Needs;
use super::member::friend::{FriendEntry, FriendTotal, FriendsPage, friends_page};
use super::price;
use super::request::state;
use super::sight::is_hidden;
use super::standings::attempts::Attempts;
use super::standings::distribution::{
    BUCKETS_DEFAULT, ScoreBucket, distribution, rank_of_percentile,
};
use super::standings::entries::{Entries, EntryConnection};
use super::standings::entry::Entry;
use super::standings::period::Period;
use super::standings::source::{StandingsSource, source_of};
use super::types::connection::{Connection, PAGE_MAX, Page, limit};
use super::types::global_id::{BoardName, GlobalId, StandingsName};
use super::types::scalar::{DateTime, Decimal, int};
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::loader::Found;

pub(crate) use choice::{Choice, StandingsOf};

/// The default number of neighbors on each side.
const AROUND_DEFAULT: i32 = 5;

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
            board: BoardName::of(&self.board),
            window: id.window.to_string(),
            period: id.period.clone(),
            segment: id.segment.clone(),
        }
    }

    /// The most bytes of its id, about: a byte of a slug or a segment may be three there.
    pub(crate) fn id_bytes(&self) -> usize {
        3 * (self.board.row.slug.len() + self.read.id.segment.len())
    }
}

/// All entries of a board in one segment and one period of one window.
#[Object]
impl Standings {
    /// The global id: "standings:<slug>.<number>:<window>:<period>:<segment>".
    pub(crate) async fn id(&self, ctx: &Context<'_>) -> Result<ID> {
        price::pay_text(ctx, self.id_bytes()).await?;
        Ok(GlobalId::Standings(self.name()).to_text().into())
    }

    /// The board.
    async fn board(&self) -> Board {
        Board(self.board.clone())
    }

    /// The window.
    async fn window(&self) -> BoardWindow {
        BoardWindow::new(&self.board, self.read.id.window)
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
    async fn source(&self, ctx: &Context<'_>) -> StandingsSource {
        source_of(ctx, &self.read).await.0
    }

    /// The instant up to which the answers include every score, approximately: the time of the
    /// request if they come from Redis, otherwise the time up to which SQL is complete. Null if the
    /// server has not seen Redis since it started.
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
    #[expect(clippy::too_many_arguments, reason = "each is an argument of the field")]
    async fn top(
        &self,
        ctx: &Context<'_>,
        #[graphql(default = 10, desc = "The number of items from the front, at most 1,000.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the back, at most 1,000; instead of `first`.")]
        last: Option<i32>,
        #[graphql(desc = "Only items before this page cursor.")] before: Option<String>,
        #[graphql(desc = "The number of entries to skip from the front; goes with `first` only.")]
        offset: Option<i32>,
        #[graphql(desc = "Only entries with at least this score; not in decaying windows.")]
        min_score: Option<Decimal>,
        #[graphql(desc = "Only entries with at most this score; not in decaying windows.")]
        max_score: Option<Decimal>,
    ) -> Result<Option<EntryConnection>> {
        let offset = offset
            .map(|offset| {
                u64::try_from(offset).map_err(|_| {
                    Error::bad_input(format!("invalid offset {offset}: expected 0 or more"))
                        .at("offset")
                })
            })
            .transpose()?;
        let page = Page::new(first, after, last, before)?;
        if offset.is_some() && !matches!(page, Page::Forward { after: None, .. }) {
            return Err(Error::bad_input(
                "invalid offset: expected it with first only, not with a cursor or last",
            )
            .at("offset")
            .into());
        }
        let range = self.score_range(min_score.as_ref(), max_score.as_ref())?;
        if range.is_all() && min_score.is_none() && max_score.is_none() {
            return Ok(Some(Box::pin(self.page(ctx, page, offset)).await?));
        }
        if offset.is_some() {
            let message = "invalid offset: expected none beside minScore or maxScore";
            return Err(Error::bad_input(message).at("offset").into());
        }
        Ok(Some(Box::pin(self.page_of_scores(ctx, page, range)).await?))
    }

    /// A member's entry; null if the member is not in these standings.
    async fn entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member's key.")] member: String,
    ) -> Result<Option<Entry>> {
        Ok(self.seen_entry_of(ctx, member_id("member", &member)?).await?)
    }

    /// A member's attempts in the period, whatever the segment; null if the window has no
    /// `attemptsMax`.
    async fn attempts(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member's key.")] member: String,
    ) -> Result<Option<Attempts>> {
        Ok(self.attempts_of(ctx, member_id("member", &member)?).await?)
    }

    /// The entries of members, at most 1,000, in the order of `members`; null for members that are
    /// not in these standings.
    #[graphql(name = "entries")]
    async fn entries_of(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The members' keys.")] members: Vec<String>,
    ) -> Result<Option<Vec<Option<Entry>>>> {
        let members = member_ids("members", &members)?;
        state(ctx).spend(price::entries(&self.read, members.len())).await?;
        let seen = async {
            let mut found = state(ctx).loaders.entries(&self.read, &members).await?;
            for (found, member) in found.iter_mut().zip(&members) {
                if found.is_some() && is_hidden(ctx, member.as_str()).await {
                    *found = None;
                }
            }
            Ok(found)
        };
        let deepest = |found: &Vec<Option<Found>>| {
            found.iter().flatten().map(|found| found.position).max().unwrap_or(0)
        };
        let found = price::counted(ctx, &self.read, Box::pin(seen), deepest).await?;
        let entry = |(found, member): (Option<Found>, MemberId)| {
            found.map(|found| Entry::new(self.clone(), member, found))
        };
        Ok(Some(found.into_iter().zip(members).map(entry).collect()))
    }

    /// The entries of a member's friends, in rank order, with their positions among the friends and
    /// their ranks among all members. A page cursor continues in its own period. For the
    /// member's own token and services of scope friends, unless `LAUREL_MEMBERS` is public.
    #[expect(clippy::too_many_arguments, reason = "each is an argument of the field")]
    #[graphql(guard = "Needs::FriendsOf(&member)")]
    async fn friends(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The member's key.")] member: String,
        #[graphql(default = 10, desc = "The number of items, at most 1,000.")] first: Option<i32>,
        #[graphql(desc = "Only items after this page cursor.")] after: Option<String>,
        #[graphql(
            default_with = "Some(false)",
            desc = "True for the page around the member, instead of `after`: as many friends above it as below, and more on one side near the end of the other. The last page if the member has no entry."
        )]
        around: Option<bool>,
        #[graphql(default_with = "Some(true)", desc = "True to include the member itself.")]
        include_self: Option<bool>,
        #[graphql(
            default_with = "Some(false)",
            desc = "True to list friends without an entry too, after the others, ordered by key."
        )]
        include_missing: Option<bool>,
    ) -> Result<Option<Connection<FriendEntry, FriendTotal>>> {
        let page = FriendsPage {
            first,
            after,
            around: around.unwrap_or(false),
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
        let position = u64::try_from(i64::from(rank) - 1).map_err(|_| no_rank(rank))?;
        Ok(self.entry_of_position(ctx, position).await?)
    }

    /// The rank (ordinal, from 1) that an entry with a score would have if its member reached it
    /// now: "your run would be 42nd". An equal score is ranked by the board's tie-break; where ties
    /// go by member, the rank is that of the first of them.
    async fn rank_of(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The score.")] score: Decimal,
    ) -> Result<Option<i32>> {
        Ok(Some(int(Box::pin(self.rank_of_score(ctx, &score)).await?)?))
    }

    /// The score that a place needs: that of the entry with a rank, or the lowest score in the top
    /// (100 − percentile) %, by nearest rank. Null if there is no such entry.
    async fn score_for(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "0 to 100, rounded to nine decimals; or else `rank`.")] percentile: Option<
            f64,
        >,
        #[graphql(desc = "The rank, from 1; or else `percentile`.")] rank: Option<i32>,
    ) -> Result<Option<Decimal>> {
        let position = match (percentile, rank) {
            (Some(percentile), None) => rank_of_percentile(percentile, self.count(ctx).await?)? - 1,
            (None, Some(rank)) => u64::try_from(i64::from(rank) - 1).map_err(|_| no_rank(rank))?,
            _ => {
                let message = "invalid percentile or rank: expected one of them";
                return Err(Error::bad_input(message).at("rank").into());
            }
        };
        let entry = self.entry_of_position(ctx, position).await?;
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
    ) -> Result<Option<Vec<ScoreBucket>>> {
        let buckets = buckets.unwrap_or(BUCKETS_DEFAULT);
        Ok(Some(Box::pin(distribution(ctx, self, buckets)).await?))
    }

    /// The entries around a member, its own included, in rank order; empty if the member is not in
    /// these standings. `Entry.cursor` of the first and the last one leads on to pages of `top`.
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
        #[graphql(
            default_with = "Some(false)",
            desc = "True for more entries of the other side where one side has too few."
        )]
        fill: Option<bool>,
    ) -> Result<Option<Entries>> {
        let member = member_id("member", &member)?;
        let (above, below) = (
            limit("above", above.or(Some(AROUND_DEFAULT)))?,
            limit("below", below.or(Some(AROUND_DEFAULT)))?,
        );
        let around = match fill {
            Some(true) => Box::pin(self.around_filled(ctx, member, above, below)).await?,
            _ => self.around(ctx, member, above, below).await?,
        };
        Ok(Some(Entries(around)))
    }
}

fn no_rank(rank: i32) -> Error {
    Error::bad_input(format!("invalid rank {rank}: expected 1 or more")).at("rank")
}

/// Parses a member's key in an argument.
///
/// # Errors
/// `BAD_USER_INPUT` if it is not one.
pub(crate) fn member_id(argument: &str, key: &str) -> crate::error::Result<MemberId> {
    MemberId::new(key).map_err(|error| Error::from(error).at(argument))
}

/// Parses a list of members' keys in an argument.
///
/// # Errors
/// `LIMIT_EXCEEDED` for more than 1,000 keys; `BAD_USER_INPUT` for an invalid key.
pub(crate) fn member_ids(argument: &str, keys: &[String]) -> crate::error::Result<Vec<MemberId>> {
    if keys.len() > PAGE_MAX {
        return Err(Error::limit_exceeded(format!(
            "{} members requested: expected at most {PAGE_MAX}",
            keys.len()
        ))
        .at(argument));
    }
    let numbered = keys.iter().enumerate();
    numbered.map(|(index, key)| member_id(&format!("{argument}[{index}]"), key)).collect()
}
