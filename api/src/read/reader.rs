//! Reads of standings wherever they are: in Redis, or in SQL once their period is sealed.
//!
//! A process may know a board as it was a moment ago. If a period has left Redis, Redis says so;
//! then SQL has all of it.

use std::borrow::Cow;
use std::sync::Arc;

use engine::read::sealed;
use futures::FutureExt;
use futures::future::BoxFuture;
use ranking::id::MemberId;
use ranking::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::Store;
use ranking::store::periods::{ListedPeriod, Range};
use ranking::store::read::merge::Start;
use ranking::store::read::{RankedEntry, Standings};
use tokio::time::{Duration, Instant, sleep};

use crate::app::{App, ReadError};
use crate::cache::shared::SharedCache;
use crate::error::Result;
use crate::metrics::METRICS;

/// The most entries from the front that are cached as pages: the longest page, and two more that
/// say what comes after it.
const HOT_ENTRIES_MAX: u64 = 1002;

/// How long a read waits for the move of a board to another number of shards.
const MOVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a waiting read checks the move.
const MOVE_INTERVAL: Duration = Duration::from_millis(10);

/// The cache of first pages of standings. Only requests that wait for a read that fails get its
/// error.
pub type PageCache = SharedCache<PageName, Result<Arc<[RankedEntry]>>>;

/// The name of a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageName {
    standings: StandingsId,
    position: u64,
    limit: usize,
}

/// The approximate memory that a page takes, in bytes.
pub fn page_bytes(name: &PageName, page: &Result<Arc<[RankedEntry]>>) -> usize {
    let entry = |placed: &RankedEntry| size_of::<RankedEntry>() + placed.member.as_str().len() + 32;
    let entries = page.iter().flat_map(|page| page.iter());
    let name = name.standings.segment.len() + name.standings.period.len();
    entries.map(entry).sum::<usize>() + name + 256
}

impl App {
    /// The number of entries.
    pub async fn size(&self, standings: &Standings) -> Result<u64> {
        let live = self.live(standings, |store, standings| {
            async move { store.size(&standings).await }.boxed()
        });
        if let Some(size) = live.await? {
            return Ok(size);
        }
        match sealed::find(&self.deployment.db, standings).await? {
            Some(archived) => Ok(archived.size().await?),
            None => Ok(0),
        }
    }

    /// The keys of members, in the order of `members`.
    pub async fn rank_keys(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<RankKey>>> {
        let live = self.live(standings, |store, standings| {
            async move { store.rank_keys(&standings, members).await }.boxed()
        });
        if let Some(keys) = live.await? {
            return Ok(keys);
        }
        match sealed::find(&self.deployment.db, standings).await? {
            Some(archived) => Ok(archived.rank_keys(members).await?),
            None => Ok(vec![None; members.len()]),
        }
    }

    /// The positions of entries; `None` for an entry that has left since.
    pub async fn positions(
        &self,
        standings: &Standings,
        entries: &[RankedEntry],
    ) -> Result<Vec<Option<u64>>> {
        let live = self.live(standings, |store, standings| {
            async move { store.positions(&standings, entries).await }.boxed()
        });
        if let Some(positions) = live.await? {
            return Ok(positions);
        }
        match sealed::find(&self.deployment.db, standings).await? {
            Some(archived) => {
                let positions = archived.positions(entries).await?;
                Ok(positions.into_iter().map(Some).collect())
            }
            None => Ok(vec![None; entries.len()]),
        }
    }

    /// The entries and positions of members, in the order of `members`; `None` for members without
    /// an entry.
    pub async fn find(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<(RankedEntry, u64)>>> {
        let live = self.live(standings, |store, standings| {
            async move { store.find(&standings, members).await }.boxed()
        });
        if let Some(found) = live.await? {
            return Ok(found);
        }
        let Some(archived) = sealed::find(&self.deployment.db, standings).await? else {
            return Ok(vec![None; members.len()]);
        };
        let keys = archived.rank_keys(members).await?.into_iter().zip(members);
        let entries: Vec<Option<RankedEntry>> = keys
            .map(|(key, member)| {
                let member = member.clone();
                key.map(|key| RankedEntry { key, member })
            })
            .collect();
        let there: Vec<RankedEntry> = entries.iter().flatten().cloned().collect();
        let mut positions = archived.positions(&there).await?.into_iter();
        let found = entries.into_iter().map(|entry| {
            let entry = entry?;
            Some((entry, positions.next()?))
        });
        Ok(found.collect())
    }

    /// For each key, the number of entries with a smaller one.
    pub async fn counts_below(&self, standings: &Standings, keys: &[RankKey]) -> Result<Vec<u64>> {
        let live = self.live(standings, |store, standings| {
            async move { store.counts_below(&standings, keys).await }.boxed()
        });
        if let Some(counts) = live.await? {
            return Ok(counts);
        }
        match sealed::find(&self.deployment.db, standings).await? {
            Some(archived) => Ok(archived.counts_below(keys).await?),
            None => Ok(vec![0; keys.len()]),
        }
    }

    /// Up to `limit` entries from a place on, the entry of the place included, and the position of
    /// the first.
    pub async fn forward(
        &self,
        standings: &Standings,
        from: &RankedEntry,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        let live = self.live(standings, |store, standings| {
            async move {
                let start = Start::Place(from.clone());
                store.forward(&standings, &start, limit).await
            }
            .boxed()
        });
        if let Some(page) = live.await? {
            return Ok(page);
        }
        match sealed::find(&self.deployment.db, standings).await? {
            Some(archived) => Ok(archived.forward(from, limit).await?),
            None => Ok((0, vec![])),
        }
    }

    /// Up to `limit` entries from a position on.
    pub async fn forward_from(
        &self,
        standings: &Standings,
        position: u64,
        limit: usize,
    ) -> Result<Vec<RankedEntry>> {
        let live = self.live(standings, |store, standings| {
            async move {
                let split = store.split_at_position(&standings, position).await?;
                let start = Start::Split(split);
                Ok(store.forward(&standings, &start, limit).await?.1)
            }
            .boxed()
        });
        if let Some(page) = live.await? {
            return Ok(page);
        }
        match sealed::find(&self.deployment.db, standings).await? {
            Some(archived) => Ok(archived.forward_from(position, limit).await?),
            None => Ok(vec![]),
        }
    }

    /// As [`Self::forward_from`], for the first entries with the page cache in front; and the
    /// instant until which the page is good.
    pub async fn page_from(
        &self,
        standings: &Standings,
        position: u64,
        limit: usize,
    ) -> Result<(Arc<[RankedEntry]>, Instant)> {
        let read = async {
            let began = Instant::now();
            match self.forward_from(standings, position, limit).await {
                Ok(entries) => (Ok(entries.into()), began + self.cache_age),
                Err(error) => (Err(error), began),
            }
        };
        if position.saturating_add(limit as u64) > HOT_ENTRIES_MAX {
            let (page, good_until) = read.await;
            return Ok((page?, good_until));
        }
        let name = PageName { standings: standings.id.clone(), position, limit };
        let fetched = self.pages.find(&name, read).await;
        METRICS.pages.count(!fetched.is_own);
        Ok((fetched.value?, fetched.good_until))
    }

    /// Up to `limit` entries before a place, or the last ones, in rank order; and the position of
    /// the place.
    pub async fn backward(
        &self,
        standings: &Standings,
        before: Option<&RankedEntry>,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        let live = self.live(standings, |store, standings| {
            async move {
                let start = match before {
                    Some(place) => Start::Place(place.clone()),
                    None => Start::Split(store.end(&standings).await?),
                };
                store.backward(&standings, &start, limit).await
            }
            .boxed()
        });
        if let Some(page) = live.await? {
            return Ok(page);
        }
        match sealed::find(&self.deployment.db, standings).await? {
            Some(archived) => Ok(archived.backward(before, limit).await?),
            None => Ok((0, vec![])),
        }
    }

    /// The entries around a member, its own included, and the position of the first; `None` if the
    /// member has no entry.
    pub async fn neighbors(
        &self,
        standings: &Standings,
        member: &MemberId,
        above: usize,
        below: usize,
    ) -> Result<Option<(u64, Vec<RankedEntry>)>> {
        let live = self.live(standings, |store, standings| {
            async move { store.neighbors(&standings, member, above, below).await }.boxed()
        });
        if let Some(around) = live.await? {
            return Ok(around);
        }
        match sealed::find(&self.deployment.db, standings).await? {
            Some(archived) => Ok(archived.neighbors(member, above, below).await?),
            None => Ok(None),
        }
    }

    /// Up to `limit` periods that have entries, in Redis or SQL, of the board, segment and window
    /// of `standings`. The period of `standings` does not matter.
    pub async fn periods(
        &self,
        standings: &Standings,
        range: Range,
        limit: usize,
    ) -> Result<Vec<ListedPeriod>> {
        let mut standings = standings.clone();
        loop {
            match self.merged_periods(&standings, range, limit).await? {
                Ok(periods) => return Ok(periods),
                // SQL has the periods that left Redis a moment ago.
                Err(before_ms) => standings.sealed_before_ms = before_ms,
            }
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
        let db = &self.deployment.db;
        let sealed_before_ms = standings.sealed_before_ms;
        let live = async |range: Range, limit: usize| {
            if limit == 0 {
                return Ok(Ok(vec![]));
            }
            self.read_redis_or_sealed(standings, |store, standings| {
                async move { store.periods(&standings, range, limit).await }.boxed()
            })
            .await
        };
        let archived = async |range: Range, limit: usize| match sealed_before_ms {
            ranking::seal::NEVER_MS => Ok(vec![]),
            _ if limit == 0 => Ok(vec![]),
            _ => sealed::periods(db, standings, range, sealed_before_ms, limit).await,
        };
        match range {
            Range::Before(_) => {
                let mut found = match live(range, limit).await? {
                    Ok(found) => found,
                    Err(before_ms) => return Ok(Err(before_ms)),
                };
                // A sealed period may not have left Redis yet.
                found.retain(|began| began.present_from_ms >= sealed_before_ms);
                let left = limit - found.len();
                found.extend(archived(range, left).await?);
                Ok(Ok(found))
            }
            Range::After(after_ms) => {
                let mut found = archived(range, limit).await?;
                let after_ms = after_ms.max(sealed_before_ms.saturating_sub(1));
                match live(Range::After(after_ms), limit - found.len()).await? {
                    Ok(later) => found.extend(later),
                    Err(before_ms) => return Ok(Err(before_ms)),
                }
                Ok(Ok(found))
            }
        }
    }

    /// Reads from Redis; `None` if the standings are in SQL.
    async fn live<'a, T>(
        &'a self,
        standings: &'a Standings,
        read: impl Fn(&'a Store, Cow<'a, Standings>) -> BoxFuture<'a, ranking::Result<T>> + Send + Sync,
    ) -> Result<Option<T>> {
        if standings.is_sealed() {
            return Ok(None);
        }
        Ok(self.read_redis_or_sealed(standings, read).await?.ok())
    }

    /// Reads from Redis. If the period has left Redis, the inner error is the instant before which
    /// periods have. If the board has moved to another number of shards since its row was read, or
    /// is about to, reads the row again.
    async fn read_redis_or_sealed<'a, T>(
        &'a self,
        standings: &'a Standings,
        read: impl Fn(&'a Store, Cow<'a, Standings>) -> BoxFuture<'a, ranking::Result<T>> + Send + Sync,
    ) -> Result<Result<T, i64>> {
        let deadline = Instant::now() + MOVE_TIMEOUT;
        let mut now = Cow::Borrowed(standings);
        loop {
            let error = match self.read_with_recovery(|store| read(store, now.clone())).await {
                Ok(value) => return Ok(Ok(value)),
                Err(ReadError::Sealed(before_ms)) => return Ok(Err(before_ms)),
                Err(ReadError::Failed(error)) => return Err(error),
                Err(ReadError::Moved(error)) => error,
            };
            if Instant::now() >= deadline {
                return Err(error.into());
            }
            let no = standings.id.board;
            let boards = entity::board::some(&self.deployment.db, [no].into()).await?;
            let board = boards.get(&no).ok_or(ranking::Error::BoardGone)?;
            if board.layouts.is_coming {
                sleep(MOVE_INTERVAL).await;
                continue;
            }
            let (id, period) = (standings.id.clone(), standings.period.clone());
            now = Cow::Owned(Standings::new(&self.deployment.store, board, id, period));
        }
    }
}
