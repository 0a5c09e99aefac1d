//! What the integrity diff and its repair need of Redis: how large sorted sets are, what members have in them at one moment, and the lists of periods.

use std::collections::HashMap;

use super::rolling::marks_of;
use crate::commit::Head;
use crate::error::Result;
use crate::id::{BoardNo, Partition};
use crate::roll::RollMark;
use crate::store::{Store, decode};

/// Members of one sorted set that are asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The key.
    pub key: String,
    /// The members, as bytes.
    pub members: Vec<Vec<u8>>,
}

/// What a partition held at one moment.
#[derive(Debug)]
pub struct Probe {
    /// The head.
    pub head: Head,
    /// How far the board's rolling windows had got, by series.
    pub rolls: HashMap<String, RollMark>,
    /// The doubles, in the order asked; `None` for a key that is no sorted set.
    pub doubles: Vec<Option<Vec<Option<f64>>>>,
}

impl Store {
    /// How many entries sorted sets have, 0 where a key is not there; `None` for a key of another type. Two round trips: a `TYPE`, then a `ZCARD` a key.
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

    /// A partition's head, how far a board's rolling windows have got in it, and members' doubles in sorted sets, at one moment. Two round trips: a `TYPE`
    /// a key; `GET`, `HGETALL` and a `ZMSCORE` a key, in a transaction; O(members).
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`.
    pub async fn probe(
        &self,
        partition: Partition,
        board: BoardNo,
        asked: &[Asked],
    ) -> Result<Probe> {
        let keys: Vec<String> = asked.iter().map(|asked| asked.key.clone()).collect();
        let kinds = match keys.is_empty() {
            true => vec![],
            false => self.kinds(&keys).await?,
        };
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
        let head = Self::check_level(partition, head.as_deref(), &run_id)?;
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

    /// What lists of periods say of labels: since when each is the present one, in Unix milliseconds; `None` where it is not listed, or the list is no
    /// sorted set. Two round trips: a `TYPE`, then a `ZSCORE` a label.
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

    /// The types of keys, as Redis names them: `zset`, `string`, `none`. One round trip: a `TYPE` a key.
    pub async fn types(&self, keys: &[String]) -> Result<Vec<String>> {
        match keys.is_empty() {
            true => Ok(vec![]),
            false => self.kinds(keys).await,
        }
    }
}
