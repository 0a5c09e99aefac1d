//! Pages of entries: forward, backward, and around a member.

use super::merge::Start;
use super::ranks::LOOKS_MAX;
use super::requests::Way;
use super::requests::{Reads, ranked_entries};
use super::{RankedEntry, Split, Standings};
use crate::error::{Error, Result};
use crate::id::MemberId;
use crate::store::Store;

/// The most searches for a position whose entries move meanwhile.
const SEARCHES_MAX: usize = 4;

/// The most entries that one pipeline asks for, unless a single page has more.
pub(super) const ENTRIES_MAX: usize = 5000;

impl Store {
    /// The split at a position, or the end. S = 1: no round trip. Otherwise as
    /// [`Self::at_positions`].
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`, `Corrupt`; also `Unavailable` if entries move faster than they
    /// are counted.
    pub async fn split_at_position(&self, standings: &Standings, position: u64) -> Result<Split> {
        if standings.partitions.len() == 1 || position == 0 {
            let mut split = vec![0; standings.partitions.len()];
            split[0] = position;
            return Ok(Split(split));
        }
        let mut found = self.at_positions(standings, &[position]).await?;
        let found = found.pop().ok_or_else(|| Error::corrupt("a search found no place"))?;
        Ok(found.split)
    }

    /// The pages of up to some entries from some positions on, in the order given. S = 1: one round
    /// trip for each 5,000 entries, with a `ZRANGE` for each page. Otherwise one search for all
    /// positions, then [`Self::forward`] for each page of several entries, then
    /// [`Self::positions`]: a page whose first entry is elsewhere by then is searched again, three
    /// times at most.
    ///
    /// # Errors
    /// As [`Self::split_at_position`].
    pub async fn pages_from(
        &self,
        standings: &Standings,
        pages: &[(u64, usize)],
    ) -> Result<Vec<Vec<RankedEntry>>> {
        let mut found = vec![vec![]; pages.len()];
        if standings.partitions.len() == 1 {
            let most = pages.iter().map(|(_, limit)| *limit).max().unwrap_or(0).max(1);
            let asked: Vec<usize> = (0..pages.len()).filter(|&page| pages[page].1 > 0).collect();
            for some in asked.chunks((ENTRIES_MAX / most).max(1)) {
                let mut reads = Reads::new(self, standings);
                for &page in some {
                    reads.range(0, pages[page].0, pages[page].1 as u64);
                }
                let answers = reads.send::<Vec<(String, f64)>>().await?;
                for (&page, entries) in some.iter().zip(answers) {
                    found[page] = ranked_entries(entries)?;
                }
            }
            return Ok(found);
        }
        let mut left: Vec<usize> = (0..pages.len()).collect();
        for look in 1..=SEARCHES_MAX {
            self.search_pages(standings, pages, &left, &mut found).await?;
            if look == SEARCHES_MAX {
                break;
            }
            // The front needs no search, and behind the end nothing moves up or down.
            left.retain(|&page| pages[page].0 > 0 && !found[page].is_empty());
            let first: Vec<RankedEntry> = left.iter().map(|&page| found[page][0].clone()).collect();
            let mut positions = self.positions(standings, &first).await?.into_iter();
            left.retain(|&page| positions.next().flatten() != Some(pages[page].0));
            if left.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// Reads some of the pages from positions on, over several shards.
    async fn search_pages(
        &self,
        standings: &Standings,
        pages: &[(u64, usize)],
        some: &[usize],
        found: &mut [Vec<RankedEntry>],
    ) -> Result<()> {
        // The front needs no search.
        let positions = some.iter().map(|&page| pages[page].0).filter(|position| *position > 0);
        let positions: Vec<u64> = positions.collect();
        let mut places = self.at_positions(standings, &positions).await?.into_iter();
        for &page in some {
            let (position, limit) = pages[page];
            let place = if position > 0 { places.next() } else { None };
            found[page] = match (place, limit) {
                (_, 0) => vec![],
                (Some(place), 1) => place.entry.into_iter().collect(),
                (place, limit) => {
                    let front = || Split(vec![0; standings.partitions.len()]);
                    let split = place.map_or_else(front, |place| place.split);
                    self.forward(standings, &Start::Split(split), limit).await?.1
                }
            };
        }
        Ok(())
    }

    /// Up to `limit` entries from a place forward, in order, and the position of the place. One
    /// round trip, more if a shard has more than its likely share; for each shard a script that
    /// finds the place, or `ZRANGE` by index.
    pub async fn forward(
        &self,
        standings: &Standings,
        from: &Start,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        self.merge(standings, from, limit, Way::Forward).await
    }

    /// Up to `limit` entries before a place, in order, and the position of the place; otherwise as
    /// [`Self::forward`].
    pub async fn backward(
        &self,
        standings: &Standings,
        from: &Start,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        let merged = self.merge(standings, from, limit, Way::Backward).await;
        let (position, mut entries) = merged?;
        entries.reverse();
        Ok((position, entries))
    }

    /// The entries around a member, its own included, and the position of the first; `None` if the
    /// member has no entry. S = 1: one round trip. Otherwise two; more if the member moves between
    /// them.
    pub async fn neighbors(
        &self,
        standings: &Standings,
        member: &MemberId,
        above: usize,
        below: usize,
    ) -> Result<Option<(u64, Vec<RankedEntry>)>> {
        let one = std::slice::from_ref(member);
        if standings.partitions.len() == 1 {
            let found = self.read_in_shard(standings, one, [above, below + 1]).await?;
            return Ok(found.into_iter().next().flatten());
        }
        for look in 1..=LOOKS_MAX {
            let key = self.rank_keys(standings, one).await?[0];
            let Some(key) = key else { return Ok(None) };
            let center = RankedEntry { key, member: member.clone() };
            let start = Start::Place(center.clone());
            let (before, rest) = tokio::join!(
                self.backward(standings, &start, above),
                self.forward(standings, &start, below + 1)
            );
            let ((before, mut entries), (position, mut rest)) = (before?, rest?);
            let first = position.saturating_sub(entries.len() as u64);
            // Entries that passed the center between the two reads would be in both, or in none.
            let is_same = before == position || look == LOOKS_MAX;
            if rest.first() == Some(&center) && is_same {
                entries.append(&mut rest);
                return Ok(Some((first, entries)));
            }
        }
        Err(Error::Unavailable(format!(
            "{member} moves faster than its neighbors are read; try again"
        )))
    }
}
