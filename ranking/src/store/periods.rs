//! The lists of periods with entries, and a board's keys.

use super::Store;
use super::read::requests::Reads;
use super::read::{Range, Standings};
use crate::error::{Error, Result};
use crate::id::{BoardNo, PartitionNo};
use crate::window::ListedPeriod;
use std::collections::BTreeSet;

/// The most periods read in one round trip, and the fewest: some of them may have no entry.
const PERIODS_MAX: usize = 500;
const PERIODS_MIN: usize = 8;

/// The most periods of a shard in one round trip that counts them.
const COUNTED_MAX: usize = 5000;

impl Store {
    /// All keys of a board in a partition: standings, lists of periods, marks of rolling windows,
    /// entrants, positions. `SCAN`: several round trips, O(keys of the server).
    pub async fn board_keys(&self, partition: PartitionNo, board: BoardNo) -> Result<Vec<String>> {
        let mut found = self.standings_keys(partition, Some(board)).await?;
        found.extend(self.periods_keys(partition, board).await?);
        found.push(self.keys().rolls(partition, board));
        let entrants = self.keys().entrants_pattern(partition, Some(board));
        found.extend(self.scan(partition, &entrants).await?);
        let positions = self.keys().positions_pattern(partition, board);
        found.extend(self.scan(partition, &positions).await?);
        Ok(found)
    }

    /// All keys of a board's standings and lists of periods, in all partitions. `SCAN` on all
    /// servers: several round trips, O(keys of the servers).
    pub async fn all_board_keys(&self, board: BoardNo) -> Result<Vec<(PartitionNo, String)>> {
        let mut keys = self.all_standings_keys(Some(board)).await?;
        let pattern = self.keys().any_periods_pattern(board);
        for partitions in self.inner.cluster.map().await?.by_server() {
            let lists = self.scan(partitions[0], &pattern).await?.into_iter();
            keys.extend(lists.filter_map(|key| Some((self.keys().partition_of(&key)?, key))));
        }
        Ok(keys)
    }

    /// The keys of a board's lists of periods in a partition. `SCAN`: several round trips, O(keys
    /// of the server).
    pub async fn periods_keys(
        &self,
        partition: PartitionNo,
        board: BoardNo,
    ) -> Result<Vec<String>> {
        let pattern = self.keys().periods_pattern(partition, Some(board));
        self.scan(partition, &pattern).await
    }

    /// Up to `limit` periods with entries of the board, segment and window of these standings,
    /// whatever their own period. Two round trips for as many listed periods as are asked for, 500
    /// at most: a `ZRANGE` by start for each shard, then an `EXISTS` for each period and shard.
    /// Where some have no entries, two more for twice as many.
    pub async fn periods(
        &self,
        standings: &Standings,
        range: Range,
        limit: usize,
    ) -> Result<Vec<ListedPeriod>> {
        let (mut found, mut range) = (vec![], range);
        let mut count = limit.clamp(PERIODS_MIN, PERIODS_MAX);
        loop {
            let listed = merged(self.lists_of_periods(standings, range, count).await?, range);
            count = (2 * count).min(PERIODS_MAX);
            let Some(last) = listed.last() else {
                return Ok(found);
            };
            range = match range {
                Range::Before(_) => Range::Before(last.present_from_ms),
                Range::After(_) => Range::After(last.present_from_ms),
            };
            let mut reads = Reads::new(self, standings);
            for began in &listed {
                reads.exist(&began.label);
            }
            let exist: Vec<usize> = reads.send().await?;
            let there = exist.chunks(standings.partitions.len());
            let there = listed.into_iter().zip(there);
            found.extend(
                there
                    .filter(|(_, exist)| exist.iter().any(|&exists| exists > 0))
                    .map(|(began, _)| began)
                    .take(limit - found.len()),
            );
            if found.len() == limit {
                return Ok(found);
            }
        }
    }

    /// The number of periods with entries of the board, segment and window of these standings, from
    /// one instant to before another. Two round trips for each 5,000 listed periods: a `ZRANGE` by
    /// start and an `EXISTS` of all that is listed for each shard; a third one if some of those
    /// have lost their entries.
    pub async fn count_periods(
        &self,
        standings: &Standings,
        from_ms: i64,
        before_ms: i64,
    ) -> Result<u64> {
        let (mut count, mut range) = (0, Range::Before(before_ms));
        loop {
            let lists = self.lists_of_periods(standings, range, COUNTED_MAX).await?;
            let mut shards = lists.clone();
            for list in &mut shards {
                list.retain(|listed| listed.present_from_ms >= from_ms);
            }
            let listed = merged(lists, range);
            let Some(last) = listed.last() else {
                return Ok(count);
            };
            range = Range::Before(last.present_from_ms);
            let is_end = last.present_from_ms < from_ms;
            let listed = listed.into_iter().filter(|listed| listed.present_from_ms >= from_ms);
            count += self.count_existing(standings, listed.collect(), &shards).await?;
            if is_end {
                return Ok(count);
            }
        }
    }

    /// The number of these periods that have entries; `shards` are the periods that each shard
    /// lists, and maybe others.
    async fn count_existing(
        &self,
        standings: &Standings,
        listed: BTreeSet<ListedPeriod>,
        shards: &[Vec<ListedPeriod>],
    ) -> Result<u64> {
        let asked: Vec<(usize, &Vec<ListedPeriod>)> =
            shards.iter().enumerate().filter(|(_, list)| !list.is_empty()).collect();
        let mut left = listed;
        let all = left.len();
        if !asked.is_empty() {
            let mut reads = Reads::new(self, standings);
            for (shard, list) in &asked {
                reads.exist_all(*shard, list.iter().map(|listed| &listed.label));
            }
            // While a slot moves, a cluster refuses to look at several keys at once.
            let exist = match reads.send::<usize>().await {
                Err(Error::Unavailable(_)) => vec![0; asked.len()],
                exist => exist?,
            };
            for ((_, list), count) in asked.into_iter().zip(exist) {
                if count == list.len() {
                    for listed in list {
                        left.remove(listed);
                    }
                }
            }
        }
        let mut there = all - left.len();
        let left: Vec<ListedPeriod> = left.into_iter().collect();
        for some in left.chunks(PERIODS_MAX) {
            let mut reads = Reads::new(self, standings);
            for listed in some {
                reads.exist(&listed.label);
            }
            let exist: Vec<usize> = reads.send().await?;
            let exist = exist.chunks(standings.partitions().len());
            there += exist.filter(|exist| exist.iter().any(|&exists| exists > 0)).count();
        }
        Ok(there as u64)
    }

    /// The next periods that each shard lists, up to `count`, in the order of the range, with or
    /// without entries. A longer list is cut there. Beyond its end, periods of its shard may be
    /// missing, so no list goes beyond it: the next round reads them.
    async fn lists_of_periods(
        &self,
        standings: &Standings,
        range: Range,
        count: usize,
    ) -> Result<Vec<Vec<ListedPeriod>>> {
        let mut reads = Reads::new(self, standings);
        for shard in 0..standings.partitions.len() {
            reads.periods(shard, range, count);
        }
        let answers: Vec<Vec<(String, f64)>> = reads.send().await?;
        let period =
            |(label, from): (String, f64)| ListedPeriod { present_from_ms: from as i64, label };
        let mut lists: Vec<Vec<ListedPeriod>> =
            answers.into_iter().map(|list| list.into_iter().map(period).collect()).collect();
        let cut = lists.iter().filter(|list| list.len() == count);
        let ends = cut.filter_map(|list| list.last()).map(|listed| listed.present_from_ms);
        let end = match range {
            Range::Before(_) => ends.max(),
            Range::After(_) => ends.min(),
        };
        if let Some(end) = end {
            for list in &mut lists {
                list.retain(|listed| match range {
                    Range::Before(_) => listed.present_from_ms >= end,
                    Range::After(_) => listed.present_from_ms <= end,
                });
            }
        }
        Ok(lists)
    }
}

/// The periods of lists, each once, in the order of a range.
fn merged(lists: Vec<Vec<ListedPeriod>>, range: Range) -> Vec<ListedPeriod> {
    let all: BTreeSet<ListedPeriod> = lists.into_iter().flatten().collect();
    match range {
        Range::Before(_) => all.into_iter().rev().collect(),
        Range::After(_) => all.into_iter().collect(),
    }
}
