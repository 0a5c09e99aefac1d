//! Pages of entries: forward, backward, and around a member.

use super::merge::Start;
use super::requests::Way;
use super::requests::{Reads, ranked_entries};
use super::{RankedEntry, Split, Standings};
use crate::error::{Error, Result};
use crate::id::MemberId;
use crate::store::Store;

/// The most reads of a neighborhood whose center moves between two reads.
const MOVED_MAX: usize = 8;

impl Store {
    /// The split at an entry, whether or not it exists. One round trip: a counting script for each
    /// shard; O(S · log(size)), plus about 20 look-ups in a run of 600,000 equal keys.
    pub async fn split_at(&self, standings: &Standings, place: &RankedEntry) -> Result<Split> {
        let mut reads = Reads::new(self, standings);
        for shard in 0..standings.partitions.len() {
            reads.count_before(shard, std::iter::once(place));
        }
        let counts: Vec<Vec<u64>> = reads.send().await?;
        Ok(Split(counts.into_iter().flatten().collect()))
    }

    /// The split at a position, or the end. S = 1: at most one round trip. Otherwise a selection
    /// over sorted lists: each round trip reads the middle of the rest of each shard, takes their
    /// weighted median as the pivot and counts the entries before it. At most three quarters
    /// remain: about 2 · log₂(size) round trips.
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
        let end = self.end(standings).await?;
        if position >= end.position() {
            return Ok(end);
        }
        let (mut low, mut high) = (vec![0; end.0.len()], end.0);
        // Writers may move entries between the rounds: the bound prevents an endless loop.
        for _ in 0..200 {
            if low.iter().sum::<u64>() >= position {
                return Ok(Split(low));
            }
            let open: Vec<(usize, u64)> = (0..low.len())
                .filter(|&shard| low[shard] < high[shard])
                .map(|shard| (shard, high[shard] - low[shard]))
                .collect();
            let Some(pivot) = self.pivot(standings, &open, &low).await? else {
                break;
            };
            let counts = self.split_at(standings, &pivot).await?;
            let own = standings.shard(&pivot.member);
            if counts.position() < position {
                // The pivot and all entries before it precede the position.
                for shard in 0..low.len() {
                    let passed = counts.0[shard] + u64::from(shard == own);
                    low[shard] = low[shard].max(passed.min(high[shard]));
                }
            } else {
                for shard in 0..high.len() {
                    high[shard] = high[shard].min(counts.0[shard].max(low[shard]));
                }
            }
        }
        if low.iter().sum::<u64>() == position {
            return Ok(Split(low));
        }
        Err(Error::Unavailable("entries move faster than they are counted; try again".into()))
    }

    /// The weighted median of the middle entries of the rest of each shard. One round trip: a
    /// `ZRANGE` for each shard.
    async fn pivot(
        &self,
        standings: &Standings,
        open: &[(usize, u64)],
        low: &[u64],
    ) -> Result<Option<RankedEntry>> {
        let mut reads = Reads::new(self, standings);
        for &(shard, left) in open {
            reads.range(shard, low[shard] + left / 2, 1);
        }
        if open.is_empty() {
            return Ok(None);
        }
        let mut middles: Vec<(RankedEntry, u64)> = vec![];
        for (entries, &(_, left)) in reads.send::<Vec<(String, f64)>>().await?.into_iter().zip(open)
        {
            middles.extend(ranked_entries(entries)?.into_iter().map(|entry| (entry, left)));
        }
        middles.sort_unstable();
        let total: u64 = middles.iter().map(|(_, left)| left).sum();
        let mut passed = 0;
        Ok(middles.into_iter().find_map(|(entry, left)| {
            passed += left;
            (2 * passed >= total).then_some(entry)
        }))
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
    /// member has no entry. Two round trips; more if the member moves between them.
    pub async fn neighbors(
        &self,
        standings: &Standings,
        member: &MemberId,
        above: usize,
        below: usize,
    ) -> Result<Option<(u64, Vec<RankedEntry>)>> {
        let one = std::slice::from_ref(member);
        for _ in 0..MOVED_MAX {
            if standings.partitions.len() == 1 {
                let found = self.find(standings, one).await?.pop().flatten();
                let Some((center, position)) = found else {
                    return Ok(None);
                };
                let first = position.saturating_sub(above as u64);
                let mut reads = Reads::new(self, standings);
                reads.range(0, first, position - first + 1 + below as u64);
                let entries = ranked_entries(reads.send().await?.pop().unwrap_or_default())?;
                if entries.get((position - first) as usize) == Some(&center) {
                    return Ok(Some((first, entries)));
                }
                continue;
            }
            let key = self.rank_keys(standings, one).await?[0];
            let Some(key) = key else { return Ok(None) };
            let center = RankedEntry { key, member: member.clone() };
            let start = Start::Place(center.clone());
            let (before, rest) = tokio::join!(
                self.backward(standings, &start, above),
                self.forward(standings, &start, below + 1)
            );
            let ((_, mut entries), (position, mut rest)) = (before?, rest?);
            let first = position.saturating_sub(entries.len() as u64);
            if rest.first() == Some(&center) {
                entries.append(&mut rest);
                return Ok(Some((first, entries)));
            }
        }
        Err(Error::Unavailable(format!(
            "{member} moves faster than its neighbors are read; try again"
        )))
    }
}
