//! Pages: the entries from a place forward or backward, merged from the sorted lists of the shards.
//!
//! Each shard returns the entries next to a place, not those at an index found before: a member
//! that moves between two reads would shift the indices, and a walk from page to page would repeat
//! some entries and miss others.

use super::requests::{Reads, Way, ranked_entries};
use super::{RankedEntry, Split, Standings};
use crate::error::Result;
use crate::store::{Store, decode};

/// The start of a page, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A key and a member, whether or not they are an entry.
    Place(RankedEntry),
    /// A number of entries in each shard, as of the moment when it was found.
    Split(Split),
}

/// The next request to a shard.
#[derive(Debug)]
enum Next {
    /// Entries next to a place.
    Place(RankedEntry),
    /// Entries next to the last one seen, without it.
    Beyond(RankedEntry),
    /// Entries from an index forward, or before it.
    Index(u64),
}

/// One shard in a merge. The buffer's last entry is the next one.
#[derive(Debug)]
struct Source {
    next: Next,
    buffer: Vec<RankedEntry>,
    exhausted: bool,
}

impl Source {
    /// Takes the shard's answer into the empty buffer. Returns the number of entries before the
    /// requested place.
    fn take(&mut self, answer: redis::Value, wanted: usize, way: Way) -> Result<u64> {
        let (before, entries): (u64, Vec<(String, f64)>) = match &self.next {
            Next::Index(first) => {
                // Others come before this index unless it is 0, however few were returned.
                self.exhausted = *first == 0;
                (0, decode(Some(answer))?)
            }
            _ => decode(Some(answer))?,
        };
        let mut entries = ranked_entries(entries)?;
        if !matches!((&self.next, way), (Next::Index(_), Way::Backward)) {
            self.exhausted = entries.len() < wanted;
        }
        if let (Next::Beyond(last), Way::Forward) = (&self.next, way)
            && entries.first() == Some(last)
        {
            entries.remove(0);
        }
        if way == Way::Forward {
            entries.reverse();
        }
        // The entry that the merge takes last.
        if let Some(last) = entries.first() {
            self.next = Next::Beyond(last.clone());
        }
        self.buffer = entries;
        Ok(before)
    }
}

/// A shard's likely share of a page, plus a margin so that one round trip usually suffices.
pub(crate) fn share(limit: usize, shards: usize) -> usize {
    match shards {
        1 => limit,
        _ => (limit / shards + limit / (2 * shards) + 4).min(limit),
    }
}

impl Store {
    /// Up to `limit` entries in one direction from a place, and the number of entries before it:
    /// each shard returns its likely share, then more only if the page needs it.
    pub(crate) async fn merge(
        &self,
        standings: &Standings,
        start: &Start,
        limit: usize,
        way: Way,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        let shards = standings.partitions().len();
        let share = share(limit, shards);
        let source = |next: Next| Source { next, buffer: vec![], exhausted: false };
        let mut sources: Vec<Source> = match start {
            Start::Place(place) => {
                std::iter::repeat_with(|| source(Next::Place(place.clone()))).take(shards).collect()
            }
            Start::Split(Split(counts)) => {
                let next = counts.iter().map(|&count| source(Next::Index(count)));
                next.collect()
            }
        };
        let found = self.refill(standings, &mut sources, share, way).await?;
        let position = match start {
            Start::Place(_) => found,
            Start::Split(split) => split.position(),
        };
        let mut merged = Vec::with_capacity(limit);
        while merged.len() < limit {
            let wanting = |source: &Source| source.buffer.is_empty() && !source.exhausted;
            if sources.iter().any(wanting) {
                self.refill(standings, &mut sources, share, way).await?;
            }
            let heads = sources.iter_mut().filter(|source| !source.buffer.is_empty());
            let next = match way {
                Way::Forward => heads.min_by(|a, b| a.buffer.last().cmp(&b.buffer.last())),
                Way::Backward => heads.max_by(|a, b| a.buffer.last().cmp(&b.buffer.last())),
            };
            let Some(entry) = next.and_then(|source| source.buffer.pop()) else {
                break;
            };
            merged.push(entry);
        }
        Ok((position, merged))
    }

    /// Asks every shard whose buffer is empty for its next entries, in one round trip; returns the
    /// number of entries before the requested places.
    async fn refill(
        &self,
        standings: &Standings,
        sources: &mut [Source],
        count: usize,
        way: Way,
    ) -> Result<u64> {
        let mut reads = Reads::new(self, standings);
        let mut asked = vec![];
        let wanting =
            |(_, source): &(usize, &mut Source)| source.buffer.is_empty() && !source.exhausted;
        for (shard, source) in sources.iter_mut().enumerate().filter(wanting) {
            let wanted = match &source.next {
                Next::Place(place) => {
                    reads.page(shard, place, way, count);
                    count
                }
                Next::Beyond(last) => {
                    // Forward reads return the entry at the place itself first.
                    let wanted = count + usize::from(way == Way::Forward);
                    reads.page(shard, last, way, wanted);
                    wanted
                }
                Next::Index(at) => {
                    let first = match way {
                        Way::Forward => *at,
                        Way::Backward => at.saturating_sub(count as u64),
                    };
                    let wanted = match way {
                        Way::Forward => count,
                        Way::Backward => (at - first) as usize,
                    };
                    if wanted == 0 {
                        source.exhausted = true;
                        continue;
                    }
                    reads.range(shard, first, wanted as u64);
                    source.next = Next::Index(first);
                    wanted
                }
            };
            asked.push((shard, wanted));
        }
        if asked.is_empty() {
            return Ok(0);
        }
        let mut before = 0;
        let answers = reads.send::<redis::Value>().await?;
        for ((shard, wanted), answer) in asked.into_iter().zip(answers) {
            before += sources[shard].take(answer, wanted, way)?;
        }
        Ok(before)
    }
}
