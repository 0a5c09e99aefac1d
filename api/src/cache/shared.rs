//! What many ask for at once: fetched once however many wait for it, kept for a moment, and not a moment longer than this process' own next write.
//!
//! Whoever asks gets what was good when they asked: what began after that, or is not yet as old as it may get; and in either case began
//! after all that this process had written by then. So a fetch under way while something is written serves those who asked before, and
//! nobody waits for more than two fetches, whatever is written meanwhile.

use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use moka::future::Cache;
use ranking::store::Store;
use tokio::time::Instant;

/// What is kept in memory for whoever asks next. Each is an environment variable, or the flag of the same name.
#[derive(Debug, Clone, clap::Args)]
pub struct CacheSettings {
    /// How old a cached page or answer may be, in milliseconds, 0 to 250. At 0 nothing is served that was read before it was asked for; those who ask for the same while it is read share the next read.
    #[arg(long, env = "LAUREL_CACHE_AGE_MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(0..=250))]
    pub cache_age_ms: u64,
    /// How much memory the first pages of standings may take, in bytes; 0 switches this cache off.
    #[arg(long, env = "LAUREL_PAGE_CACHE_BYTES", default_value_t = 64 << 20)]
    pub page_cache_bytes: u64,
    /// How much memory whole answers to public queries may take, in bytes; 0 switches this cache off.
    #[arg(long, env = "LAUREL_ANSWER_CACHE_BYTES", default_value_t = 64 << 20)]
    pub answer_cache_bytes: u64,
    /// How much memory persisted queries may take, in bytes; 0 keeps none.
    #[arg(
        long,
        env = "LAUREL_PERSISTED_QUERIES_BYTES",
        default_value_t = 16 << 20
    )]
    pub persisted_queries_bytes: u64,
}

/// The environment variables of [`CacheSettings`].
pub const SETTING_NAMES: [&str; 4] = [
    "LAUREL_CACHE_AGE_MS",
    "LAUREL_PAGE_CACHE_BYTES",
    "LAUREL_ANSWER_CACHE_BYTES",
    "LAUREL_PERSISTED_QUERIES_BYTES",
];

/// Values by key, for a moment.
pub struct Hot<K, V> {
    /// `None` where it is switched off.
    values: Option<Cache<K, Fetched<V>>>,
    store: Store,
}

/// A value, with what says for whom it is good.
#[derive(Debug, Clone)]
pub struct Fetched<V> {
    /// The value.
    pub value: V,
    /// Whether it was fetched for the one who got it, not for another.
    pub is_own: bool,
    /// Until when it is good.
    pub good_until: Instant,
    began: Instant,
    own_writes: u64,
}

/// One who asks: when, and after how many writes of this process.
#[derive(Clone, Copy)]
struct Asked {
    at: Instant,
    own_writes: u64,
}

/// Until when all that a request used is good. Clones share it.
#[derive(Debug, Clone)]
pub struct GoodUntil(Arc<Mutex<Instant>>);

impl GoodUntil {
    /// Of a request that has used nothing yet.
    #[must_use]
    pub fn new(latest: Instant) -> Self {
        Self(Arc::new(Mutex::new(latest)))
    }

    /// Says that the request used something that is good until then.
    pub fn limit(&self, good_until: Instant) {
        let mut earliest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *earliest = good_until.min(*earliest);
    }

    /// The earliest of what was used.
    #[must_use]
    pub fn instant(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Hot<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Has nothing yet, and keeps so many bytes of values for `age`; where that is 0, for those who wait already. Nothing is kept or
    /// shared where the bytes are 0.
    #[must_use]
    pub fn new(store: &Store, age: Duration, bytes_max: u64, bytes: fn(&K, &V) -> usize) -> Self {
        let weigh = move |key: &K, fetched: &Fetched<V>| {
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

    /// A value that is there and good for whoever asks now.
    pub async fn get(&self, key: &K) -> Option<Fetched<V>> {
        let values = self.values.as_ref()?;
        let asked = self.asked();
        let fetched = values.get(key).await;
        fetched.filter(|fetched| fetched.is_good_for(asked))
    }

    /// The value of a key, from `fetch` unless a good one is there. `fetch` also says until when its value is good; where that is not after
    /// its beginning, only those get it who wait for it.
    pub async fn find(
        &self,
        key: &K,
        fetch: impl Future<Output = (V, Instant)> + Send,
    ) -> Fetched<V> {
        let mut fetch = pin!(fetch);
        let asked = self.asked();
        loop {
            let fetching = async {
                // Whoever writes or asks after this may not find its write in what is fetched.
                let Asked { at, own_writes } = self.asked();
                let (value, good_until) = fetch.as_mut().await;
                Fetched { value, is_own: false, good_until, began: at, own_writes }
            };
            let Some(values) = &self.values else {
                return Fetched { is_own: true, ..fetching.await };
            };
            let entry = values.entry_by_ref(key);
            let entry = entry.or_insert_with_if(fetching, |old| !old.is_good_for(asked));
            let entry = entry.await;
            let is_own = entry.is_fresh();
            let fetched = entry.into_value();
            // Another one's fetch may have begun before a write of ours, or too long ago.
            if is_own || fetched.is_good_for(asked) {
                return Fetched { is_own, ..fetched };
            }
        }
    }

    fn asked(&self) -> Asked {
        Asked { at: Instant::now(), own_writes: self.store.own_writes() }
    }
}

impl<V> Fetched<V> {
    fn is_good_for(&self, asked: Asked) -> bool {
        let is_young = self.began >= asked.at || self.good_until > asked.at;
        is_young && self.own_writes >= asked.own_writes
    }
}
