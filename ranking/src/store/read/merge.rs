//! Pages: the entries from a place on, or before it, merged from the sorted lists of the shards.
//!
//! A shard is asked for the entries next to a place, not for those at an index found before: who moves meanwhile would shift the others, and
//! a walk from page to page would show some twice and miss some.

use super::requests::{Reads, placed};
use super::{Placed, Split, Standings};
use crate::error::Result;
use crate::store::{Store, decode};

/// Where a page begins, or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At a place, there or not.
    Place(Placed),
    /// So many entries into each shard, at the moment that it was found.
    Split(Split),
}

/// Which way a page goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a place on.
    Forward,
    /// Back from a place; entries come in reverse.
    Backward,
}

/// What a shard is asked for next.
#[derive(Debug)]
enum Next {
    /// Entries next to a place.
    Place(Placed),
    /// Entries next to one that was seen last, without it.
    Beyond(Placed),
    /// Entries from an index on, or before it.
    Index(u64),
}

/// One shard in a merge. The buffer's last entry is the next one.
#[derive(Debug)]
struct Source {
    next: Next,
    buffer: Vec<Placed>,
    exhausted: bool,
}

impl Store {
    /// Up to `limit` entries one way from a place, and how many come before it: each shard is asked for its likely share, then for more only where it
    /// is needed.
    pub(crate) async fn merge(
        &self,
        standings: &Standings,
        start: &Start,
        limit: usize,
        way: Way,
    ) -> Result<(u64, Vec<Placed>)> {
        let shards = standings.partitions().len();
        // A shard's likely share of the page, and some more so that one round trip usually does.
        let share = if shards == 1 {
            limit
        } else {
            (limit / shards + limit / (2 * shards) + 4).min(limit)
        };
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

    /// Asks every shard whose buffer is empty for its next entries, in one round trip; how many entries come before the places asked of.
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
                    // From a place on comes what is at it first.
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
            let source = &mut sources[shard];
            let entries = match &source.next {
                Next::Index(first) => {
                    // Before it are others, unless it is the first of all, however few came.
                    source.exhausted = *first == 0;
                    decode(Some(answer))?
                }
                _ => {
                    let (place, entries): (u64, Vec<(String, f64)>) = decode(Some(answer))?;
                    before += place;
                    entries
                }
            };
            let mut entries = placed(entries)?;
            if !matches!((&source.next, way), (Next::Index(_), Way::Backward)) {
                source.exhausted = entries.len() < wanted;
            }
            if let (Next::Beyond(last), Way::Forward) = (&source.next, way)
                && entries.first() == Some(last)
            {
                entries.remove(0);
            }
            if way == Way::Forward {
                entries.reverse();
            }
            // The one that is taken last.
            if let Some(last) = entries.first() {
                source.next = Next::Beyond(last.clone());
            }
            source.buffer = entries;
        }
        Ok(before)
    }
}
