//! What a board's move to another number of shards needs of Redis: stages that are changed until they are put in place, and a board's event ids.

use std::collections::HashMap;

use super::Store;
use super::batch::STAGE_LIFETIME;
use super::write::PAIRS_MAX;
use crate::error::Result;
use crate::id::{BoardNo, MemberId, Partition};
use crate::rank_key::RankKey;
use crate::seen::seen_prefix;

/// How many fields one `HSCAN` looks at.
const FIELDS_MAX: usize = 1000;

/// How many keys are asked for in one round trip.
const KEYS_MAX: usize = 1000;

impl Store {
    /// Notes that stages of a name begin: whoever finds the note later knows that Redis lost none of them. One round trip: `SET PX`.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn begin_stages(&self, partition: Partition, name: &str) -> Result<()> {
        let mut pipe = redis::pipe();
        pipe.cmd("SET")
            .arg(self.keys().stage_mark(partition, name))
            .arg(1)
            .arg("PX")
            .arg(STAGE_LIFETIME.as_millis() as u64);
        self.read_many(&pipe).await?;
        Ok(())
    }

    /// Has stages of a name live on; how many entries each has, or `None` where Redis lost some of them. Round trips: one per 1,000 stages, a `PEXPIRE` and a
    /// `ZCARD` each.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    pub async fn keep_stages(
        &self,
        partition: Partition,
        name: &str,
        stages: &[&str],
    ) -> Result<Option<Vec<u64>>> {
        let lifetime_ms = STAGE_LIFETIME.as_millis() as u64;
        let mut sizes = Vec::with_capacity(stages.len());
        for chunk in stages.chunks(KEYS_MAX) {
            let mut pipe = redis::pipe();
            for stage in chunk {
                pipe.cmd("PEXPIRE").arg(stage).arg(lifetime_ms);
                pipe.cmd("ZCARD").arg(stage);
            }
            let answers = self.read_many(&pipe).await?.values.into_iter();
            for size in answers.skip(1).step_by(2) {
                sizes.push(super::decode(Some(size))?);
            }
        }
        // Last: a flush before it is seen.
        let mut pipe = redis::pipe();
        pipe.cmd("PEXPIRE")
            .arg(self.keys().stage_mark(partition, name))
            .arg(lifetime_ms);
        let ((is_there,), _): ((bool,), _) = self.read(&pipe).await?;
        Ok(is_there.then_some(sizes))
    }

    /// Sets and takes away entries of a stage. Pipelines of variadic `ZADD` and `ZREM`.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    pub async fn change_stage(
        &self,
        stage: &str,
        entries: &[(MemberId, Option<RankKey>)],
    ) -> Result<()> {
        for chunk in entries.chunks(PAIRS_MAX) {
            let mut pipe = redis::pipe();
            let set = chunk
                .iter()
                .filter_map(|(member, key)| key.map(|key| (member, key)));
            let (mut zadd, mut sets) = (redis::cmd("ZADD"), false);
            zadd.arg(stage);
            for (member, key) in set {
                zadd.arg(key.to_redis()).arg(member.as_str());
                sets = true;
            }
            if sets {
                pipe.add_command(zadd);
            }
            let gone: Vec<&str> = chunk
                .iter()
                .filter(|(_, key)| key.is_none())
                .map(|(member, _)| member.as_str())
                .collect();
            if !gone.is_empty() {
                pipe.cmd("ZREM").arg(stage).arg(gone);
            }
            pipe.cmd("PEXPIRE")
                .arg(stage)
                .arg(STAGE_LIFETIME.as_millis() as u64);
            self.read_many(&pipe).await?;
        }
        Ok(())
    }

    /// Drops stages that are not put in place any more: `UNLINK`.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn drop_stages(&self, stages: &[&str]) -> Result<()> {
        for chunk in stages.chunks(KEYS_MAX) {
            let mut pipe = redis::pipe();
            for stage in chunk {
                pipe.cmd("UNLINK").arg(stage);
            }
            self.read_many(&pipe).await?;
        }
        Ok(())
    }

    /// The event ids of a board that a partition remembers of one day: fields and values of a seen hash. `HSCAN`: several round trips, O(event ids of all
    /// boards).
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    pub async fn seen_of(
        &self,
        partition: Partition,
        bucket: i64,
        board: BoardNo,
    ) -> Result<HashMap<String, String>> {
        let key = self.keys().seen(partition, bucket);
        let (mut cursor, mut seen) = ("0".to_owned(), HashMap::new());
        loop {
            let mut pipe = redis::pipe();
            pipe.cmd("HSCAN")
                .arg(&key)
                .arg(&cursor)
                .arg("MATCH")
                .arg(format!("{}*", seen_prefix(board)))
                .arg("COUNT")
                .arg(FIELDS_MAX);
            let (((next, found),), _): (((String, Vec<(String, String)>),), _) =
                self.read(&pipe).await?;
            seen.extend(found);
            if next == "0" {
                return Ok(seen);
            }
            cursor = next;
        }
    }
}
