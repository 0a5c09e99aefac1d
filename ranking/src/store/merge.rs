//! Pages: the entries from a place on, or before it, merged from the sorted lists of the shards.

use super::Store;
use super::read::{Placed, Reads, Split, Standings, placed};
use crate::error::Result;

/// Which way a page goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// From a place on.
    Forward,
    /// Back from a place; entries come in reverse.
    Backward,
}

/// One shard in a merge. The buffer's last entry is the next one.
#[derive(Debug, Default)]
struct Source {
    at: u64,
    buffer: Vec<Placed>,
    exhausted: bool,
}

impl Store {
    /// Up to `limit` entries one way from a place: each shard is asked for its likely share, then for more only where it is needed.
    pub(super) async fn merge(
        &self,
        standings: &Standings,
        from: &Split,
        limit: usize,
        way: Way,
    ) -> Result<Vec<Placed>> {
        let shards = standings.partitions.len();
        // A shard's likely share of the page, and some more so that one round trip usually does.
        let share = if shards == 1 {
            limit
        } else {
            (limit / shards + limit / (2 * shards) + 4).min(limit)
        };
        let mut sources: Vec<Source> = from
            .0
            .iter()
            .map(|&at| Source {
                at,
                ..Source::default()
            })
            .collect();
        let mut merged = Vec::with_capacity(limit);
        while merged.len() < limit {
            self.refill(standings, &mut sources, share.min(limit), way)
                .await?;
            while merged.len() < limit {
                if sources
                    .iter()
                    .any(|source| source.buffer.is_empty() && !source.exhausted)
                {
                    break;
                }
                let heads = sources
                    .iter_mut()
                    .filter(|source| !source.buffer.is_empty());
                let next = match way {
                    Way::Forward => heads.min_by(|a, b| a.buffer.last().cmp(&b.buffer.last())),
                    Way::Backward => heads.max_by(|a, b| a.buffer.last().cmp(&b.buffer.last())),
                };
                let Some(entry) = next.and_then(|source| source.buffer.pop()) else {
                    return Ok(merged);
                };
                merged.push(entry);
            }
        }
        Ok(merged)
    }

    /// Asks every shard whose buffer is empty for its next entries, in one round trip.
    async fn refill(
        &self,
        standings: &Standings,
        sources: &mut [Source],
        count: usize,
        way: Way,
    ) -> Result<()> {
        let mut reads = Reads::new(self, standings);
        let mut asked = vec![];
        for (shard, source) in sources
            .iter_mut()
            .enumerate()
            .filter(|(_, source)| source.buffer.is_empty() && !source.exhausted)
        {
            let start = match way {
                Way::Forward => source.at,
                Way::Backward => source.at.saturating_sub(count as u64),
            };
            let wanted = match way {
                Way::Forward => count as u64,
                Way::Backward => source.at - start,
            };
            if wanted == 0 {
                source.exhausted = true;
                continue;
            }
            reads.range(shard, start, wanted);
            asked.push((shard, start, wanted));
        }
        if asked.is_empty() {
            return Ok(());
        }
        let answers: Vec<Vec<(String, f64)>> = reads.send().await?;
        for ((shard, start, wanted), entries) in asked.into_iter().zip(answers) {
            let source = &mut sources[shard];
            source.buffer = placed(entries)?;
            match way {
                Way::Forward => {
                    source.at += source.buffer.len() as u64;
                    source.exhausted = (source.buffer.len() as u64) < wanted;
                    source.buffer.reverse();
                }
                Way::Backward => {
                    source.at = start;
                    source.exhausted = start == 0;
                }
            }
        }
        Ok(())
    }
}
