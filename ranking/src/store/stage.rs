//! Standings staged beside the live ones, in keys that expire, until commits rename them into
//! place.

mod loading;
pub mod payload;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::task::JoinHandle;

use super::Store;
use super::snapshot::keys_of;
use super::write::{PAIRS_MAX, Writes};
use crate::error::Result;
use crate::id::{MemberId, PartitionNo};
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;

pub(super) use loading::Loading;

/// The lifetime of staged keys after the last renewal, should their process die.
const LIFETIME: Duration = Duration::from_secs(300);

/// The lifetime of the mark that says that everything staged exists.
const MARK_LIFETIME: Duration = Duration::from_secs(240);

/// The interval at which a running process renews both.
const RENEWAL: Duration = Duration::from_secs(60);

/// The most keys in one pipeline.
const KEYS_MAX: usize = 1000;

/// Staged standings of one partition. They are renewed while this value lives, and expire after it.
#[derive(Debug)]
pub struct Stages {
    store: Store,
    partition: PartitionNo,
    id: String,
    mark: String,
    keys: Arc<Mutex<BTreeSet<String>>>,
    renewing: JoinHandle<()>,
}

/// The changes to one of the staged standings.
#[derive(Debug)]
pub struct StageChange {
    /// The key.
    pub key: String,
    /// The entries to set.
    pub set: Vec<(MemberId, RankKey)>,
    /// The members to remove.
    pub gone: Vec<MemberId>,
}

impl Store {
    /// Opens a stage for standings of a partition, under an id of its own. One round trip: `SET
    /// PX`.
    pub async fn stages(&self, partition: PartitionNo, id: String) -> Result<Stages> {
        let mark = self.keys().stage_mark(partition, &id);
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(&mark).arg(1);
        pipe.arg("PX").arg(MARK_LIFETIME.as_millis() as u64);
        self.read_many(&pipe).await?;
        let keys: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let renewing = tokio::spawn(renew(self.clone(), mark.clone(), keys.clone()));
        Ok(Stages { store: self.clone(), partition, id, mark, keys, renewing })
    }
}

impl Stages {
    /// The keys of members in staged standings, one list for each request. A `ZMSCORE` for each of
    /// the standings and 1,000 members, pipelined.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` if another program wrote an entry.
    pub async fn rank_keys(
        &self,
        wanted: &[(&str, Vec<MemberId>)],
    ) -> Result<Vec<Vec<Option<RankKey>>>> {
        let mut parts: Vec<(usize, &str, &[MemberId])> = vec![];
        for (index, (key, members)) in wanted.iter().enumerate() {
            parts.extend(members.chunks(PAIRS_MAX).map(|part| (index, *key, part)));
        }
        let mut found = vec![vec![]; wanted.len()];
        for parts in parts.chunks(KEYS_MAX) {
            let mut pipe = redis::pipe();
            for (_, key, members) in parts {
                let command = pipe.cmd("ZMSCORE").arg(key);
                for member in *members {
                    command.arg(member.as_str());
                }
            }
            let answers = self.store.read_many(&pipe).await?.values;
            for ((index, _, _), answer) in parts.iter().zip(answers) {
                let doubles: Vec<Option<f64>> = super::decode(Some(answer))?;
                for key in keys_of(doubles) {
                    found[*index].push(key?);
                }
            }
        }
        Ok(found)
    }

    /// Changes staged standings; returns their sizes. A key without entries ceases to exist.
    /// `ZADD`, `ZREM`, `PEXPIRE` and `ZCARD`, pipelined.
    ///
    /// # Errors
    /// `Unavailable`; `Overloaded` if Redis is out of memory.
    pub async fn change(&self, changes: &[StageChange]) -> Result<Vec<usize>> {
        let mut sizes = vec![];
        for changes in changes.chunks(KEYS_MAX) {
            let (mut pipe, mut ends) = (redis::pipe(), vec![]);
            for StageChange { key, set, gone } in changes {
                self.names().insert(key.clone());
                for part in set.chunks(PAIRS_MAX) {
                    let command = pipe.cmd("ZADD").arg(key);
                    for (member, rank_key) in part {
                        command.arg(rank_key.to_redis()).arg(member.as_str());
                    }
                }
                for part in gone.chunks(PAIRS_MAX) {
                    let command = pipe.cmd("ZREM").arg(key);
                    for member in part {
                        command.arg(member.as_str());
                    }
                }
                pipe.cmd("PEXPIRE").arg(key).arg(LIFETIME.as_millis() as u64);
                ends.push(pipe.len());
                pipe.cmd("ZCARD").arg(key);
            }
            let mut answers = self.store.read_many(&pipe).await?.values;
            for end in ends {
                let answer = answers.get_mut(end).map(|value| std::mem::replace(value, Value::Nil));
                sizes.push(super::decode(answer)?);
            }
        }
        Ok(sizes)
    }

    /// The key of staged standings without entries yet.
    pub fn key(&self, id: &StandingsId) -> String {
        self.store.keys().stage(self.partition, &self.id, id)
    }

    /// Stops renewing a staged key that was renamed into place or dropped.
    pub fn forget(&self, key: &str) {
        self.names().remove(key);
    }

    /// Makes Redis refuse writes once part of the staged data is gone: Redis was flushed, or a
    /// renewal came too late. Without it, a part could be taken for the whole.
    pub fn guard(&self, writes: &mut Writes) {
        writes.push("STRLEN", &self.mark, vec![]);
    }

    /// True if all staged data still exists. One round trip: `EXISTS`.
    pub async fn is_whole(&self) -> Result<bool> {
        let mut pipe = redis::pipe();
        pipe.cmd("EXISTS").arg(&self.mark);
        let ((exists,), _): ((u64,), _) = self.store.read(&pipe).await?;
        Ok(exists > 0)
    }

    /// Drops the remaining staged keys and the mark; nothing can be renamed into place after that.
    /// `UNLINK`, pipelined.
    ///
    /// # Errors
    /// `Unavailable`; the keys then expire.
    pub async fn discard(&self) -> Result<()> {
        let mut keys: Vec<String> = std::mem::take(&mut *self.names()).into_iter().collect();
        keys.push(self.mark.clone());
        for keys in keys.chunks(KEYS_MAX) {
            let mut pipe = redis::pipe();
            for key in keys {
                pipe.cmd("UNLINK").arg(key);
            }
            self.store.read_many(&pipe).await?;
        }
        Ok(())
    }

    fn names(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// Keeps staged keys from expiring, and then the mark that vouches for them.
async fn renew(store: Store, mark: String, keys: Arc<Mutex<BTreeSet<String>>>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let names: Vec<String> = {
            let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.iter().cloned().collect()
        };
        if let Err(error) = renew_once(&store, &mark, &names).await {
            tracing::warn!(%error, "staged standings were not renewed");
        }
    }
}

async fn renew_once(store: &Store, mark: &str, names: &[String]) -> Result<()> {
    for names in names.chunks(KEYS_MAX) {
        let mut pipe = redis::pipe();
        for key in names {
            let lifetime = LIFETIME.as_millis() as u64;
            pipe.cmd("PEXPIRE").arg(key).arg(lifetime);
        }
        store.read_many(&pipe).await?;
    }
    let mut pipe = redis::pipe();
    let lifetime = MARK_LIFETIME.as_millis() as u64;
    pipe.cmd("PEXPIRE").arg(mark).arg(lifetime);
    store.read_many(&pipe).await?;
    Ok(())
}
