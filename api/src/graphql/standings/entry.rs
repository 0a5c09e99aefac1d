//! An entry: a member's score and rank in standings.

use async_graphql::{Context, Enum, ID, Object, Result};
use ranking::board::State;
use ranking::board::TieBreak;
use ranking::id::MemberId;
use ranking::score;

use super::Standings;
use crate::error::{Error, ErrorCode};
use crate::graphql::member::Member;
use crate::graphql::price::{self, LookUp};
use crate::graphql::request::{app, state};
use crate::graphql::sight::is_hidden;
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::{DateTime, Decimal, Json, int};
use crate::loader::{Bound, EntryMaker, Found};

/// How entries with equal scores share ranks.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankMethod {
    /// 1234: every entry has a rank of its own, by the board's tie-break and then by the key of the
    /// member.
    Ordinal,
    /// 1224: equal scores share the rank of the first of them.
    Competition,
    /// 1223: equal scores share a rank, and the next score has the next rank. Counted over at most
    /// 10,000 scores; LIMIT_EXCEEDED for entries below them.
    Dense,
}

/// A member's score and rank in standings.
#[derive(Clone)]
pub struct Entry {
    standings: Standings,
    member: MemberId,
    found: Found,
}

impl Entry {
    pub(crate) fn new(standings: Standings, member: MemberId, found: Found) -> Self {
        Self { standings, member, found }
    }

    /// The most bytes of its id, about.
    fn id_bytes(&self) -> usize {
        self.standings.id_bytes() + 3 * self.member.as_str().len()
    }

    /// The score; if it decays, its worth at an instant.
    pub(crate) fn shown_score(&self, now_ms: i64) -> Decimal {
        let (read, score) = (&self.standings.read, self.state().score);
        Decimal(score::format_in(read.id.window, score, read.rules.decimals, now_ms))
    }

    /// The score in the form of its board.
    pub(crate) fn formatted_score_at(&self, now_ms: i64) -> String {
        self.standings.board.display.format.apply(&self.shown_score(now_ms).0)
    }

    /// The score as a floating-point number; if it decays, its worth at an instant.
    pub(crate) fn shown_value(&self, now_ms: i64) -> f64 {
        let (read, score) = (&self.standings.read, self.state().score);
        let raw = match read.id.window.half_life() {
            Some(half_life) => half_life.value(score, now_ms),
            None => score as f64,
        };
        raw / 10_f64.powi(read.rules.decimals.into())
    }

    /// The time when the score was reached; `None` if ties go by member.
    pub(crate) fn shown_reached_at(&self) -> Option<DateTime> {
        let read = &self.standings.read;
        let rules = &read.rules;
        (rules.ties(read.id.window) != TieBreak::Member)
            .then(|| DateTime(self.state().tick * i64::from(rules.tick_ms)))
    }

    pub(crate) fn ordinal_rank(&self) -> crate::error::Result<i32> {
        int(self.found.position + 1)
    }

    pub(crate) fn member_key(&self) -> &str {
        self.member.as_str()
    }

    /// True if the client does not see the member.
    async fn is_anonymous(&self, ctx: &Context<'_>) -> bool {
        is_hidden(ctx, self.member.as_str()).await
    }

    fn state(&self) -> State {
        let read = &self.standings.read;
        read.rules.state(read.id.window, &read.period, self.found.key)
    }
}

/// A member's score and rank in standings.
#[Object]
impl Entry {
    /// The global id: "entry:<slug>.<number>:<window>:<period>:<segment>:<member>"; without the key
    /// of a member that the client does not see, "anonymousEntry:" and a text in its place.
    pub(crate) async fn id(&self, ctx: &Context<'_>) -> Result<ID> {
        price::pay_text(ctx, self.id_bytes()).await?;
        let name = self.standings.name();
        let id = match self.is_anonymous(ctx).await {
            true => {
                let sealing = app(ctx).visibilities.sealing();
                let sealed = sealing.seal(&self.standings.read.id, &self.member);
                GlobalId::AnonymousEntry(name, sealed)
            }
            false => GlobalId::Entry(name, self.member.to_string()),
        };
        Ok(id.to_text().into())
    }

    /// The standings that have the entry.
    async fn standings(&self) -> Standings {
        self.standings.clone()
    }

    /// The member; null if it has set its visibility so that the client does not see it.
    async fn member(&self, ctx: &Context<'_>) -> Option<Member> {
        let is_anonymous = self.is_anonymous(ctx).await;
        (!is_anonymous).then(|| Member::named(self.member.as_str()))
    }

    /// The rank, from 1.
    async fn rank(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            default_with = "Some(RankMethod::Ordinal)",
            desc = "The rule for entries with equal scores."
        )]
        method: Option<RankMethod>,
    ) -> Result<i32> {
        let read = &self.standings.read;
        let before = match method.unwrap_or(RankMethod::Ordinal) {
            RankMethod::Ordinal => self.found.position,
            RankMethod::Dense => {
                let position = self.found.position;
                let depth = position.checked_ilog2().unwrap_or(0);
                let look_up = LookUp::Dense(&read.id, depth, price::level(ctx));
                let points = price::dense(app(ctx), read, position);
                let is_new = price::pay(state(ctx), look_up, points).await?;
                let bound = Bound { standings: read.clone(), key: Some(self.found.key) };
                let walk = state(ctx).loaders.better_scores(bound);
                let better = match is_new {
                    true => state(ctx).budget.settle(walk).await,
                    false => walk.await,
                };
                // Where entries share scores, a step finds few of these.
                let steps = state(ctx).loaders.take_steps();
                let more = price::dense_steps(app(ctx), read, steps).saturating_sub(points);
                let owed = state(ctx).owe(more).await;
                let better = better?;
                owed?;
                better
            }
            RankMethod::Competition => {
                state(ctx).spend(price::count(read)).await?;
                price::pay_position(ctx, read, self.found.position).await?;
                let first_of_score =
                    read.rules.layout(read.id.window).first_of_score(self.found.key);
                state(ctx)
                    .loaders
                    .count(Bound { standings: read.clone(), key: Some(first_of_score) })
                    .await?
            }
        };
        Ok(int(before + 1)?)
    }

    /// The exact score. In a decaying window, its value at the time of the request, rounded to six
    /// decimals more than the board's.
    async fn score(&self, ctx: &Context<'_>) -> Decimal {
        self.shown_score(state(ctx).now_ms)
    }

    /// The score as the board shows it to people: see `Board.scoreFormat`. It is written in one way
    /// for all languages, with all digits of the exact score.
    async fn formatted_score(&self, ctx: &Context<'_>) -> String {
        self.formatted_score_at(state(ctx).now_ms)
    }

    /// The score as a floating-point number, for charts; it may be rounded.
    async fn value(&self, ctx: &Context<'_>) -> f64 {
        self.shown_value(state(ctx).now_ms)
    }

    /// The time when this score was reached, to the tie-break resolution of the board; null if ties
    /// go by member, as they do in decaying windows.
    async fn reached_at(&self) -> Option<DateTime> {
        self.shown_reached_at()
    }

    /// The metadata of the score that made the entry: with BEST, of the best one, and of equal ones
    /// the earliest; with LATEST, of the latest one; with SUM, of the last one that was added. Null
    /// if that score has none, or the client does not see the member. It needs SQL: UNAVAILABLE
    /// while that does not answer.
    async fn metadata(&self, ctx: &Context<'_>) -> Result<Option<Json>> {
        let Standings { board, read, .. } = &self.standings;
        if !board.board.has_metadata || self.is_anonymous(ctx).await {
            return Ok(None);
        }
        let look_up = LookUp::Metadata(&read.id, &self.member);
        price::pay(state(ctx), look_up, price::metadata()).await?;
        let key = (self.member.clone(), self.found.key);
        let of = EntryMaker { board: board.clone(), standings: read.clone(), key };
        let found = state(ctx).loaders.metadata(of).await?;
        // An answer may have very many, each with a text of its own.
        price::pay_text(ctx, found.as_ref().map_or(0, |text| text.as_str().len())).await?;
        Ok(found.map(Json))
    }

    /// The number of scores that count in the entry: those of its member, period and segment,
    /// without voided and removed ones. A score counts here once SQL has it, mostly within a
    /// second. Null if some of the member's scores in the period are archived. LIMIT_EXCEEDED for a
    /// member with more than 10,000 events on the board.
    async fn scores_counted(&self, ctx: &Context<'_>) -> Result<Option<i32>> {
        let Standings { board, read, .. } = &self.standings;
        let look_up = LookUp::ScoresCounted(&read.id, &self.member);
        let is_new = state(ctx).loaders.is_new(&look_up);
        state(ctx).spend(if is_new { price::scores_counted() } else { price::REPEATED }).await?;
        let key = (self.member.clone(), self.found.key);
        let of = EntryMaker { board: board.clone(), standings: read.clone(), key };
        let counting = state(ctx).loaders.scores_counted(of);
        let counted = match is_new {
            true => state(ctx).budget.settle(counting).await?,
            false => counting.await?,
        };
        if is_new {
            state(ctx).owe(price::passed_events(counted.passed)).await?;
        }
        Ok(counted.number.map(int).transpose()?)
    }

    /// The page cursor of the entry, for `after` and `before` of `top`.
    async fn cursor(&self, ctx: &Context<'_>) -> Result<String> {
        price::pay_text(ctx, self.id_bytes()).await?;
        Ok(self.standings.cursor_of(ctx, self.found.key, &self.member).await.0)
    }

    /// The entry that is ranked one higher, which is the next to overtake; null for the first one.
    async fn next(&self, ctx: &Context<'_>) -> Result<Option<Entry>> {
        let Some(position) = self.found.position.checked_sub(1) else { return Ok(None) };
        Ok(Box::pin(self.standings.entry_of_position(ctx, position)).await?)
    }

    /// The number of ranks gained since the end of the period before (negative: lost); of a rolling
    /// window, since the end of its last hour, day, week or month. Null if the member was not in
    /// the standings then, and in windows without periods.
    async fn change(&self, ctx: &Context<'_>) -> Result<Option<i32>> {
        let Some(before) = self.standings.last_period(app(ctx))? else {
            return Ok(None);
        };
        price::pay_fold(ctx, &before.read).await?;
        let then = before.entry_of(ctx, self.member.clone()).await?;
        let Some(then) = then else { return Ok(None) };
        let places = [then.found.position, self.found.position].map(i64::try_from);
        let [Ok(then), Ok(now)] = places else {
            return Ok(None);
        };
        Ok(Some(i32::try_from(then - now).map_err(|_| {
            Error::new(ErrorCode::Internal, "a rank is larger than GraphQL's Int can hold")
        })?))
    }

    /// The percentage of the other members who rank below: 100 · members below / (size − 1). 100
    /// for an only member.
    async fn percentile(&self, ctx: &Context<'_>) -> Result<f64> {
        let size = self.standings.count(ctx).await?;
        if size <= 1 {
            return Ok(100.0);
        }
        let below = (size - 1).saturating_sub(self.found.position);
        Ok(100.0 * below as f64 / (size - 1) as f64)
    }
}
