//! A cache that requests share. Requests for the same key wait for one fetch; a value stays for a
//! moment, and never beyond the next write of this process.
//!
//! A request gets a value whose fetch began after the request came, or one that is not too old yet.
//! Either way the fetch began after all that this process had written when the request came. So a
//! fetch that is under way during a write still serves the requests that came before the write. A
//! request waits for two fetches at most, whatever is written while it waits.

use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use moka::future::Cache;
use ranking::store::Store;
use tokio::time::Instant;

use crate::http::turns;

/// A cache of values, each kept for a moment.
pub struct SharedCache<K, V> {
    /// `None` if the cache is switched off.
    values: Option<Cache<K, CachedValue<V>>>,
    store: Store,
}

/// A value, and what decides which requests it is good for.
#[derive(Debug, Clone)]
pub struct CachedValue<V> {
    /// The value.
    pub value: V,
    /// True if this request fetched it, false if another one did.
    pub is_own: bool,
    /// The instant until which it is good.
    pub good_until: Instant,
    began: Instant,
    own_writes: u64,
}

/// The arrival of a request: the instant, and the number of writes that this process had made.
#[derive(Clone, Copy)]
struct Arrival {
    at: Instant,
    own_writes: u64,
}

/// The instant until which everything that a request used is good. Clones share it.
#[derive(Debug, Clone)]
pub struct GoodUntil(Arc<Mutex<Instant>>);

impl GoodUntil {
    /// Starts at `latest`, for a request that has used nothing yet.
    pub fn new(latest: Instant) -> Self {
        Self(Arc::new(Mutex::new(latest)))
    }

    /// Notes that the request used something that is good until then.
    pub fn limit(&self, good_until: Instant) {
        let mut earliest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *earliest = good_until.min(*earliest);
    }

    /// The earliest of the instants noted.
    pub fn instant(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> SharedCache<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Starts empty. Values stay for `age`; at an age of 0, a value goes only to requests that
    /// already wait for it. The cache holds up to `bytes_max` bytes; at 0 it keeps and shares
    /// nothing.
    pub fn new(store: &Store, age: Duration, bytes_max: u64, bytes: fn(&K, &V) -> usize) -> Self {
        let weigh = move |key: &K, fetched: &CachedValue<V>| {
            u32::try_from(bytes(key, &fetched.value)).unwrap_or(u32::MAX)
        };
        let values = (bytes_max > 0).then(|| {
            Cache::builder()
                .max_capacity(bytes_max)
                .weigher(weigh)
                .time_to_live(age.max(Duration::from_millis(1)))
                .build()
        });
        Self { values, store: store.clone() }
    }

    /// The cached value, if it is good for a request that comes now.
    pub async fn get(&self, key: &K) -> Option<CachedValue<V>> {
        let values = self.values.as_ref()?;
        let asked = self.asked();
        let fetched = values.get(key).await;
        fetched.filter(|fetched| fetched.is_good_for(asked))
    }

    /// Finds the value of a key: the cached one if it is good, else that of `fetch`. `fetch` also
    /// gives the instant until which its value is good. If that is not after its beginning, only
    /// requests that wait for this fetch get the value.
    pub async fn find(
        &self,
        key: &K,
        fetch: impl Future<Output = (V, Instant)> + Send,
    ) -> CachedValue<V> {
        let mut fetch = pin!(fetch);
        let asked = self.asked();
        loop {
            let fetching = async {
                // The fetch may miss writes made after this point.
                let Arrival { at, own_writes } = self.asked();
                let (value, good_until) = fetch.as_mut().await;
                CachedValue { value, is_own: false, good_until, began: at, own_writes }
            };
            let Some(values) = &self.values else {
                return CachedValue { is_own: true, ..fetching.await };
            };
            if turns::is_here() {
                if let Some(known) = values.get(key).await.filter(|known| known.is_good_for(asked))
                {
                    return known;
                }
                // No light request waits for what is fetched here, but later ones may use it.
                let fetched = fetching.await;
                values.insert(key.clone(), fetched.clone()).await;
                return CachedValue { is_own: true, ..fetched };
            }
            let entry = values.entry_by_ref(key);
            let entry = entry.or_insert_with_if(fetching, |old| !old.is_good_for(asked));
            let entry = entry.await;
            let is_own = entry.is_fresh();
            let fetched = entry.into_value();
            // Another request's fetch may have begun before a write of this process, or too long
            // ago.
            if is_own || fetched.is_good_for(asked) {
                return CachedValue { is_own, ..fetched };
            }
        }
    }

    fn asked(&self) -> Arrival {
        Arrival { at: Instant::now(), own_writes: self.store.own_writes() }
    }
}

impl<V> CachedValue<V> {
    fn is_good_for(&self, asked: Arrival) -> bool {
        let is_young = self.began >= asked.at || self.good_until > asked.at;
        is_young && self.own_writes >= asked.own_writes
    }
}
