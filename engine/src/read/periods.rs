//! The periods of a window that have entries, from Redis and SQL.

use std::borrow::Cow;

use entity::error::Result;
use futures::FutureExt;
use ranking::store::periods::ListedPeriod;
use ranking::store::read::{Range, Standings};
use ranking::window::seal::NEVER_MS;

use super::reader::Reader;
use super::sealed;

impl Reader {
    /// Up to `limit` periods that have entries, in Redis or SQL, of the board, segment and window
    /// of `standings`. The period of `standings` does not matter.
    pub async fn periods(
        &self,
        standings: &Standings,
        range: Range,
        limit: usize,
    ) -> Result<Vec<ListedPeriod>> {
        let mut standings = Cow::Borrowed(standings);
        loop {
            match self.merged_periods(&standings, range, limit).await? {
                Ok(periods) => return Ok(periods),
                // SQL has the periods that left Redis a moment ago.
                Err(before_ms) => standings.to_mut().sealed_before_ms = before_ms,
            }
        }
    }

    /// The number of periods that have entries and became the present one before an instant;
    /// otherwise as [`Self::periods`].
    pub async fn count_periods(&self, standings: &Standings, before_ms: i64) -> Result<u64> {
        let mut standings = Cow::Borrowed(standings);
        loop {
            let sealed_before_ms = standings.sealed_before_ms;
            let live = self.read_redis(&standings, |store, standings| {
                let count = async move {
                    store.count_periods(&standings, sealed_before_ms, before_ms).await
                };
                count.boxed()
            });
            let live = match live.await? {
                Ok(live) => live,
                // SQL has the periods that left Redis a moment ago.
                Err(before_ms) => {
                    standings.to_mut().sealed_before_ms = before_ms;
                    continue;
                }
            };
            let sealed = match sealed_before_ms {
                NEVER_MS => 0,
                _ => {
                    let before_ms = before_ms.min(sealed_before_ms);
                    sealed::count_periods(&self.deployment.db, &standings, before_ms).await?
                }
            };
            return Ok(live + sealed);
        }
    }

    /// As [`Self::periods`]. The inner error is the instant before which periods have left Redis,
    /// if that is later than known.
    async fn merged_periods(
        &self,
        standings: &Standings,
        range: Range,
        limit: usize,
    ) -> Result<Result<Vec<ListedPeriod>, i64>> {
        let sealed_before_ms = standings.sealed_before_ms;
        let live = async |range: Range, limit: usize| {
            if limit == 0 {
                return Ok(Ok(vec![]));
            }
            self.read_redis(standings, |store, standings| {
                async move { store.periods(&standings, range, limit).await }.boxed()
            })
            .await
        };
        let sealed = async |range: Range, limit: usize| match sealed_before_ms {
            NEVER_MS => Ok(vec![]),
            _ if limit == 0 => Ok(vec![]),
            _ => {
                let db = &self.deployment.reads;
                sealed::periods(db, standings, range, sealed_before_ms, limit).await
            }
        };
        match range {
            Range::Before(_) => {
                let mut found = match live(range, limit).await? {
                    Ok(found) => found,
                    Err(before_ms) => return Ok(Err(before_ms)),
                };
                // A sealed period may not have left Redis yet.
                found.retain(|listed| listed.present_from_ms >= sealed_before_ms);
                let left = limit - found.len();
                found.extend(sealed(range, left).await?);
                Ok(Ok(found))
            }
            Range::After(after_ms) => {
                let mut found = sealed(range, limit).await?;
                let after_ms = after_ms.max(sealed_before_ms.saturating_sub(1));
                match live(Range::After(after_ms), limit - found.len()).await? {
                    Ok(later) => found.extend(later),
                    Err(before_ms) => return Ok(Err(before_ms)),
                }
                Ok(Ok(found))
            }
        }
    }
}
