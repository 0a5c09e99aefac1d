//! The reads of batch jobs: raw entries, right or wrong.

use crate::error::Result;
use crate::id::{BoardNo, PartitionNo};
use crate::store::Store;

/// Members as bytes and their doubles.
pub type RawEntries = Vec<(Vec<u8>, f64)>;

impl Store {
    /// Every key with the pattern of standings, with its partition, of all boards or one; foreign
    /// keys included. `SCAN` on all servers: several round trips, O(keys of the servers).
    pub async fn all_standings_keys(
        &self,
        board: Option<BoardNo>,
    ) -> Result<Vec<(PartitionNo, String)>> {
        let pattern = self.keys().any_standings_pattern(board);
        let mut keys = vec![];
        for partitions in self.inner.cluster.map().await?.by_server() {
            keys.extend(self.scan(partitions[0], &pattern).await?);
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys
            .into_iter()
            .filter_map(|key| Some((self.keys().partition_of(&key)?, key)))
            .collect())
    }

    /// The raw entries of sorted sets: member bytes and double, in order, at most `count` of each
    /// from `start` on; `None` for a key of another type. Two round trips: a `TYPE`, then a
    /// `ZRANGE` for each key.
    pub async fn raw_entries(
        &self,
        keys: &[String],
        start: usize,
        count: usize,
    ) -> Result<Vec<Option<RawEntries>>> {
        let kinds = self.kinds(keys).await?;
        let mut pipe = redis::pipe();
        for (key, _) in keys.iter().zip(&kinds).filter(|(_, kind)| *kind == "zset") {
            pipe.cmd("ZRANGE").arg(key).arg(start).arg(start + count - 1).arg("WITHSCORES");
        }
        let mut entries = vec![].into_iter();
        if !pipe.is_empty() {
            entries = self.read_many(&pipe).await?.values.into_iter();
        }
        let of_kind = |kind: String| match kind.as_str() {
            "zset" => Ok(Some(crate::store::decode(entries.next())?)),
            "none" => Ok(Some(vec![])),
            _ => Ok(None),
        };
        kinds.into_iter().map(of_kind).collect()
    }

    /// The payloads of keys, for [`decode`](crate::store::stage::payload::decode); `None` for a
    /// missing key. Pipelined `DUMP`, one round trip; O(entries). Each `DUMP` blocks its server:
    /// mind the sizes beside live traffic.
    pub async fn dump(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("DUMP").arg(key);
        }
        if pipe.is_empty() {
            return Ok(vec![]);
        }
        let payloads = self.read_many(&pipe).await?.values.into_iter();
        let payload = |value| match value {
            redis::Value::BulkString(payload) => Ok(Some(payload)),
            redis::Value::Nil => Ok(None),
            other => crate::store::decode(Some(other)),
        };
        payloads.map(payload).collect()
    }

    /// The types of keys, as Redis names them: `zset`, `string`, `none`. One round trip: a `TYPE`
    /// for each key.
    pub async fn kinds(&self, keys: &[String]) -> Result<Vec<String>> {
        if keys.is_empty() {
            return Ok(vec![]);
        }
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("TYPE").arg(key);
        }
        let kinds = self.read_many(&pipe).await?.values.into_iter();
        kinds.map(|kind| crate::store::decode(Some(kind))).collect()
    }
}
