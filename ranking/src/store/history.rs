//! What a change of a member's history, or of a whole board, needs of Redis: the tail that SQL does not have yet, and the board's keys.

use std::collections::{BTreeSet, HashMap};

use futures::future::join_all;

use super::read::Standings;
use super::scan::rolling::marks_of;
use super::write::entries_of;
use super::{Store, decode};
use crate::board::mark::BoardMark;
use crate::commit::{Commit, Head};
use crate::error::Result;
use crate::id::{BoardNo, Partition};
use crate::roll::RollMark;
use crate::seal::{SealMark, SealName};

/// How many periods are looked at in one round trip.
const PERIODS_MAX: usize = 500;

/// The end of a partition's history, at one moment.
#[derive(Debug)]
pub struct Tail {
    /// The head.
    pub head: Head,
    /// The commits after the one asked for, oldest first.
    pub commits: Vec<Commit>,
    /// What became of the board.
    pub board: BoardMark,
    /// How far its rolling windows have got, by series.
    pub rolls: HashMap<String, RollMark>,
    /// How far each window asked for is sealed.
    pub seals: Vec<SealMark>,
    /// What the event id asked for was accepted as.
    pub seen: Option<String>,
}

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

/// How long a partition's log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLength {
    /// How many commits are in it.
    pub commits: u64,
    /// The head's seq, whether the partition is level or not; `None` where there is no head.
    pub seq: Option<u64>,
}

impl Store {
    /// How long each partition's log is; `None` where its server does not answer. One round trip a server: `XLEN` and `GET` a partition.
    ///
    /// # Errors
    /// `Unavailable` where no server answers.
    pub async fn log_lengths(&self) -> Result<Vec<Option<LogLength>>> {
        let groups = self.inner.cluster.map().await?.by_server();
        let asked = join_all(groups.iter().map(|group| self.log_lengths_of(group))).await;
        if let Some(Err(error)) = asked.first()
            && asked.iter().all(Result::is_err)
        {
            return Err(error.clone());
        }
        let mut lengths: Vec<(Partition, Option<LogLength>)> = vec![];
        for (group, asked) in groups.into_iter().zip(asked) {
            match asked {
                Ok(asked) => lengths.extend(group.into_iter().zip(asked.into_iter().map(Some))),
                Err(_) => lengths.extend(group.into_iter().map(|one| (one, None))),
            }
        }
        lengths.sort_unstable_by_key(|(partition, _)| *partition);
        Ok(lengths.into_iter().map(|(_, length)| length).collect())
    }

    async fn log_lengths_of(&self, partitions: &[Partition]) -> Result<Vec<LogLength>> {
        let mut pipe = redis::pipe();
        for &partition in partitions {
            pipe.cmd("XLEN").arg(self.keys().log(partition));
            pipe.cmd("GET").arg(self.keys().head(partition));
        }
        let answers = self.read_many(&pipe).await?.values;
        let mut values = answers.into_iter();
        let length = |_| {
            let commits = decode(values.next())?;
            let head: Option<String> = decode(values.next())?;
            let head = head.and_then(|head| Head::parse(&head).ok());
            Ok(LogLength { commits, seq: head.map(|head| head.seq) })
        };
        partitions.iter().map(length).collect()
    }

    /// The commits after `seq`, at most `count`, with the marks of a board, those of some seals, and the value of an event id (a seen hash and its
    /// field). One round trip: `GET`, `XRANGE`, `HMGET`, `HGETALL`, `HGET` in a transaction.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`; `Corrupt` where an entry is none of ours.
    pub async fn tail(
        &self,
        partition: Partition,
        seq: u64,
        count: usize,
        board: BoardNo,
        seals: &[SealName],
        seen: Option<(i64, &str)>,
    ) -> Result<Tail> {
        let keys = self.keys();
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("GET").arg(keys.head(partition));
        pipe.cmd("XRANGE")
            .arg(keys.log(partition))
            .arg(format!("{}-0", seq + 1))
            .arg("+")
            .arg("COUNT")
            .arg(count);
        let marks = pipe.cmd("HMGET").arg(keys.board_marks(partition)).arg(board.0);
        for seal in seals {
            marks.arg(seal.field());
        }
        pipe.cmd("HGETALL").arg(keys.rolls(partition, board));
        if let Some((bucket, field)) = seen {
            pipe.cmd("HGET").arg(keys.seen(partition, bucket)).arg(field);
        }
        let (answers, run_id): (Vec<redis::Value>, _) = self.read(&pipe).await?;
        let mut answers = answers.into_iter();
        let head: Option<String> = decode(answers.next())?;
        let head = Self::check_level(partition, head.as_deref(), &run_id)?;
        let commits = entries_of(partition, decode(answers.next())?)?
            .into_iter()
            .map(|(seq, text)| Commit::from_log(seq, &text))
            .collect::<Result<_>>()?;
        let marks: Vec<Option<String>> = decode(answers.next())?;
        let mut marks = marks.into_iter();
        let board = BoardMark::parse(marks.next().flatten().as_deref())?;
        Ok(Tail {
            head,
            commits,
            board,
            seals: marks.map(|mark| SealMark::parse(mark.as_deref())).collect::<Result<_>>()?,
            rolls: marks_of(decode(answers.next())?)?,
            seen: match seen {
                Some(_) => decode(answers.next())?,
                None => None,
            },
        })
    }

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
            let mut reads = super::read::Reads::new(self, standings);
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
        let mut reads = super::read::Reads::new(self, standings);
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
