//! Dense ranks (1223): a walk over distinct scores counts those that are better.

use std::sync::atomic::{AtomicU64, Ordering};

use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::store::read::{RankedEntry, Standings};

use crate::app::App;
use crate::error::{Error, Result};

/// The most distinct scores that a walk counts; entries below them have no dense rank.
pub const DENSE_SCORES_MAX: u64 = 10_000;

/// How many entries a step of the walk reads: few if many share a score, as the step skips the rest
/// of them.
const STEP_ENTRIES: std::ops::RangeInclusive<usize> = 16..=1000;

impl App {
    /// The number of distinct scores that are better than that of each key. One walk from the top
    /// serves all keys. In Redis a step reads 16 to 1,000 entries in two round trips and continues
    /// behind the last score that it saw; in SQL it looks up the next 500 scores. So a score costs
    /// the same however many entries have it, and a step that finds one costs as much as one that
    /// finds a thousand: `steps` counts them.
    ///
    /// # Errors
    /// The error of a read. The result of a key is `LIMIT_EXCEEDED` if [`DENSE_SCORES_MAX`] or more
    /// scores are better.
    pub async fn better_scores(
        &self,
        standings: &Standings,
        keys: &[RankKey],
        steps: &AtomicU64,
    ) -> Result<Vec<Result<u64>>> {
        let layout = standings.rules.layout(standings.id.window);
        let mut asked: Vec<(RankKey, usize)> =
            keys.iter().map(|&key| layout.first_of_score(key)).zip(0..).collect();
        asked.sort_unstable();
        let mut found: Vec<Result<u64>> = vec![Err(too_many()); keys.len()];
        let mut left = asked.into_iter().peekable();
        // The first place of all, as no member sorts before a space.
        let mut from = RankedEntry { key: RankKey::from_i64(0)?, member: MemberId::new(" ")? };
        let (mut scores, mut last, mut step) = (0, None, *STEP_ENTRIES.start());
        while left.peek().is_some() {
            steps.fetch_add(1, Ordering::Relaxed);
            let (fresh, is_end) = self.reader().scores(standings, &from, step).await?;
            for &score in &fresh {
                while let Some((_, index)) = left.next_if(|(key, _)| *key <= score) {
                    found[index] = Ok(scores);
                }
                (scores, last) = (scores + 1, Some(score));
                if scores == DENSE_SCORES_MAX {
                    break;
                }
            }
            if scores == DENSE_SCORES_MAX {
                break;
            }
            let behind = last.and_then(|score| layout.next_score(score));
            let Some(key) = behind.filter(|_| !is_end) else {
                // Nothing lies behind: the entries of the remaining keys have just left.
                for (_, index) in left.by_ref() {
                    found[index] = Ok(scores);
                }
                break;
            };
            from.key = key;
            step = (2 * fresh.len()).clamp(*STEP_ENTRIES.start(), *STEP_ENTRIES.end());
        }
        Ok(found)
    }
}

fn too_many() -> Error {
    Error::limit_exceeded(format!(
        "{DENSE_SCORES_MAX} or more scores are better: dense ranks are counted below that number; ORDINAL and COMPETITION are counted for all entries"
    ))
}
