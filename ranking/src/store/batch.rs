//! What batch jobs need of Redis: entries as they are, right or wrong, and standings staged beside the live ones.

use std::collections::HashMap;
use std::time::Duration;

use redis::Pipeline;

use super::Store;
use super::roll::marks_of;
use super::write::PAIRS_MAX;
use crate::commit::Head;
use crate::error::{Error, Result};
use crate::id::{BoardNo, MemberId, Partition};
use crate::key::StandingsId;
use crate::rank_key::RankKey;
use crate::roll::RollMark;

/// How long a staged standings outlives a job that crashed.
pub(super) const STAGE_LIFETIME: Duration = Duration::from_secs(3600);

/// How many pairs one pipeline carries.
const PIPELINE_PAIRS: usize = 20 * PAIRS_MAX;

/// Members as bytes and their doubles.
pub type RawEntries = Vec<(Vec<u8>, f64)>;

impl Store {
    /// Every key that lies where standings do, with its partition, of all boards or one; foreign names included.
    /// `SCAN` on all servers: several round trips, O(keys of the servers).
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn all_standings_keys(
        &self,
        board: Option<BoardNo>,
    ) -> Result<Vec<(Partition, String)>> {
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

    /// The entries of sorted sets as they are: member bytes and double, in order, at most `count` of each from `start` on; `None` for a
    /// key that is no sorted set. Two round trips: a `TYPE`, then a `ZRANGE` a key.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn raw_entries(
        &self,
        keys: &[String],
        start: usize,
        count: usize,
    ) -> Result<Vec<Option<RawEntries>>> {
        let kinds = self.kinds(keys).await?;
        let mut pipe = redis::pipe();
        for (key, _) in keys.iter().zip(&kinds).filter(|(_, kind)| *kind == "zset") {
            pipe.cmd("ZRANGE")
                .arg(key)
                .arg(start)
                .arg(start + count - 1)
                .arg("WITHSCORES");
        }
        let mut entries = vec![].into_iter();
        if !pipe.is_empty() {
            entries = self.read_many(&pipe).await?.values.into_iter();
        }
        let of_kind = |kind: String| match kind.as_str() {
            "zset" => Ok(Some(super::decode(entries.next())?)),
            "none" => Ok(Some(vec![])),
            _ => Ok(None),
        };
        kinds.into_iter().map(of_kind).collect()
    }

    /// A partition's head, how far a board's rolling windows have got in it, and one member's doubles in sorted sets, at one moment; none where
    /// a key is no sorted set. Two round trips: a `TYPE` a key; `GET`, `HGETALL` and a `ZSCORE` a key, in a transaction.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`.
    pub async fn probe(
        &self,
        partition: Partition,
        board: BoardNo,
        keys: &[String],
        member: &[u8],
    ) -> Result<(Head, HashMap<String, RollMark>, Vec<Option<f64>>)> {
        let kinds = self.kinds(keys).await?;
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("GET").arg(self.keys().head(partition));
        pipe.cmd("HGETALL").arg(self.keys().rolls(partition, board));
        for (key, _) in keys.iter().zip(&kinds).filter(|(_, kind)| *kind == "zset") {
            pipe.cmd("ZSCORE").arg(key).arg(member);
        }
        let (mut answers, run_id): (Vec<redis::Value>, _) = self.read(&pipe).await?;
        let doubles = answers.split_off(2);
        let marks = marks_of(super::decode(answers.pop())?)?;
        let head: Option<String> = super::decode(answers.pop())?;
        let head = Self::check_level(partition, head.as_deref(), &run_id)?;
        let mut doubles = doubles.into_iter();
        let double = |kind: &String| {
            if kind == "zset" {
                super::decode(doubles.next())
            } else {
                Ok(None)
            }
        };
        let doubles = kinds.iter().map(double).collect::<Result<_>>()?;
        Ok((head, marks, doubles))
    }

    async fn kinds(&self, keys: &[String]) -> Result<Vec<String>> {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("TYPE").arg(key);
        }
        let kinds = self.read_many(&pipe).await?.values.into_iter();
        kinds.map(|kind| super::decode(Some(kind))).collect()
    }

    /// Writes a standings to its stage, whose key it gives back; it expires unless it is swapped in. Pipelines of sorted variadic `ZADD`.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn stage(
        &self,
        partition: Partition,
        commit: &str,
        id: &StandingsId,
        entries: &[(MemberId, RankKey)],
    ) -> Result<String> {
        let key = self.keys().stage(partition, commit, id);
        for part in entries.chunks(PIPELINE_PAIRS) {
            let mut pipe = Pipeline::new();
            for chunk in part.chunks(PAIRS_MAX) {
                let command = pipe.cmd("ZADD").arg(&key);
                for (member, rank_key) in chunk {
                    command.arg(rank_key.to_redis()).arg(member.as_str());
                }
            }
            pipe.cmd("PEXPIRE")
                .arg(&key)
                .arg(STAGE_LIFETIME.as_millis() as u64);
            self.read_many(&pipe).await?;
        }
        let mut size = redis::pipe();
        size.cmd("ZCARD").arg(&key);
        let ((staged,), _): ((usize,), _) = self.read(&size).await?;
        if staged != entries.len() {
            return Err(Error::Unavailable(
                "Redis lost a part of what was staged; try again".into(),
            ));
        }
        Ok(key)
    }
}
