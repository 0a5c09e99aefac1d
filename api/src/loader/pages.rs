//! Pages by their positions, and neighborhoods: all that a request asks of the same standings is
//! read together.

use std::collections::HashMap;
use std::sync::Arc;

use dataloader::BatchFn;
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use ranking::store::read::RankedEntry;
use tokio::time::Instant;

use super::entries::failed;
use super::lookups::{In, Lookups, by_standings};
use crate::app::SharedApp;
use crate::cache::pages::PageCache;
use crate::error::{Error, Result};

/// The most cached pages, beside the first one, that are searched one by one. If a request asks for
/// more, they are parts of one page from the front.
const SEARCHES_MAX: usize = 2;

/// A page of up to some entries from a position on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) position: u64,
    pub(crate) limit: usize,
}

/// A page, as the key of a loader.
pub(crate) type Page = In<Span>;

/// The entries of a page, and the instant until which they are good.
pub(crate) type PageRead = Result<(Arc<[RankedEntry]>, Instant)>;

/// A member, and the numbers of entries above and below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Extent {
    pub(crate) member: MemberId,
    pub(crate) above: usize,
    pub(crate) below: usize,
}

/// A neighborhood, as the key of a loader.
pub(crate) type Around = In<Extent>;

/// The entries of a neighborhood and the position of the first; `None` without the member.
pub(crate) type AroundRead = Result<Option<(u64, Arc<[RankedEntry]>)>>;

/// Reads pages.
pub(crate) struct PageBatch(pub(crate) Lookups);

/// Reads neighborhoods.
pub(crate) struct AroundBatch(pub(crate) Lookups);

impl BatchFn<Page, PageRead> for PageBatch {
    async fn load(&mut self, pages: &[Page]) -> HashMap<Page, PageRead> {
        let groups = by_standings(pages);
        self.0.read_all(groups.map(|pages| read_pages(&self.0.app, pages))).await
    }
}

impl BatchFn<Around, AroundRead> for AroundBatch {
    async fn load(&mut self, all: &[Around]) -> HashMap<Around, AroundRead> {
        let mut groups: HashMap<(&StandingsId, usize, usize), Vec<&Around>> = HashMap::new();
        for one in all {
            let alike = (&one.standings.id, one.key.above, one.key.below);
            groups.entry(alike).or_default().push(one);
        }
        let groups = groups.into_values();
        self.0.read_all(groups.map(|alike| read_around(&self.0.app, alike))).await
    }
}

/// Reads pages of the same standings. Single entries are never cached.
async fn read_pages(app: &SharedApp, pages: Vec<&Page>) -> Vec<(Page, PageRead)> {
    let is_cached =
        |page: &&Page| page.key.limit > 1 && PageCache::keeps(page.key.position, page.key.limit);
    let (cached, direct): (Vec<&Page>, Vec<&Page>) = pages.into_iter().partition(is_cached);
    let mut found = read_direct(app, direct).await;
    let searched = cached.iter().filter(|page| page.key.position > 0).count();
    let shards = cached.first().map_or(1, |page| page.standings.partitions().len());
    if shards > 1 && searched > SEARCHES_MAX {
        found.extend(read_from_front(app, cached).await);
        return found;
    }
    for page in cached {
        let Span { position, limit } = page.key;
        let read = app.pages.page_from(app.reader(), &page.standings, position, limit).await;
        found.push((page.clone(), read));
    }
    found
}

async fn read_direct(app: &SharedApp, pages: Vec<&Page>) -> Vec<(Page, PageRead)> {
    let Some(&first) = pages.first() else {
        return vec![];
    };
    let good_until = Instant::now() + app.cache_age;
    let wanted: Vec<(u64, usize)> =
        pages.iter().map(|page| (page.key.position, page.key.limit)).collect();
    match app.reader().pages_from(&first.standings, &wanted).await {
        Ok(read) => {
            let read = read.into_iter().map(|entries| Ok((entries.into(), good_until)));
            pages.into_iter().cloned().zip(read).collect()
        }
        Err(error) => failed(pages, error),
    }
}

/// Reads pages as parts of one that begins at the front.
async fn read_from_front(app: &SharedApp, pages: Vec<&Page>) -> Vec<(Page, PageRead)> {
    let Some(&first) = pages.first() else {
        return vec![];
    };
    let end =
        pages.iter().map(|page| page.key.position as usize + page.key.limit).max().unwrap_or(0);
    match app.pages.page_from(app.reader(), &first.standings, 0, end).await {
        Ok((front, good_until)) => {
            let part = |page: &Page| {
                let from = front.len().min(page.key.position as usize);
                let to = front.len().min(from + page.key.limit);
                Ok((Arc::from(&front[from..to]), good_until))
            };
            pages.into_iter().map(|page| (page.clone(), part(page))).collect()
        }
        Err(error) => failed(pages, error),
    }
}

/// Reads neighborhoods of the same standings and extent.
async fn read_around(app: &SharedApp, alike: Vec<&Around>) -> Vec<(Around, AroundRead)> {
    let Around { standings, key: Extent { above, below, .. } } = alike[0];
    let members: Vec<MemberId> = alike.iter().map(|one| one.key.member.clone()).collect();
    let read = app.reader().neighborhoods(standings, &members, *above, *below).await;
    match read.map_err(Error::from) {
        Ok(read) => {
            let shared = |(first, entries): (u64, Vec<RankedEntry>)| (first, entries.into());
            let read = read.into_iter().map(|around| Ok(around.map(shared)));
            alike.into_iter().cloned().zip(read).collect()
        }
        Err(error) => failed(alike, error),
    }
}
