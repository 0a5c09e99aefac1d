//! The reads behind the loaders of one request: at most 64 of them are under way.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings;
use tokio::sync::Semaphore;

use crate::app::SharedApp;

/// The most reads of one request that are under way.
const READS_MAX: usize = 64;

/// The stores, for the reads of one request.
#[derive(Clone)]
pub(crate) struct Lookups {
    pub(crate) app: SharedApp,
    permits: Arc<Semaphore>,
}

/// Standings, equal to others of the same name.
#[derive(Debug, Clone)]
pub(crate) struct Named(pub(crate) Arc<Standings>);

/// The key of a look-up in standings.
pub(crate) trait InStandings {
    /// The standings.
    fn standings(&self) -> &Arc<Standings>;
}

impl Lookups {
    pub(crate) fn new(app: &SharedApp) -> Self {
        Self { app: app.clone(), permits: Arc::new(Semaphore::new(READS_MAX)) }
    }

    /// Reads as soon as fewer than 64 reads are under way. The future is a pointer, so that the many
    /// fields that may wait for a read are small.
    pub(crate) fn read<'a, T: 'a>(
        &'a self,
        read: impl Future<Output = T> + Send + 'a,
    ) -> BoxFuture<'a, T> {
        let limited = async move {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await;
            read.await
        };
        limited.boxed()
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
pub(crate) fn by_standings<K: InStandings>(keys: &[K]) -> Vec<Vec<&K>> {
    let mut groups: HashMap<&StandingsId, Vec<&K>> = HashMap::new();
    for key in keys {
        groups.entry(&key.standings().id).or_default().push(key);
    }
    groups.into_values().collect()
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Named {}

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}
