//! The periods that have entries, and a board's keys.

use super::Store;
use super::read::Standings;
use crate::error::Result;
use crate::id::{BoardNo, Partition};
use std::collections::BTreeSet;

/// How many periods are looked at in one round trip.
const PERIODS_MAX: usize = 500;

/// A period that has entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Began {
    /// Since when it is the present one, in Unix milliseconds.
    pub present_from_ms: i64,
    /// Its label.
    pub label: String,
}

/// Which periods are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Those that became the present one before an instant, newest first.
    Before(i64),
    /// Those that became the present one after an instant, oldest first.
    After(i64),
}

impl Store {
    /// The names of all keys that a partition has of a board: standings, lists of periods, marks of rolling windows. `SCAN`: several round trips, O(keys of the server).
    pub async fn board_keys(&self, partition: Partition, board: BoardNo) -> Result<Vec<String>> {
        let mut found = self.standings_keys(partition, Some(board)).await?;
        found.extend(self.periods_keys(partition, board).await?);
        found.push(self.keys().rolls(partition, board));
        Ok(found)
    }

    /// The names of all standings and lists of periods that partitions have of a board. `SCAN` on all servers: several round trips, O(keys of the servers).
    pub async fn all_board_keys(&self, board: BoardNo) -> Result<Vec<(Partition, String)>> {
        let mut keys = self.all_standings_keys(Some(board)).await?;
        let pattern = self.keys().any_periods_pattern(board);
        for partitions in self.inner.cluster.map().await?.by_server() {
            let lists = self.scan(partitions[0], &pattern).await?.into_iter();
            keys.extend(lists.filter_map(|key| Some((self.keys().partition_of(&key)?, key))));
        }
        Ok(keys)
    }

    /// The names of a board's lists of periods in a partition. `SCAN`: several round trips, O(keys of the server).
    pub async fn periods_keys(&self, partition: Partition, board: BoardNo) -> Result<Vec<String>> {
        let pattern = self.keys().periods_pattern(partition, Some(board));
        self.scan(partition, &pattern).await
    }

    /// Up to `limit` periods of a standings' board, segment and window that have entries; the standings' own period does not matter.
    /// Two round trips per 500 periods looked at: a `ZRANGE` by start a shard, then an `EXISTS` a period and shard.
    pub async fn periods(
        &self,
        standings: &Standings,
        range: Range,
        limit: usize,
    ) -> Result<Vec<Began>> {
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

    /// The next periods that any shard has listed, each once, in the order of the range: entries or not.
    async fn listed_periods(&self, standings: &Standings, range: Range) -> Result<Vec<Began>> {
        let mut reads = super::read::requests::Reads::new(self, standings);
        for shard in 0..standings.partitions.len() {
            reads.periods(shard, range, PERIODS_MAX);
        }
        let lists: Vec<Vec<(String, f64)>> = reads.send().await?;
        // Beyond the end of a list that was cut short, others may have periods that it has too.
        let mut all = BTreeSet::new();
        let mut ends = vec![];
        for list in lists {
            let list: Vec<Began> = list
                .into_iter()
                .map(|(label, from)| Began { present_from_ms: from as i64, label })
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
