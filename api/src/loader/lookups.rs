//! The reads behind the loaders of one request: at most 64 of them are under way.

use std::collections::HashMap;
use std::collections::hash_map::IntoValues;
use std::fmt::{self, Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use engine::settings::traces::SPANS;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::app::SharedApp;

/// The most reads of one request that are under way.
const READS_MAX: usize = 64;

/// The stores, for the reads of one request.
#[derive(Clone)]
pub(crate) struct Lookups {
    pub(crate) app: SharedApp,
    /// The steps of walks over distinct scores that no field has paid for.
    pub(crate) steps: Arc<AtomicU64>,
    permits: Arc<Semaphore>,
}

/// Something in standings, as the key of a loader. Two are equal if they name the same.
#[derive(Clone)]
pub struct In<K> {
    /// The standings.
    pub standings: Arc<Standings>,
    /// The key in them.
    pub key: K,
}

impl Lookups {
    pub(crate) fn new(app: &SharedApp) -> Self {
        let (steps, permits) = (Arc::default(), Arc::new(Semaphore::new(READS_MAX)));
        Self { app: app.clone(), steps, permits }
    }

    /// Reads as soon as fewer than 64 reads are under way. The future is a pointer, so that the
    /// many fields that may wait for a read are small.
    pub(crate) fn read<'a, T: 'a>(
        &'a self,
        read: impl Future<Output = T> + Send + 'a,
    ) -> BoxFuture<'a, T> {
        let limited = async move {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await;
            read.await
        };
        limited.instrument(tracing::info_span!(target: SPANS, "read")).boxed()
    }

    /// Makes some reads, each of some keys.
    pub(crate) fn read_all<'a, K, V, R>(
        &'a self,
        reads: impl Iterator<Item = R>,
    ) -> BoxFuture<'a, HashMap<K, V>>
    where
        K: Hash + Eq + Send + 'a,
        V: Send + 'a,
        R: Future<Output = Vec<(K, V)>> + Send + 'a,
    {
        let reads: Vec<_> = reads.map(|read| self.read(read)).collect();
        async move { join_all(reads).await.into_iter().flatten().collect() }.boxed()
    }
}

/// Groups keys by their standings.
pub(crate) fn by_standings<K>(keys: &[In<K>]) -> IntoValues<&StandingsId, Vec<&In<K>>> {
    let mut groups: HashMap<&StandingsId, Vec<&In<K>>> = HashMap::new();
    for key in keys {
        groups.entry(&key.standings.id).or_default().push(key);
    }
    groups.into_values()
}

/// The key alone: loaders write it for each value that they look up.
impl<K: Debug> Debug for In<K> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.key.fmt(out)
    }
}

impl<K: PartialEq> PartialEq for In<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.standings.id == other.standings.id
    }
}

impl<K: Eq> Eq for In<K> {}

impl<K: Hash> Hash for In<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.standings.id.hash(state);
        self.key.hash(state);
    }
}
