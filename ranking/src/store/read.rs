//! Reads over the shards of one period's standings: sizes, keys, positions, pages.
//!
//! All reads share one order: rank key, then member bytes. A *split* is a place in that order,
//! given as the number of entries before it in each shard. Pages are merged from there, forward or
//! backward. Positions are 0-based.
//!
//! S shards are read in one pipeline for each server that has some. Each pipeline also reads:
//! * the heads, so that no answer comes from a partition that is not level;
//! * for a rolling window, its progress, so that no read takes a period that is not rolled for an
//!   empty one;
//! * last, the window's seal marks, as a sealed period may have left Redis: the read then fails
//!   with `Sealed`;
//! * with them, the board's layout in each partition: if it is not the reader's, the answer may be
//!   partial and the read fails with `BoardMoved`. No reader knows a layout before all partitions
//!   have it.

pub mod around;
pub mod merge;
mod pages;
pub(crate) mod requests;
pub mod search;

use std::sync::Arc;

use super::read::requests::{Reads, group_by_shard};
use super::snapshot::keys_of;
use super::{Store, decode};
use crate::board::Board;
use crate::board::rules::Rules;
use crate::error::{Error, Result};
use crate::id::{MemberId, PartitionNo};
use crate::rank_key::RankKey;
use crate::roll::{Coverage, RollMark, Rolls};
use crate::shard::shard_of;
use crate::standings_id::StandingsId;
use crate::window::Period;

/// The most members in one `ZMSCORE`: all friends of a member.
const SCORES_MAX: usize = 10_000;

/// The most places in one counting script: each may bisect a run of equal keys.
const PLACES_MAX: usize = 250;

/// The most entries whose positions one pipeline asks for, so that others get their turn.
const POSITIONS_MAX: usize = 1000;

/// The standings to read.
#[derive(Debug, Clone)]
pub struct Standings {
    /// The board's rules.
    pub rules: Arc<Rules>,
    /// The name.
    pub id: StandingsId,
    /// The period.
    pub period: Period,
    /// Readers take periods that became the present one before this instant from SQL, as far as the
    /// caller knows. In Unix milliseconds.
    pub sealed_before_ms: i64,
    pub(crate) partitions: Vec<PartitionNo>,
    /// The generation that began the board's present layout; `None` while the layout is not in all
    /// partitions.
    layout_since: Option<u32>,
}

/// A range of periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Those that became the present one before an instant, newest first.
    Before(i64),
    /// Those that became the present one after an instant, oldest first.
    After(i64),
}

/// A member and its key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankedEntry {
    /// The key.
    pub key: RankKey,
    /// The member.
    pub member: MemberId,
}

/// A place in the order, as the number of entries before it in each shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split(pub(crate) Vec<u64>);

impl Split {
    /// The position of the place: the number of entries before it in all shards.
    pub fn position(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Standings {
    /// The standings of a board's segment in a period.
    pub fn new(store: &Store, board: &Board, id: StandingsId, period: Period) -> Self {
        let partitions =
            (0..board.rules.shards).map(|shard| store.partitions().of(board, shard)).collect();
        Self {
            rules: board.rules.clone(),
            sealed_before_ms: board.sealed(id.window).sealed_before_ms,
            id,
            period,
            partitions,
            layout_since: (!board.layouts.is_coming).then(|| board.layout_since()),
        }
    }

    /// True if SQL has these standings, as far as the caller knows.
    pub fn is_sealed(&self) -> bool {
        self.period.present_from_ms < self.sealed_before_ms
    }

    /// The partition of each shard.
    pub fn partitions(&self) -> &[PartitionNo] {
        &self.partitions
    }

    /// Checks that a partition with this mark of the series has every entry of the period; a
    /// partition without a mark has no entries at all.
    fn check_rolled(&self, mark: Option<RollMark>) -> Result<()> {
        let Some(mark) = mark else { return Ok(()) };
        let rolls = Rolls { marks: [(self.id.series(), mark)].into(), now_ms: 0 };
        match rolls.reach(&self.id, &self.period, &self.rules.zone)? {
            Coverage::Complete => Ok(()),
            _ => Err(Error::NotRolled(self.id.board.0)),
        }
    }

    fn shard(&self, member: &MemberId) -> usize {
        usize::from(shard_of(member, self.rules.shards))
    }

    fn key(&self, store: &Store, shard: usize) -> String {
        store.keys().standings(self.partitions[shard], &self.id)
    }
}

impl Store {
    /// The number of entries. One round trip: S `ZCARD`.
    pub async fn size(&self, standings: &Standings) -> Result<u64> {
        Ok(self.end(standings).await?.position())
    }

    /// The place after the last entry. One round trip: S `ZCARD`.
    pub async fn end(&self, standings: &Standings) -> Result<Split> {
        let mut reads = Reads::new(self, standings);
        for shard in 0..standings.partitions.len() {
            reads.pipe.cmd("ZCARD").arg(standings.key(self, shard));
        }
        Ok(Split(reads.send().await?))
    }

    /// The keys of members, in the order given. One round trip: a `ZMSCORE` for each shard
    /// concerned and 10,000 members; O(members).
    pub async fn rank_keys(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<RankKey>>> {
        let by_shard = group_by_shard(standings, members, |member| member);
        let mut reads = Reads::new(self, standings);
        for (shard, indices) in &by_shard {
            for chunk in indices.chunks(SCORES_MAX) {
                let command = reads.pipe.cmd("ZMSCORE").arg(standings.key(self, *shard));
                for &index in chunk {
                    command.arg(members[index].as_str());
                }
            }
        }
        if by_shard.is_empty() {
            return Ok(vec![]);
        }
        let answers: Vec<Vec<Option<f64>>> = reads.send().await?;
        let mut keys = vec![None; members.len()];
        let chunks = by_shard.iter().flat_map(|(_, indices)| indices.chunks(SCORES_MAX));
        for (chunk, scores) in chunks.zip(answers) {
            for (&index, key) in chunk.iter().zip(keys_of(scores)) {
                keys[index] = key?;
            }
        }
        Ok(keys)
    }

    /// The positions of entries; `None` for an entry that has since left. One round trip for each
    /// 1,000 entries: a `ZRANK` for each on its own shard, and for the S − 1 other shards one
    /// script for each 250 entries that counts those before them; O(entries · S · log(size)). A
    /// script reads a run of equal keys once for all of its entries.
    pub async fn positions(
        &self,
        standings: &Standings,
        entries: &[RankedEntry],
    ) -> Result<Vec<Option<u64>>> {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_unstable_by_key(|&index| &entries[index]);
        let mut positions = vec![None; entries.len()];
        for some in order.chunks(POSITIONS_MAX) {
            let shard = |&index: &usize| (index, standings.shard(&entries[index].member));
            let some: Vec<(usize, usize)> = some.iter().map(shard).collect();
            let found = self.some_positions(standings, entries, &some).await?;
            for ((index, _), position) in some.into_iter().zip(found) {
                positions[index] = position;
            }
        }
        Ok(positions)
    }

    /// The positions of some entries, which are given in order by their index and their shard.
    async fn some_positions(
        &self,
        standings: &Standings,
        entries: &[RankedEntry],
        some: &[(usize, usize)],
    ) -> Result<Vec<Option<u64>>> {
        let mut reads = Reads::new(self, standings);
        for &(index, own) in some {
            let member = entries[index].member.as_str();
            reads.pipe.cmd("ZRANK").arg(standings.key(self, own)).arg(member);
        }
        // Places in `some`, for each script.
        let mut lists: Vec<Vec<usize>> = vec![];
        for shard in 0..standings.partitions.len() {
            let others: Vec<usize> =
                (0..some.len()).filter(|&place| some[place].1 != shard).collect();
            for chunk in others.chunks(PLACES_MAX) {
                reads.count_before(shard, chunk.iter().map(|&place| &entries[some[place].0]));
                lists.push(chunk.to_vec());
            }
        }
        let mut answers = reads.send::<redis::Value>().await?.into_iter();
        let mut positions: Vec<Option<u64>> = Vec::with_capacity(some.len());
        for _ in some {
            positions.push(decode(answers.next())?);
        }
        for list in lists {
            let counts: Vec<u64> = decode(answers.next())?;
            for (place, count) in list.into_iter().zip(counts) {
                positions[place] = positions[place].map(|position| position + count);
            }
        }
        Ok(positions)
    }

    /// The entries and positions of members, in the order given; `None` for members without an
    /// entry. S = 1: one round trip, a `ZMSCORE` and a `ZRANK` for each member. Otherwise as
    /// [`Self::rank_keys`] and [`Self::positions`].
    pub async fn find(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<(RankedEntry, u64)>>> {
        let placed = |(key, member): (Option<RankKey>, &MemberId)| {
            let member = member.clone();
            key.map(|key| RankedEntry { key, member })
        };
        if standings.partitions.len() > 1 || members.is_empty() {
            let keys = self.rank_keys(standings, members).await?;
            let entries: Vec<Option<RankedEntry>> =
                keys.into_iter().zip(members).map(placed).collect();
            let there: Vec<RankedEntry> = entries.iter().flatten().cloned().collect();
            let mut positions = self.positions(standings, &there).await?.into_iter();
            let found = entries.into_iter().map(|entry| {
                let entry = entry?;
                Some((entry, positions.next().flatten()?))
            });
            return Ok(found.collect());
        }
        let (mut reads, key) = (Reads::new(self, standings), standings.key(self, 0));
        for chunk in members.chunks(SCORES_MAX) {
            let command = reads.pipe.cmd("ZMSCORE").arg(&key);
            for member in chunk {
                command.arg(member.as_str());
            }
        }
        for member in members {
            reads.pipe.cmd("ZRANK").arg(&key).arg(member.as_str());
        }
        let mut answers = reads.send::<redis::Value>().await?.into_iter();
        let mut keys = Vec::with_capacity(members.len());
        for _ in members.chunks(SCORES_MAX) {
            for key in keys_of(decode(answers.next())?) {
                keys.push(key?);
            }
        }
        let mut found = Vec::with_capacity(members.len());
        for entry in keys.into_iter().zip(members).map(placed) {
            let position: Option<u64> = decode(answers.next())?;
            found.push(entry.zip(position));
        }
        Ok(found)
    }

    /// The number of entries with a smaller key than each of these. One round trip: `ZCOUNT` for
    /// each key and shard; O(keys · S · log(size)).
    pub async fn counts_below(&self, standings: &Standings, keys: &[RankKey]) -> Result<Vec<u64>> {
        let mut reads = Reads::new(self, standings);
        for key in keys {
            for shard in 0..standings.partitions.len() {
                reads
                    .pipe
                    .cmd("ZCOUNT")
                    .arg(standings.key(self, shard))
                    .arg("-inf")
                    .arg(format!("({}", key.to_redis()));
            }
        }
        if keys.is_empty() {
            return Ok(vec![]);
        }
        let counts: Vec<u64> = reads.send().await?;
        Ok(counts.chunks(standings.partitions.len()).map(|shards| shards.iter().sum()).collect())
    }
}
