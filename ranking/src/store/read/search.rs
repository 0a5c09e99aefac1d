//! The search for positions across shards: one walk finds all that a caller asks for.
//!
//! A position is bracketed in each shard by two splits, one at or before it and one at or behind
//! it. Members are spread over shards by hash, so a position lies at about the same share of each
//! bracket: a round reads the entries there, takes their weighted median as the pivot and counts
//! the entries before it. One round usually leaves the square root of the distance. Where it leaves
//! more than half, the next round takes the middles, which leaves at most three quarters of the
//! brackets whatever is in them. The pivots of a round serve all positions.

use super::requests::{Reads, ranked_entries};
use super::{PLACES_MAX, RankedEntry, Split, Standings};
use crate::error::{Error, Result};
use crate::store::Store;

/// The most positions in one walk: each reads an entry of each shard in a round trip.
const POSITIONS_MAX: usize = 256;

/// The distance from a split at which the entries between are read instead of bisected.
const NEAR_MAX: u64 = 16;

/// The most rounds: writers may move entries between them, so the walk needs a bound.
const ROUNDS_MAX: usize = 200;

/// A position, as a search found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtPosition {
    /// The split at the position, or the end.
    pub split: Split,
    /// The entry at the position; `None` behind the last one.
    pub entry: Option<RankedEntry>,
}

/// The brackets of a position: it lies between two splits.
#[derive(Debug)]
struct Brackets {
    position: u64,
    low: Vec<u64>,
    high: Vec<u64>,
    /// The distance from the nearer split before the last round.
    last_distance: u64,
}

/// An entry, and the number of entries before it in each shard.
#[derive(Debug)]
struct Pivot {
    entry: RankedEntry,
    shard: usize,
    before: Split,
}

/// An entry at an index in a shard.
type Indexed = (RankedEntry, usize, u64);

impl Brackets {
    fn new(position: u64, end: &[u64]) -> Self {
        Self { position, low: vec![0; end.len()], high: end.to_vec(), last_distance: u64::MAX }
    }

    /// The number of entries between the lower split and the position.
    fn above(&self) -> u64 {
        self.position.saturating_sub(self.low.iter().sum())
    }

    /// The number of entries between the position and the upper split.
    fn below(&self) -> u64 {
        self.high.iter().sum::<u64>().saturating_sub(self.position)
    }

    fn distance(&self) -> u64 {
        self.above().min(self.below())
    }

    /// The index to probe in each shard that is still open, with the number of entries open there.
    fn probes(&mut self) -> Vec<(usize, u64, u64)> {
        let distance = self.distance();
        let is_slow = distance > self.last_distance / 2;
        // After a slow round and a round of middles, a position may be interpolated again.
        self.last_distance = if is_slow { u64::MAX } else { distance };
        let above = self.above();
        let all = (above + self.below()).max(1);
        let probe = |shard: usize| {
            let (low, left) = (self.low[shard], self.high[shard] - self.low[shard]);
            let share = match is_slow {
                true => left / 2,
                false => (u128::from(above) * u128::from(left) / u128::from(all)) as u64,
            };
            (shard, low + share.min(left.saturating_sub(1)), left)
        };
        let open = (0..self.low.len()).filter(|&shard| self.low[shard] < self.high[shard]);
        open.map(probe).collect()
    }

    fn narrow(&mut self, pivot: &Pivot) {
        let (low, high) = (&mut self.low, &mut self.high);
        let is_before = pivot.before.position() < self.position;
        for (shard, &before) in pivot.before.0.iter().enumerate() {
            if is_before {
                // The pivot and all entries before it precede the position.
                let passed = before + u64::from(shard == pivot.shard);
                low[shard] = low[shard].max(passed.min(high[shard]));
            } else {
                high[shard] = high[shard].min(before.max(low[shard]));
            }
        }
    }

    /// The first index and the number of the entries to read in a shard, from the nearer split to
    /// the position; one more, as the entry at the position may be next to the upper split.
    fn between(&self, shard: usize) -> (u64, u64) {
        let (low, high) = (self.low[shard], self.high[shard]);
        match self.above() <= self.below() {
            true => (low, (high - low).min(self.above()) + 1),
            false => {
                let count = (high - low).min(self.below());
                (high - count, count + 1)
            }
        }
    }

    /// The position, by the entries between it and the nearer split.
    fn found(&self, mut entries: Vec<Indexed>) -> AtPosition {
        entries.sort_unstable();
        let split = match self.above() <= self.below() {
            true => {
                let mut split = self.low.clone();
                for (_, shard, _) in entries.iter().take(self.above() as usize) {
                    split[*shard] += 1;
                }
                split
            }
            false => {
                let mut split = self.high.clone();
                let inside = entries.iter().filter(|(_, shard, index)| *index < self.high[*shard]);
                for (_, shard, _) in inside.rev().take(self.below() as usize) {
                    split[*shard] -= 1;
                }
                split
            }
        };
        let behind = entries.iter().find(|(_, shard, index)| *index >= split[*shard]);
        let entry = behind.map(|(entry, ..)| entry.clone());
        AtPosition { split: Split(split), entry }
    }
}

impl Store {
    /// The entries at positions and the splits there, in the order given. Three round trips at
    /// least: the sizes, then for each round the entries that are probed and, for each shard, one
    /// script that counts those before the pivots; at last the entries between the splits and the
    /// positions. About log(log(size)) rounds; 256 positions are found in one walk.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`, `Corrupt`; also `Unavailable` if entries move faster than they
    /// are counted.
    pub async fn at_positions(
        &self,
        standings: &Standings,
        positions: &[u64],
    ) -> Result<Vec<AtPosition>> {
        if positions.is_empty() {
            return Ok(vec![]);
        }
        let end = self.end(standings).await?;
        let mut wanted: Vec<u64> = positions.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|position| *position < end.position());
        let mut found: Vec<AtPosition> = Vec::with_capacity(wanted.len());
        for some in wanted.chunks(POSITIONS_MAX) {
            let all = some.iter().map(|&position| Brackets::new(position, &end.0)).collect();
            found.extend(self.search(standings, all).await?);
        }
        let at = |position: &u64| match wanted.binary_search(position) {
            Ok(index) => found[index].clone(),
            Err(_) => AtPosition { split: end.clone(), entry: None },
        };
        Ok(positions.iter().map(at).collect())
    }

    /// Narrows the brackets of positions until each is near a split, then reads what is between.
    async fn search(
        &self,
        standings: &Standings,
        mut all: Vec<Brackets>,
    ) -> Result<Vec<AtPosition>> {
        for _ in 0..ROUNDS_MAX {
            let is_far = |brackets: &&mut Brackets| brackets.distance() > NEAR_MAX;
            let probes: Vec<_> = all.iter_mut().filter(is_far).map(Brackets::probes).collect();
            if probes.is_empty() {
                return self.read_between(standings, &all).await;
            }
            let pivots = self.pivots(standings, &probes).await?;
            if pivots.is_empty() {
                break;
            }
            for brackets in &mut all {
                // The pivots next to the position on both sides narrow its brackets the most.
                let behind =
                    pivots.partition_point(|pivot| pivot.before.position() < brackets.position);
                for pivot in pivots[..behind].last().into_iter().chain(pivots.get(behind)) {
                    brackets.narrow(pivot);
                }
            }
        }
        Err(Error::Unavailable("entries move faster than they are counted; try again".into()))
    }

    /// The weighted median of the entries of each position's probes, and the number of entries
    /// before it in each shard; in order. Two round trips: a `ZRANGE` for each index that is
    /// probed, then a counting script for each shard.
    async fn pivots(
        &self,
        standings: &Standings,
        probes: &[Vec<(usize, u64, u64)>],
    ) -> Result<Vec<Pivot>> {
        let mut asked: Vec<(usize, u64)> =
            probes.iter().flatten().map(|&(shard, index, _)| (shard, index)).collect();
        asked.sort_unstable();
        asked.dedup();
        if asked.is_empty() {
            return Ok(vec![]);
        }
        let mut reads = Reads::new(self, standings);
        for &(shard, index) in &asked {
            reads.range(shard, index, 1);
        }
        let mut read: Vec<Option<RankedEntry>> = Vec::with_capacity(asked.len());
        for entries in reads.send::<Vec<(String, f64)>>().await? {
            read.push(ranked_entries(entries)?.pop());
        }
        let entry_at = |shard: usize, index: u64| {
            let place = asked.binary_search(&(shard, index)).ok()?;
            read[place].as_ref()
        };
        let mut entries: Vec<RankedEntry> = vec![];
        for probes in probes {
            let probed = probes.iter();
            let weighted = probed
                .filter_map(|&(shard, index, left)| Some((entry_at(shard, index)?.clone(), left)));
            entries.extend(weighted_median(weighted.collect()));
        }
        entries.sort_unstable();
        entries.dedup();
        let splits = self.splits_at(standings, &entries).await?;
        let pivot = |(entry, before): (RankedEntry, Split)| {
            let shard = standings.shard(&entry.member);
            Pivot { entry, shard, before }
        };
        let mut pivots: Vec<Pivot> = entries.into_iter().zip(splits).map(pivot).collect();
        // Their order by position is that by key and member, unless one of them has just moved.
        pivots
            .sort_by(|a, b| (a.before.position(), &a.entry).cmp(&(b.before.position(), &b.entry)));
        Ok(pivots)
    }

    /// The splits at entries that come in order, whether or not they exist. One round trip: for
    /// each shard a counting script for each 250 entries.
    pub(super) async fn splits_at(
        &self,
        standings: &Standings,
        places: &[RankedEntry],
    ) -> Result<Vec<Split>> {
        let shards = standings.partitions.len();
        let mut splits = vec![Split(vec![0; shards]); places.len()];
        if places.is_empty() {
            return Ok(splits);
        }
        let mut reads = Reads::new(self, standings);
        for shard in 0..shards {
            for some in places.chunks(PLACES_MAX) {
                reads.count_before(shard, some.iter());
            }
        }
        let answers: Vec<Vec<u64>> = reads.send().await?;
        let chunks = places.len().div_ceil(PLACES_MAX);
        for (shard, answers) in answers.chunks(chunks).enumerate() {
            for (split, count) in splits.iter_mut().zip(answers.iter().flatten()) {
                split.0[shard] = *count;
            }
        }
        Ok(splits)
    }

    /// Reads the entries between positions and their nearer splits. One round trip: a `ZRANGE` for
    /// each position and shard.
    async fn read_between(
        &self,
        standings: &Standings,
        all: &[Brackets],
    ) -> Result<Vec<AtPosition>> {
        let shards = standings.partitions.len();
        let mut reads = Reads::new(self, standings);
        for brackets in all {
            for shard in 0..shards {
                let (first, count) = brackets.between(shard);
                reads.range(shard, first, count);
            }
        }
        let answers: Vec<Vec<(String, f64)>> = reads.send().await?;
        let mut answers = answers.into_iter();
        let mut found = Vec::with_capacity(all.len());
        for brackets in all {
            let mut entries: Vec<Indexed> = vec![];
            for (shard, answer) in answers.by_ref().take(shards).enumerate() {
                let (first, _) = brackets.between(shard);
                let read = ranked_entries(answer)?.into_iter().zip(first..);
                entries.extend(read.map(|(entry, index)| (entry, shard, index)));
            }
            found.push(brackets.found(entries));
        }
        Ok(found)
    }
}

/// The entry that has half of the weight at or before it.
fn weighted_median(mut entries: Vec<(RankedEntry, u64)>) -> Option<RankedEntry> {
    entries.sort_unstable();
    let total: u64 = entries.iter().map(|(_, weight)| weight).sum();
    let mut passed = 0;
    entries.into_iter().find_map(|(entry, weight)| {
        passed += weight;
        (2 * passed >= total).then_some(entry)
    })
}
