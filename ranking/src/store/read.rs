//! Reads over the shards of one period's standings: sizes, keys, positions, pages.
//!
//! All reads share one order: rank key, then member bytes. A *split* is a place in that order,
//! given as the number of entries before it in each shard. Pages are merged from there, forward or
//! backward. Positions are 0-based.
//!
//! The shards of a server are read one right after the other, and several servers side by side. A
//! rank is that of an entry which its member had while the shards were counted; see `ranks`.
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
mod ranks;
pub(crate) mod requests;
pub mod search;

use std::sync::Arc;

use super::Store;
use super::read::requests::{Reads, group_by_shard};
use super::snapshot::keys_of;
use crate::board::Board;
use crate::board::rules::Rules;
use crate::error::{Error, Result};
use crate::id::{MemberId, PartitionNo};
use crate::score::rank_key::RankKey;
use crate::shard::shard_of;
use crate::standings_id::StandingsId;
use crate::window::Period;
use crate::window::roll::{Coverage, RollMark, Rolls};

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

    /// True if others of the same name lie in the same partitions by the same layout: a move to
    /// another number of shards leaves the name as it is.
    pub fn is_laid_out_as(&self, other: &Self) -> bool {
        self.partitions == other.partitions && self.layout_since == other.layout_since
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
        match rolls.reach(&self.id, &self.period, &self.rules.calendar)? {
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
