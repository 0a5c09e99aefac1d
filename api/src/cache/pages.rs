//! The cache of the first pages of standings, from Redis or from SQL.

use std::sync::Arc;
use std::time::Duration;

use engine::read::fallback::Answered;
use engine::read::reader::Reader;
use ranking::standings_id::StandingsId;
use ranking::store::Store;
use ranking::store::read::{RankedEntry, Standings};
use tokio::time::Instant;

use crate::cache::shared::SharedCache;
use crate::error::Result;
use crate::http::turns;
use crate::metrics::METRICS;

/// The most entries from the front that are cached as pages: the longest page, and two more that
/// say what comes after it.
const HOT_ENTRIES_MAX: u64 = 1002;

/// The cache of first pages of standings. Only requests that wait for a read that fails get its
/// error.
pub struct PageCache {
    pages: SharedCache<PageName, Result<Page>>,
    age: Duration,
}

/// A page, and how SQL answered for it, if it did instead of Redis.
#[derive(Debug, Clone)]
struct Page {
    entries: Arc<[RankedEntry]>,
    from_sql: Option<Answered>,
}

/// The name of a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PageName {
    standings: StandingsId,
    position: u64,
    limit: usize,
}

/// The approximate memory that a page takes, in bytes.
fn page_bytes(name: &PageName, page: &Result<Page>) -> usize {
    let entry = |placed: &RankedEntry| size_of::<RankedEntry>() + placed.member.as_str().len() + 32;
    let entries = page.iter().flat_map(|page| page.entries.iter());
    let name = name.standings.segment.len() + name.standings.period.len();
    entries.map(entry).sum::<usize>() + name + 256
}

impl PageCache {
    /// Starts empty; pages stay for `age`. It holds up to `bytes_max` bytes.
    pub fn new(store: &Store, age: Duration, bytes_max: u64) -> Self {
        Self { pages: SharedCache::new(store, age, bytes_max, page_bytes), age }
    }

    /// True if the cache keeps pages of that length at a position.
    pub fn keeps(position: u64, limit: usize) -> bool {
        position.saturating_add(limit as u64) <= HOT_ENTRIES_MAX
    }

    /// As [`Reader::forward_from`], for the first entries with the cache in front; and the instant
    /// until which the page is good.
    pub async fn page_from(
        &self,
        reader: &Reader,
        standings: &Standings,
        position: u64,
        limit: usize,
    ) -> Result<(Arc<[RankedEntry]>, Instant)> {
        let read = Box::pin(async {
            let began = Instant::now();
            match reader.forward_from(standings, position, limit).await {
                Ok(entries) => {
                    let from_sql = reader.answered_by_sql(standings, began).await;
                    (Ok(Page { entries: entries.into(), from_sql }), began + self.age)
                }
                Err(error) => (Err(error.into()), began),
            }
        });
        if !Self::keeps(position, limit) {
            let (page, good_until) = read.await;
            return Ok((page?.entries, good_until));
        }
        let name = PageName { standings: standings.id.clone(), position, limit };
        let fetched = {
            let _shared = turns::share();
            self.pages.find(&name, read).await
        };
        METRICS.pages.count(!fetched.is_own);
        let page = fetched.value?;
        if let Some(answered) = page.from_sql.filter(|_| !fetched.is_own) {
            // For this request SQL answers now.
            reader.note_from_sql(standings, answered).await;
        }
        Ok((page.entries, fetched.good_until))
    }
}
