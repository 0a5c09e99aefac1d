//! How scores are spread over a standings.

use async_graphql::SimpleObject;
use ranking::board::Direction;
use ranking::fold::State;
use ranking::rank_key::RankKey;
use ranking::store::read::Standings as Read;

use crate::app::App;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::types::scalar::{Decimal, int};

/// How many buckets there are where it is not said.
pub const BUCKETS_DEFAULT: i32 = 20;

/// The most buckets.
const BUCKETS_MAX: i32 = 1000;

/// How many scores lie in a span.
#[derive(SimpleObject, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The lowest score in it.
    from: Decimal,
    /// The first score that is not in it; in the last bucket, the highest score in it.
    to: Decimal,
    /// How many members have a score in it.
    count: i32,
}

/// The rank, from 1, of the lowest score in the top (100 − percentile) % of `size` entries, by nearest rank.
/// The percentile counts to nine decimals.
///
/// # Errors
/// `BAD_USER_INPUT` unless it is from 0 to 100.
pub(crate) fn rank_of_percentile(percentile: f64, size: u64) -> Result<u64> {
    if !(0.0..=100.0).contains(&percentile) {
        return Err(Error::bad_input(format!("percentile is {percentile}; 0 to 100 is accepted")));
    }
    const SCALE: u128 = 1_000_000_000;
    let top = 100 * SCALE - (percentile * SCALE as f64).round() as u128;
    let rank = (top * u128::from(size)).div_ceil(100 * SCALE).max(1);
    Ok(u64::try_from(rank).unwrap_or(size))
}

/// The spread of a standings in equal buckets from the lowest score to the highest; fewer where there are fewer distinct scores between
/// them; none where it is empty. Three round trips: the ends, then a count a bucket and shard, and the size.
///
/// # Errors
/// `BAD_USER_INPUT`, `LIMIT_EXCEEDED` for a number of buckets that is not accepted; what the store says.
pub(crate) async fn distribution(
    app: &App,
    read: &Read,
    buckets: i32,
    now_ms: i64,
) -> Result<Vec<Bucket>> {
    if buckets < 1 {
        return Err(Error::bad_input(format!(
            "buckets is {buckets}; 1 to {BUCKETS_MAX} is accepted"
        )));
    }
    if buckets > BUCKETS_MAX {
        return Err(Error::new(
            ErrorCode::LimitExceeded,
            format!("buckets is {buckets}; at most {BUCKETS_MAX} is accepted"),
        ));
    }
    let Some((low, high)) = ends(app, read).await? else {
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
    // The entries better than what lies on the worse side of each inner bound.
    let inner = &bounds[1..bounds.len() - 1];
    let keys =
        inner.iter().map(|&(bound, _)| first_key(read, bound)).collect::<Result<Vec<_>>>()?;
    let better = app.counts_below(read, &keys).await?;
    let size = app.size(read).await?;
    let above = |count: &u64| match read.rules.direction {
        Direction::HighFirst => *count,
        Direction::LowFirst => size.saturating_sub(*count),
    };
    // How many have at least the score of each bound.
    let mut at_least = vec![size];
    at_least.extend(better.iter().map(above));
    at_least.push(0);
    let bucket = |(bounds, counts): (&[(i64, Decimal)], &[u64])| {
        Ok(Bucket {
            from: bounds[0].1.clone(),
            to: bounds[1].1.clone(),
            count: int(counts[0].saturating_sub(counts[1]))?,
        })
    };
    bounds.windows(2).zip(at_least.windows(2)).map(bucket).collect()
}

/// The lowest and the highest raw score there are.
async fn ends(app: &App, read: &Read) -> Result<Option<(i64, i64)>> {
    let best = app.forward_from(read, 0, 1).await?;
    let (_, worst) = app.backward(read, None, 1).await?;
    let score = |key: RankKey| read.rules.state(read.id.window, &read.period, key).score;
    let (Some(best), Some(worst)) = (best.first(), worst.first()) else {
        return Ok(None);
    };
    let (a, b) = (score(best.key), score(worst.key));
    Ok(Some((a.min(b), a.max(b))))
}

/// Where buckets begin and the last one ends: whole raw scores, as even as they can be.
fn bounds(low: i64, high: i64, buckets: i128) -> Vec<i64> {
    let span = i128::from(high) - i128::from(low);
    let buckets = buckets.min(span).max(1);
    (0..=buckets).map(|index| low + (span * index / buckets) as i64).collect()
}

/// As [`bounds`], of what decays: one bucket where all have the same.
fn decayed_bounds(low: f64, high: f64, buckets: i32) -> Vec<f64> {
    let buckets = if high > low { buckets } else { 1 };
    (0..=buckets).map(|index| low + (high - low) * f64::from(index) / f64::from(buckets)).collect()
}

/// The key before which lie, of a board with high scores first, all scores of at least `bound`; with low scores first, all lower ones.
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
