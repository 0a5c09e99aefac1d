//! Standings staged beside the live ones, loaded as fast as Redis accepts them: in keys that
//! expire, until commits rename them into place.
//!
//! Loads use connections of their own, so that no commit waits behind them, and keep enough in
//! flight that the server never waits for the loader. Standings in rank order are loaded by one
//! `RESTORE` if that does not block other clients for long, otherwise by variadic `ZADD`s.

pub mod payload;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

use super::snapshot::keys_of;
use super::write::{PAIRS_MAX, Writes};
use super::{Address, Store};
use crate::error::{Error, Result};
use crate::id::{MemberId, Partition};
use crate::rank_key::RankKey;
use crate::standings_id::StandingsId;

/// The most entries in one `RESTORE` beside live traffic: it blocks the server for about 40 ms.
pub const RESTORE_ENTRIES_MAX: usize = 50_000;

/// The most bytes in one `RESTORE` on a server without other clients: Redis accepts 512 MiB in one
/// argument.
const RESTORE_BYTES_MAX: usize = 500 << 20;

/// The lifetime of staged keys after the last renewal, should their process die.
const LIFETIME: Duration = Duration::from_secs(300);

/// The lifetime of the mark that says that everything staged exists.
const MARK_LIFETIME: Duration = Duration::from_secs(240);

/// The interval at which a running process renews both.
const RENEWAL: Duration = Duration::from_secs(60);

/// The longest time to answer a load: the server may have to process everything in flight first.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// The most data in flight to Redis, in KiB.
const UNDER_WAY_KIB_MAX: u32 = 8 << 10;

/// The most pairs in one pipeline.
const PIPELINE_PAIRS: usize = 10 * PAIRS_MAX;

/// The most keys in one pipeline.
const KEYS_MAX: usize = 1000;

/// The most bytes of an entry in a command, besides its member's.
const ENTRY_BYTES: usize = 40;

/// The loading side of a store.
#[derive(Debug)]
pub(crate) struct Loading {
    address: Address,
    connections: OnceLock<Store>,
    under_way: Arc<Semaphore>,
    is_exclusive: AtomicBool,
}

/// Staged standings of one partition. They are renewed while this value lives, and expire after it.
#[derive(Debug)]
pub struct Stages {
    store: Store,
    partition: Partition,
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

impl Loading {
    pub(crate) fn new(address: &Address) -> Self {
        Self {
            address: address.clone(),
            connections: OnceLock::new(),
            under_way: Arc::new(Semaphore::new(UNDER_WAY_KIB_MAX as usize)),
            is_exclusive: AtomicBool::new(false),
        }
    }
}

impl Store {
    /// From now on loads standings of any size by one `RESTORE` if possible: for a Redis that
    /// serves no other client.
    pub fn load_exclusively(&self) {
        let loading = &self.inner.loading;
        loading.is_exclusive.store(true, Ordering::Relaxed);
    }

    /// Opens a stage for standings of a partition, under an id of its own. One round trip: `SET
    /// PX`.
    pub async fn stages(&self, partition: Partition, id: String) -> Result<Stages> {
        let mark = self.keys().stage_mark(partition, &id);
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(&mark).arg(1);
        pipe.arg("PX").arg(MARK_LIFETIME.as_millis() as u64);
        self.read_many(&pipe).await?;
        let keys: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let renewing = tokio::spawn(renew(self.clone(), mark.clone(), keys.clone()));
        Ok(Stages { store: self.clone(), partition, id, mark, keys, renewing })
    }

    /// The same data over separate connections, on which an answer may take long.
    fn loading(&self) -> Result<&Self> {
        let loading = &self.inner.loading;
        if let Some(store) = loading.connections.get() {
            return Ok(store);
        }
        let (keys, partitions) = (self.inner.keys.clone(), self.inner.partitions);
        let store = Self::new(&loading.address, keys, partitions, RESPONSE_TIMEOUT)?;
        Ok(loading.connections.get_or_init(|| store))
    }
}

impl Stages {
    /// Loads `count` entries of one period's standings, which `entry` gives in rank order, and
    /// returns their staged key; without entries the key does not exist. One round trip if one
    /// `RESTORE` does it; otherwise pipelines of sorted variadic `ZADD`, several in flight, then
    /// `ZCARD`.
    ///
    /// # Errors
    /// `Unavailable`, also if Redis is out of memory.
    pub async fn load<'a, E>(&self, id: &StandingsId, count: usize, entry: E) -> Result<String>
    where
        E: Fn(usize) -> (&'a str, RankKey) + Send + Sync,
    {
        let key = self.store.keys().stage(self.partition, &self.id, id);
        self.names().insert(key.clone());
        let restored = match self.payload(count, &entry) {
            Some(payload) => match self.restore(&key, &payload).await {
                // The server does not know the form or forbids the command: fall back to `ZADD`.
                Err(Error::Corrupt(reason)) => {
                    tracing::debug!(reason, "standings cannot be loaded by RESTORE");
                    None
                }
                restored => Some(restored?),
            },
            None => None,
        };
        let staged = match restored {
            Some(staged) => staged,
            None => self.add_all(&key, count, &entry).await?,
        };
        if staged != count {
            return Err(Error::Unavailable(
                "Redis lost some of the staged entries; try again".into(),
            ));
        }
        Ok(key)
    }

    /// The payload of standings that one command loads.
    fn payload<'a>(
        &self,
        count: usize,
        entry: &(impl Fn(usize) -> (&'a str, RankKey) + Sync),
    ) -> Option<Vec<u8>> {
        let is_exclusive = &self.store.inner.loading.is_exclusive;
        if count == 0 {
            return None;
        }
        if count > RESTORE_ENTRIES_MAX {
            let bytes = |index| entry(index).0.len() + ENTRY_BYTES;
            let fits = || (0..count).map(bytes).sum::<usize>() <= RESTORE_BYTES_MAX;
            if !is_exclusive.load(Ordering::Relaxed) || !fits() {
                return None;
            }
        }
        Some(payload::encode((0..count).map(|index| {
            let (member, rank_key) = entry(index);
            (member.as_bytes(), rank_key.to_f64())
        })))
    }

    async fn restore(&self, key: &str, payload: &[u8]) -> Result<usize> {
        let permit = self.under_way(payload.len()).await?;
        let mut pipe = redis::pipe();
        pipe.cmd("RESTORE").arg(key).arg(LIFETIME.as_millis() as u64);
        pipe.arg(payload).arg("REPLACE");
        pipe.cmd("ZCARD").arg(key);
        let values = send(self.store.loading()?.clone(), pipe, permit).await?;
        super::decode(values.into_iter().next_back())
    }

    async fn add_all<'a>(
        &self,
        key: &str,
        count: usize,
        entry: &(impl Fn(usize) -> (&'a str, RankKey) + Sync),
    ) -> Result<usize> {
        let loading = self.store.loading()?;
        let mut sent = JoinSet::new();
        for from in (0..count).step_by(PIPELINE_PAIRS) {
            let to = count.min(from + PIPELINE_PAIRS);
            let bytes: usize = (from..to).map(|index| entry(index).0.len() + ENTRY_BYTES).sum();
            let permit = self.under_way(bytes).await?;
            let mut pipe = Pipeline::new();
            for start in (from..to).step_by(PAIRS_MAX) {
                let command = pipe.cmd("ZADD").arg(key);
                for index in start..to.min(start + PAIRS_MAX) {
                    let (member, rank_key) = entry(index);
                    command.arg(rank_key.to_redis()).arg(member);
                }
            }
            pipe.cmd("PEXPIRE").arg(key).arg(LIFETIME.as_millis() as u64);
            sent.spawn(send(loading.clone(), pipe, permit));
            while let Some(answered) = sent.try_join_next() {
                answered.map_err(broken)??;
            }
        }
        while let Some(answered) = sent.join_next().await {
            answered.map_err(broken)??;
        }
        let mut size = redis::pipe();
        size.cmd("ZCARD").arg(key);
        let ((staged,), _): ((usize,), _) = loading.read(&size).await?;
        Ok(staged)
    }

    /// Waits until this many bytes may be in flight.
    async fn under_way(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let under_way = self.store.inner.loading.under_way.clone();
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX) + 1;
        let permits = under_way.acquire_many_owned(kib.min(UNDER_WAY_KIB_MAX));
        permits.await.map_err(|_| Error::Unavailable("the store is closed".into()))
    }

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
    /// `Unavailable`, also if Redis is out of memory.
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
    #[must_use]
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

/// Sends a part of a load. Sending it again after a lost connection changes nothing.
async fn send(store: Store, pipe: Pipeline, _permit: OwnedSemaphorePermit) -> Result<Vec<Value>> {
    Ok(store.read_many(&pipe).await?.values)
}

fn broken(error: tokio::task::JoinError) -> Error {
    Error::Unavailable(format!("a load was interrupted: {error}"))
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
