//! The reads of the integrity diff and its repair: sizes of sorted sets, members' doubles at one
//! moment, and the lists of periods.

use std::collections::HashMap;

use super::rolling::marks_of;
use crate::commit::Head;
use crate::error::Result;
use crate::id::{BoardNo, PartitionNo};
use crate::store::{Store, decode};
use crate::window::roll::RollMark;

/// A request for members of one sorted set.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The key.
    pub key: String,
    /// The members, as bytes.
    pub members: Vec<Vec<u8>>,
}

/// A part of a partition, at one moment.
#[derive(Debug)]
pub struct Probe {
    /// The head.
    pub head: Head,
    /// The marks of the board's rolling windows, by series.
    pub rolls: HashMap<String, RollMark>,
    /// The doubles, in the order of the request; `None` for a key of another type.
    pub doubles: Vec<Option<Vec<Option<f64>>>>,
}

impl Store {
    /// The sizes of sorted sets, 0 for a missing key; `None` for a key of another type. Two round
    /// trips: a `TYPE`, then a `ZCARD` for each key.
    pub async fn sizes(&self, keys: &[String]) -> Result<Vec<Option<u64>>> {
        let kinds = self.kinds(keys).await?;
        let mut pipe = redis::pipe();
        for (key, _) in keys.iter().zip(&kinds).filter(|(_, kind)| *kind == "zset") {
            pipe.cmd("ZCARD").arg(key);
        }
        let mut sizes = vec![].into_iter();
        if !pipe.is_empty() {
            sizes = self.read_many(&pipe).await?.values.into_iter();
        }
        let of_kind = |kind: String| match kind.as_str() {
            "zset" => Ok(Some(decode(sizes.next())?)),
            "none" => Ok(Some(0)),
            _ => Ok(None),
        };
        kinds.into_iter().map(of_kind).collect()
    }

    /// A partition's head, the marks of a board's rolling windows, and members' doubles in sorted
    /// sets, at one moment. Two round trips: a `TYPE` for each key; then `GET`, `HGETALL` and a
    /// `ZMSCORE` for each key, in a transaction; O(members).
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`.
    pub async fn probe(
        &self,
        partition: PartitionNo,
        board: BoardNo,
        asked: &[Asked],
    ) -> Result<Probe> {
        let keys: Vec<String> = asked.iter().map(|asked| asked.key.clone()).collect();
        let kinds = self.kinds(&keys).await?;
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("GET").arg(self.keys().head(partition));
        pipe.cmd("HGETALL").arg(self.keys().rolls(partition, board));
        let is_there = |kind: &str| kind == "zset" || kind == "none";
        for (asked, _) in asked.iter().zip(&kinds).filter(|(_, kind)| is_there(kind)) {
            pipe.cmd("ZMSCORE").arg(&asked.key).arg(&asked.members);
        }
        let (answers, run_id): (Vec<redis::Value>, _) = self.read(&pipe).await?;
        let mut answers = answers.into_iter();
        let head: Option<String> = decode(answers.next())?;
        let head = self.check_level(partition, head.as_deref(), &run_id)?;
        let rolls = marks_of(decode(answers.next())?)?;
        let mut doubles = vec![];
        for (asked, kind) in asked.iter().zip(&kinds) {
            if !is_there(kind) {
                doubles.push(None);
                continue;
            }
            let found: Option<Vec<Option<f64>>> = decode(answers.next())?;
            doubles.push(Some(found.unwrap_or_else(|| vec![None; asked.members.len()])));
        }
        Ok(Probe { head, rolls, doubles })
    }

    /// The instants in lists of periods at which labels became present, in Unix milliseconds;
    /// `None` if the label is not listed or the list is of another type. Two round trips: a `TYPE`,
    /// then a `ZSCORE` for each label.
    pub async fn listed(&self, labels: &[(String, String)]) -> Result<Vec<Option<f64>>> {
        if labels.is_empty() {
            return Ok(vec![]);
        }
        let lists: Vec<String> = labels.iter().map(|(list, _)| list.clone()).collect();
        let kinds = self.kinds(&lists).await?;
        let mut pipe = redis::pipe();
        let is_list = |kind: &String| kind == "zset";
        for ((list, label), _) in labels.iter().zip(&kinds).filter(|(_, kind)| is_list(kind)) {
            pipe.cmd("ZSCORE").arg(list).arg(label);
        }
        let mut starts = vec![].into_iter();
        if !pipe.is_empty() {
            starts = self.read_many(&pipe).await?.values.into_iter();
        }
        let start = |kind: &String| match is_list(kind) {
            true => decode(starts.next()),
            false => Ok(None),
        };
        kinds.iter().map(start).collect()
    }
}
