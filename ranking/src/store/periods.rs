//! The lists of periods with entries, and a board's keys.

use super::Store;
use super::read::{Range, Standings};
use crate::error::Result;
use crate::id::{BoardNo, PartitionNo};
use std::collections::BTreeSet;

/// The most periods read in one round trip.
const PERIODS_MAX: usize = 500;

/// A listed period.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedPeriod {
    /// The instant at which it became the present one, in Unix milliseconds.
    pub present_from_ms: i64,
    /// The label.
    pub label: String,
}

impl Store {
    /// All keys of a board in a partition: standings, lists of periods, marks of rolling windows.
    /// `SCAN`: several round trips, O(keys of the server).
    pub async fn board_keys(&self, partition: PartitionNo, board: BoardNo) -> Result<Vec<String>> {
        let mut found = self.standings_keys(partition, Some(board)).await?;
        found.extend(self.periods_keys(partition, board).await?);
        found.push(self.keys().rolls(partition, board));
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
    /// whatever their own period. Two round trips for each 500 listed periods: a `ZRANGE` by start
    /// for each shard, then an `EXISTS` for each period and shard.
    pub async fn periods(
        &self,
        standings: &Standings,
        range: Range,
        limit: usize,
    ) -> Result<Vec<ListedPeriod>> {
        let (mut found, mut range) = (vec![], range);
        loop {
            let listed = self.listed_periods(standings, range).await?;
            let Some(last) = listed.last() else {
                return Ok(found);
            };
            range = match range {
                Range::Before(_) => Range::Before(last.present_from_ms),
                Range::After(_) => Range::After(last.present_from_ms),
            };
            let mut reads = super::read::requests::Reads::new(self, standings);
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

    /// The next periods that any shard lists, each once, in the order of the range, with or without
    /// entries.
    async fn listed_periods(
        &self,
        standings: &Standings,
        range: Range,
    ) -> Result<Vec<ListedPeriod>> {
        let mut reads = super::read::requests::Reads::new(self, standings);
        for shard in 0..standings.partitions.len() {
            reads.periods(shard, range, PERIODS_MAX);
        }
        let lists: Vec<Vec<(String, f64)>> = reads.send().await?;
        // Past the end of a truncated list, periods of its shard may be missing: the next round
        // reads them.
        let mut all = BTreeSet::new();
        let mut ends = vec![];
        for list in lists {
            let list: Vec<ListedPeriod> = list
                .into_iter()
                .map(|(label, from)| ListedPeriod { present_from_ms: from as i64, label })
                .collect();
            if list.len() == PERIODS_MAX {
                ends.extend(list.last().map(|began| began.present_from_ms));
            }
            all.extend(list);
        }
        Ok(match range {
            Range::Before(_) => {
                let end = ends.into_iter().max().unwrap_or(i64::MIN);
                all.into_iter().rev().filter(|began| began.present_from_ms >= end).collect()
            }
            Range::After(_) => {
                let end = ends.into_iter().min().unwrap_or(i64::MAX);
                all.into_iter().filter(|began| began.present_from_ms <= end).collect()
            }
        })
    }
}
