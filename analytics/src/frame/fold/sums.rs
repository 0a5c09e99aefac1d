//! Sums of scores: plain ones stay at the end of 64 bits where they would leave them, as those of
//! `ranking`'s fold do, and decaying ones are rounded row by row. Polars' own sums turn over, so a
//! plain score is summed in two halves.

use anyhow::{Context, Result};
use polars::prelude::{Expr, IntoLazy, LazyFrame, SortMultipleOptions, col, lit, when};
use ranking::window::HalfLife;

use super::keys::column;
use crate::frame::counted::in_parts;

/// The weight of a high half.
pub(crate) const HALF: i64 = 1 << 32;

/// The sums of the high and the low halves of scores.
pub(crate) fn halves(score: Expr) -> [Expr; 2] {
    let high = score.clone().floor_div(lit(HALF));
    let low = score - high.clone() * lit(HALF);
    [high.sum(), low.sum()]
}

/// The sum of scores, of its halves in `score` and `low`.
pub(crate) fn saturated() -> Expr {
    let carried = col("low").floor_div(lit(HALF));
    let high = col("score") + carried.clone();
    let low = col("low") - carried * lit(HALF);
    when(high.clone().gt(lit(i64::from(i32::MAX))))
        .then(lit(i64::MAX))
        .when(high.clone().lt(lit(i64::from(i32::MIN))))
        .then(lit(i64::MIN))
        .otherwise(high * lit(HALF) + low)
}

/// The fold of scores that decay: row by row in the order of acceptance, as every other fold adds
/// them, since sums are rounded.
pub(crate) fn decayed(events: LazyFrame, half_life: HalfLife) -> Result<LazyFrame> {
    let order = ["member", "segment", "order"];
    let mut events = in_parts(events.sort(order, SortMultipleOptions::default()))?;
    events.rechunk_mut();
    let number = |name: &str| -> Result<_> { Ok(events.column(name)?.i64()?.clone()) };
    let (score, at_ms) = (number("score")?, number("at_ms")?);
    let (member, segment) = (events.column("member")?.str()?, events.column("segment")?.str()?);
    let mut sums: Vec<i64> = vec![];
    for row in 0..events.height() {
        let (score, at_ms) = score.get(row).zip(at_ms.get(row)).context("a score has no value")?;
        let code = half_life.code(score as f64, at_ms);
        let place = |row: usize| (member.get(row), segment.get(row));
        let before = row.checked_sub(1).filter(|&before| place(before) == place(row));
        sums.push(before.map_or(code, |before| half_life.add(sums[before], code)));
    }
    events.with_column(column("sum", sums))?;
    // The last row of each group has the sum of all its events.
    Ok(events.lazy().group_by_stable([col("member"), col("segment"), col("period")]).agg([
        col("sum").last().alias("score"),
        lit(0_i64).alias("tick"),
        col("seq").max(),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::DataFrame;
    use proptest::prelude::*;

    /// Scores of one sign, near the ends and near 0.
    fn scores() -> impl Strategy<Value = Vec<i64>> {
        let score = prop_oneof![0..9_i64, any::<i64>().prop_map(|score| score & i64::MAX)];
        (proptest::collection::vec(score, 1..9), any::<bool>()).prop_map(|(scores, is_negative)| {
            scores.into_iter().map(|score| if is_negative { -score } else { score }).collect()
        })
    }

    proptest! {
        #[test]
        fn polars_saturates_as_the_fold_does(scores in scores()) {
            let expected = scores.iter().copied().reduce(i64::saturating_add).unwrap();
            let frame = DataFrame::new_infer_height(vec![column("score", scores)]).unwrap();
            let [high, low] = halves(col("score"));
            let sums = frame.lazy().select([high.alias("score"), low.alias("low")]);
            let sums = in_parts(sums.select([saturated().alias("sum")])).unwrap();
            prop_assert_eq!(sums.column("sum").unwrap().i64().unwrap().get(0), Some(expected));
        }
    }
}
