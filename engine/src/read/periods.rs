//! The periods of a window that have entries, from Redis and SQL.

use std::borrow::Cow;
use std::sync::Arc;

use entity::error::{Error, Result};
use futures::FutureExt;
use ranking::store::read::{Range, Standings};
use ranking::window::ListedPeriod;
use ranking::window::seal::NEVER_MS;

use super::fallback::OpenPeriods;
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
            let counted = self.read_redis(&standings, |store, standings| {
                let count = async move {
                    store.count_periods(&standings, sealed_before_ms, before_ms).await
                };
                count.boxed()
            });
            let live = match counted.await {
                Ok(live) => live,
                Err(error) => {
                    let open = self.open_periods(error, &standings).await?;
                    let span = sealed_before_ms..before_ms;
                    let is_in = |listed: &&ListedPeriod| span.contains(&listed.present_from_ms);
                    open.map(|open| open.periods.iter().filter(is_in).count() as u64)
                }
            };
            let live = match live {
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
                    sealed::count_periods(&self.deployment.reads, &standings, before_ms).await?
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
                let mut found = match self.live_periods(standings, range, limit).await? {
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
                let range = Range::After(after_ms);
                match self.live_periods(standings, range, limit - found.len()).await? {
                    Ok(later) => found.extend(later),
                    Err(before_ms) => return Ok(Err(before_ms)),
                }
                Ok(Ok(found))
            }
        }
    }

    /// The periods among them that have not left Redis, from SQL if it answers instead.
    async fn live_periods(
        &self,
        standings: &Standings,
        range: Range,
        limit: usize,
    ) -> Result<Result<Vec<ListedPeriod>, i64>> {
        if limit == 0 {
            return Ok(Ok(vec![]));
        }
        let listed = self.read_redis(standings, |store, standings| {
            async move { store.periods(&standings, range, limit).await }.boxed()
        });
        let error = match listed.await {
            Ok(listed) => return Ok(listed),
            Err(error) => error,
        };
        let open = self.open_periods(error, standings).await?;
        Ok(open.map(|open| match range {
            Range::Before(ms) => {
                open.periods.range(..first_at(ms)).rev().take(limit).cloned().collect()
            }
            Range::After(ms) => match ms.checked_add(1) {
                Some(ms) => open.periods.range(first_at(ms)..).take(limit).cloned().collect(),
                None => vec![],
            },
        }))
    }

    /// The open periods of the window and segment of `standings` as SQL has them, if it answers
    /// instead of a Redis that gave this error. The inner error is that of
    /// [`Self::merged_periods`].
    async fn open_periods(
        &self,
        error: Error,
        standings: &Standings,
    ) -> Result<Result<Arc<OpenPeriods>, i64>> {
        let fallback = self.fallback_for(error)?;
        let open = fallback.open_periods(&self.deployment, standings).await?;
        if open.sealed_before_ms > standings.sealed_before_ms {
            return Ok(Err(open.sealed_before_ms));
        }
        Ok(Ok(open))
    }
}

/// The least period that became the present one at an instant.
fn first_at(present_from_ms: i64) -> ListedPeriod {
    ListedPeriod { present_from_ms, label: String::new() }
}
