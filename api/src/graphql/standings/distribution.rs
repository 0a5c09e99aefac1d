//! The distribution of scores in standings.

use async_graphql::{Context, SimpleObject};
use ranking::board::Direction;
use ranking::board::State;
use ranking::score::rank_key::RankKey;
use ranking::store::read::Standings as Read;

use super::Standings;
use crate::error::{Error, Result};
use crate::graphql::price::{self, LookUp};
use crate::graphql::request::state;
use crate::graphql::types::scalar::{Decimal, int};

/// The default number of buckets.
pub const BUCKETS_DEFAULT: i32 = 20;

/// The most buckets.
const BUCKETS_MAX: i32 = 1000;

/// The number of scores in a span.
#[derive(SimpleObject, Debug, PartialEq, Eq)]
pub struct ScoreBucket {
    /// The lowest score of the span.
    lower: Decimal,
    /// The first score beyond the span; for the last bucket, its highest score.
    upper: Decimal,
    /// The number of members with a score in the span.
    count: i32,
}

/// The rank, from 1, of the lowest score in the top (100 − percentile) % of `size` entries, by
/// nearest rank. The percentile is rounded to nine decimals.
///
/// # Errors
/// `BAD_USER_INPUT` unless it is from 0 to 100.
pub(crate) fn rank_of_percentile(percentile: f64, size: u64) -> Result<u64> {
    if !(0.0..=100.0).contains(&percentile) {
        return Err(Error::bad_input(format!(
            "invalid percentile {percentile}: expected 0 to 100"
        ))
        .at("percentile"));
    }
    const SCALE: u128 = 1_000_000_000;
    let top = 100 * SCALE - (percentile * SCALE as f64).round() as u128;
    let rank = (top * u128::from(size)).div_ceil(100 * SCALE).max(1);
    Ok(u64::try_from(rank).unwrap_or(size))
}

/// The distribution in equal buckets from the lowest score to the highest. There are fewer buckets
/// if there are fewer distinct scores between the two ends, and none if there are no entries.
///
/// In Redis it takes five round trips: one for the size, one for the first entry, two for the last,
/// and one for a count per inner bound and shard.
///
/// # Errors
/// `BAD_USER_INPUT` for fewer than 1 bucket, `LIMIT_EXCEEDED` for more than 1,000.
pub(crate) async fn distribution(
    ctx: &Context<'_>,
    standings: &Standings,
    buckets: i32,
) -> Result<Vec<ScoreBucket>> {
    let (read, now_ms) = (&standings.read, state(ctx).now_ms);
    if buckets < 1 {
        return Err(Error::bad_input(format!(
            "invalid buckets {buckets}: expected 1 to {BUCKETS_MAX}"
        ))
        .at("buckets"));
    }
    if buckets > BUCKETS_MAX {
        return Err(Error::limit_exceeded(format!(
            "invalid buckets {buckets}: expected at most {BUCKETS_MAX}"
        ))
        .at("buckets"));
    }
    let price = price::distribution(read, u64::from(buckets.unsigned_abs()));
    price::pay(state(ctx), LookUp::Distribution(&read.id, buckets), price).await?;
    let size = standings.count(ctx).await?;
    let Some((low, high)) = ends(ctx, standings, size).await? else {
        return Ok(vec![]);
    };
    let decimals = read.rules.decimals;
    let bounds: Vec<(i64, Decimal)> = match read.id.window.half_life() {
        Some(half_life) => {
            let [low, high] = [low, high].map(|code| half_life.value(code, now_ms));
            let decayed = |value: f64| {
                let code = half_life.code(value, now_ms);
                (code, Decimal::decayed(value, decimals))
            };
            let bounds = decayed_bounds(low, high, buckets);
            bounds.into_iter().map(decayed).collect()
        }
        None => {
            let bounds = bounds(low, high, i128::from(buckets)).into_iter();
            let exact = |score| (score, Decimal::of(score, decimals));
            bounds.map(exact).collect()
        }
    };
    // For each inner bound, the number of entries on its better side.
    let inner = &bounds[1..bounds.len() - 1];
    let keys =
        inner.iter().map(|&(bound, _)| first_key(read, bound)).collect::<Result<Vec<_>>>()?;
    let counting = state(ctx).loaders.counts(read, &keys);
    let most = |counts: &Vec<u64>| counts.iter().copied().max().unwrap_or(0);
    let better = price::counted(ctx, read, counting, most).await?;
    let above = |count: &u64| match read.rules.direction {
        Direction::HighFirst => *count,
        Direction::LowFirst => size.saturating_sub(*count),
    };
    // For each bound, the number of entries with at least that score.
    let mut at_least = vec![size];
    at_least.extend(better.iter().map(above));
    at_least.push(0);
    let bucket = |(bounds, counts): (&[(i64, Decimal)], &[u64])| {
        Ok(ScoreBucket {
            lower: bounds[0].1.clone(),
            upper: bounds[1].1.clone(),
            count: int(counts[0].saturating_sub(counts[1]))?,
        })
    };
    bounds.windows(2).zip(at_least.windows(2)).map(bucket).collect()
}

/// The lowest and the highest raw score of `size` entries; `None` if there are no entries.
async fn ends(ctx: &Context<'_>, standings: &Standings, size: u64) -> Result<Option<(i64, i64)>> {
    let read = &standings.read;
    let (best, worst) =
        tokio::try_join!(standings.page_at(ctx, 0, 1), standings.page_at(ctx, size.max(1) - 1, 1))?;
    let score = |key: RankKey| read.rules.state(read.id.window, &read.period, key).score;
    let Some(best) = best.0.first() else {
        return Ok(None);
    };
    // The last one may have left since it was counted.
    let worst = worst.0.first().unwrap_or(best);
    let (a, b) = (score(best.key), score(worst.key));
    Ok(Some((a.min(b), a.max(b))))
}

/// The bounds of the buckets: whole raw scores, as even as possible.
fn bounds(low: i64, high: i64, buckets: i128) -> Vec<i64> {
    let span = i128::from(high) - i128::from(low);
    let buckets = buckets.min(span).max(1);
    (0..=buckets).map(|index| low + (span * index / buckets) as i64).collect()
}

/// As [`bounds`], for scores that decay; a single bucket if all entries have the same score.
fn decayed_bounds(low: f64, high: f64, buckets: i32) -> Vec<f64> {
    let buckets = if high > low { buckets } else { 1 };
    (0..=buckets).map(|index| low + (high - low) * f64::from(index) / f64::from(buckets)).collect()
}

/// The key that splits the entries at `bound`. Before it lie all scores of at least `bound` if high
/// scores rank first, and all lower scores if low ones do.
fn first_key(read: &Read, bound: i64) -> Result<RankKey> {
    let score = match read.rules.direction {
        Direction::HighFirst => bound - 1,
        Direction::LowFirst => bound,
    };
    let state = State { score, tick: read.rules.first_tick(&read.period) };
    let key = read.rules.key(read.id.window, &read.period, state)?;
    Ok(read.rules.layout(read.id.window).first_of_score(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank_is_exact() {
        let rank = |percentile, size| rank_of_percentile(percentile, size).unwrap();
        for (percentile, size, expected) in [
            (0.0, 7, 7),
            (100.0, 7, 1),
            (90.0, 10, 1),
            (90.0, 11, 2),
            (33.3, 1000, 667),
            (99.9, 1000, 1),
            (99.9, 1001, 2),
            (50.0, 4, 2),
            (50.0, 5, 3),
        ] {
            assert_eq!(rank(percentile, size), expected, "{percentile} of {size}");
        }
        for bad in [-0.1, 100.1, f64::NAN, f64::INFINITY] {
            assert!(rank_of_percentile(bad, 5).is_err(), "{bad}");
        }
    }

    #[test]
    fn buckets_are_even_and_none_is_empty_of_scores() {
        assert_eq!(bounds(0, 100, 4), [0, 25, 50, 75, 100]);
        assert_eq!(bounds(-3, 7, 3), [-3, 0, 3, 7]);
        assert_eq!(bounds(5, 7, 20), [5, 6, 7]);
        assert_eq!(bounds(5, 5, 20), [5, 5]);
        let huge = 1 << 53;
        assert_eq!(bounds(-huge, huge, 2), [-huge, 0, huge]);
    }
}
