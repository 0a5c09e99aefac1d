//! Scores as places in standings: the entries of a range of scores, and the rank that a score would
//! have.

use async_graphql::Context;
use ranking::board::{Direction, State};
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::store::read::RankedEntry;

use super::Standings;
use super::cursor::Side;
use super::entries::EntryConnection;
use super::entry_page::whole;
use crate::error::{Error, Result};
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::types::connection::Page;
use crate::graphql::types::scalar::Decimal;

/// A range of scores, as keys: the first one in it, and the first one behind it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScoreRange {
    /// `None` without a bound.
    pub(crate) from: Option<RankKey>,
    /// `None` without a bound.
    pub(crate) behind: Option<RankKey>,
}

impl ScoreRange {
    /// True without a bound.
    pub(crate) fn is_all(self) -> bool {
        self.from.is_none() && self.behind.is_none()
    }
}

impl Standings {
    /// The range of the scores from a lowest to a highest one.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` in a decaying window or if the lowest one is above the highest;
    /// `SCORE_OUT_OF_RANGE` for a score that no entry can have.
    pub(crate) fn score_range(
        &self,
        min: Option<&Decimal>,
        max: Option<&Decimal>,
    ) -> Result<ScoreRange> {
        if min.is_none() && max.is_none() {
            return Ok(ScoreRange::default());
        }
        let (window, rules) = (self.read.id.window, &self.read.rules);
        if window.half_life().is_some() {
            let message = format!("scores decay in window {window}: expected no score range");
            return Err(Error::bad_input(message));
        }
        let raw = |score: Option<&Decimal>, argument: &str| {
            let parsed = score.map(|score| ranking::score::parse(&score.0, rules.decimals));
            parsed.transpose().map_err(|error| Error::from(error).at(argument))
        };
        let (min, max) = (raw(min, "minScore")?, raw(max, "maxScore")?);
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            return Err(
                Error::bad_input("invalid minScore: expected at most maxScore").at("minScore")
            );
        }
        let key = |score: Option<i64>, argument: &str| {
            let state = |score| State { score, tick: rules.first_tick(&self.read.period) };
            let key = score.map(|score| rules.key(window, &self.read.period, state(score)));
            key.transpose().map_err(|error| Error::from(error).at(argument))
        };
        let (min, max) = (key(min, "minScore")?, key(max, "maxScore")?);
        let (best, worst) = match rules.direction {
            Direction::HighFirst => (max, min),
            Direction::LowFirst => (min, max),
        };
        let layout = rules.layout(window);
        Ok(ScoreRange {
            from: best.map(|key| layout.first_of_score(key)),
            behind: worst.and_then(|key| layout.next_score(key)),
        })
    }

    /// A page of the entries of a range of scores.
    pub(crate) async fn page_of_scores(
        &self,
        ctx: &Context<'_>,
        page: Page,
        range: ScoreRange,
    ) -> Result<EntryConnection> {
        let _reading = state(ctx).loaders.reading();
        let place = |key: RankKey| -> Result<RankedEntry> {
            // No member sorts before a space.
            Ok(RankedEntry { key, member: MemberId::new(" ")? })
        };
        let is_inside = |entry: &RankedEntry| {
            range.from.is_none_or(|from| entry.key >= from)
                && range.behind.is_none_or(|behind| entry.key < behind)
        };
        let (Page::Forward { limit, .. } | Page::Backward { limit, .. }) = &page;
        let limit = *limit;
        state(ctx).spend(price::page(app(ctx), &self.read, limit)).await?;
        let reader = app(ctx).reader();
        match page {
            Page::Forward { after, .. } => {
                let (list, after) = self.resume(ctx, after.as_deref(), Side::After).await?;
                let front = place(range.from.map_or(RankKey::from_i64(0), Ok)?)?;
                let start = after.clone().filter(|after| *after > front).unwrap_or(front);
                let page = reader.forward(&list.read, &start, limit + 2);
                let page = state(ctx).loaders.read(page);
                let scanned = price::scanned(ctx, &list.read, page, |page| page.0);
                let (mut position, mut entries) = scanned.await?;
                if after.is_some() && entries.first() == after.as_ref() {
                    entries.remove(0);
                    position += 1;
                }
                entries.retain(is_inside);
                let has_next = entries.len() > limit;
                entries.truncate(limit);
                let page = whole(entries);
                Ok(list.connection(page, position, after.is_some(), has_next).within(range))
            }
            Page::Backward { before, .. } => {
                let (list, before) = self.resume(ctx, before.as_deref(), Side::Before).await?;
                let end = range.behind.map(place).transpose()?;
                let given = before.is_some();
                let end = match (before, end) {
                    (Some(before), Some(end)) => Some(before.min(end)),
                    (before, end) => before.or(end),
                };
                let page = reader.backward(&list.read, end.as_ref(), limit + 1);
                let page = state(ctx).loaders.read(page);
                let (end, mut entries) =
                    price::scanned(ctx, &list.read, page, |page| page.0).await?;
                entries.retain(is_inside);
                let has_previous = entries.len() > limit;
                let entries = entries.split_off(entries.len().saturating_sub(limit));
                let position = end.saturating_sub(entries.len() as u64);
                Ok(list.connection(whole(entries), position, has_previous, given).within(range))
            }
        }
    }

    /// The number of entries of a range of scores.
    pub(crate) async fn count_of_scores(
        &self,
        ctx: &Context<'_>,
        range: ScoreRange,
    ) -> Result<u64> {
        let bounds: Vec<RankKey> = [range.from, range.behind].into_iter().flatten().collect();
        state(ctx).spend(price::count(&self.read) * bounds.len() as u64).await?;
        let counts = state(ctx).loaders.counts(&self.read, &bounds);
        let last = |counts: &Vec<u64>| counts.iter().max().copied().unwrap_or(0);
        let mut counts = price::counted(ctx, &self.read, counts, last).await?.into_iter();
        let before = if range.from.is_some() { counts.next() } else { Some(0) };
        let end = match (range.behind, counts.next()) {
            (Some(_), Some(end)) => end,
            _ => self.count(ctx).await?,
        };
        Ok(end.saturating_sub(before.unwrap_or(0)))
    }

    /// The rank that an entry with a score would have if its member reached it now.
    pub(crate) async fn rank_of_score(&self, ctx: &Context<'_>, score: &Decimal) -> Result<u64> {
        let (read, now_ms) = (&self.read, state(ctx).now_ms);
        let rules = &read.rules;
        let of_score = |error: ranking::Error| Error::from(error).at("score");
        let raw = ranking::score::parse(&score.0, rules.decimals).map_err(of_score)?;
        let last_ms = read.period.end_ms.map_or(now_ms, |end_ms| now_ms.min(end_ms - 1));
        let tick = rules.tick(last_ms.max(read.period.start_ms));
        let score = match read.id.window.half_life() {
            Some(half_life) => half_life.code(raw as f64, now_ms),
            None => raw,
        };
        let key = rules.key(read.id.window, &read.period, State { score, tick });
        state(ctx).spend(price::count(read)).await?;
        let key = [key.map_err(of_score)?];
        let first = |better: &Vec<u64>| better.first().copied().unwrap_or(0);
        let better =
            price::counted(ctx, read, state(ctx).loaders.counts(read, &key), first).await?;
        Ok(first(&better) + 1)
    }
}
