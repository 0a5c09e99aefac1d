//! Loading staged standings as fast as Redis accepts them.
//!
//! Loads use connections of their own, so that no commit waits behind them, and keep enough in
//! flight that the server never waits for the loader. Standings in rank order are loaded by one
//! `RESTORE` if that does not block other clients for long, otherwise by variadic `ZADD`s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::{LIFETIME, Stages, payload};
use crate::error::{Error, Result};
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::store::server::address::Address;
use crate::store::write::PAIRS_MAX;
use crate::store::{Store, decode};

/// The most entries in one `RESTORE` beside live traffic: it blocks the server for about 40 ms.
const RESTORE_ENTRIES_MAX: usize = 50_000;

/// The most bytes in one `RESTORE` on a server without other clients: Redis accepts 512 MiB in one
/// argument.
const RESTORE_BYTES_MAX: usize = 500 << 20;

/// The longest time to answer a load: the server may have to process everything in flight first.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// The most data in flight to Redis, in KiB.
const UNDER_WAY_KIB_MAX: u32 = 8 << 10;

/// The most pairs in one pipeline.
const PIPELINE_PAIRS: usize = 10 * PAIRS_MAX;

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
    /// `Unavailable`; `Overloaded` if Redis is out of memory.
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
        decode(values.into_iter().next_back())
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
}

/// Sends a part of a load. Sending it again after a lost connection changes nothing.
async fn send(store: Store, pipe: Pipeline, _permit: OwnedSemaphorePermit) -> Result<Vec<Value>> {
    Ok(store.read_many(&pipe).await?.values)
}

fn broken(error: tokio::task::JoinError) -> Error {
    Error::Unavailable(format!("a load was interrupted: {error}"))
}
