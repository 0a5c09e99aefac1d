//! What this process knows of SQL: values read a moment ago, so that most requests need no SQL, and kept for when SQL is away.
//!
//! A value is good for [`FRESH`], or until this process changes it; then it is read again, once however many ask. Where SQL does not
//! answer, the last one known goes on being used.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::future::Cache;
use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorCode, Result};

/// How long a value is good: what other processes wrote shows here that much later at most.
pub const FRESH: Duration = Duration::from_millis(250);

/// How long reading a value again may take before the last one known is used instead.
const REFRESH_TIMEOUT: Duration = Duration::from_millis(500);

/// How long reading a value may take of which none is known.
const FIRST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long SQL is left alone after it did not answer.
const RETRY: Duration = Duration::from_secs(1);

/// Counters of changes; a key has one of them.
const COUNTERS: usize = 1024;

/// Values by key.
pub struct Known<K, V> {
    values: Cache<K, Value<V>>,
    hasher: RandomState,
    changes: Vec<AtomicU64>,
}

#[derive(Clone)]
struct Value<V> {
    /// The last value known.
    last: Option<V>,
    /// Why it is not to be used.
    error: Option<Error>,
    /// Until when it is good.
    good_until: Instant,
    /// How many changes of this process had been made before it was read.
    changes: u64,
}

impl<K, V> Known<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Knows nothing yet, and keeps values of a total weight.
    #[must_use]
    pub fn new(weight_max: u64, weigh: fn(&V) -> u32) -> Self {
        let weigher = move |_: &K, value: &Value<V>| value.last.as_ref().map_or(1, weigh);
        Self {
            values: Cache::builder().max_capacity(weight_max).weigher(weigher).build(),
            hasher: RandomState::new(),
            changes: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The value of a key, read by `read` unless a good one is known; and until when it is good.
    ///
    /// # Errors
    /// What `read` says, where no value is known to go on with.
    pub async fn find<R>(&self, key: &K, read: impl Fn() -> R + Sync) -> Result<(V, Instant)>
    where
        R: Future<Output = Result<V>> + Send,
    {
        let changes = self.changes_of(key).load(Ordering::Acquire);
        let is_old = |value: &Value<V>| {
            value.error.is_some() || value.good_until <= Instant::now() || value.changes < changes
        };
        loop {
            let last = match self.values.get(key).await {
                Some(value) if !is_old(&value) => return value.answer(),
                last => last.filter(|last| last.last.is_some()),
            };
            let reading = self.read(key, last, read());
            let entry = self.values.entry_by_ref(key);
            let value = entry.or_insert_with_if(reading, is_old).await.into_value();
            // Another one's reading may have begun before a change of ours.
            if value.error.is_some() || value.changes >= changes {
                return value.answer();
            }
        }
    }

    async fn read(
        &self,
        key: &K,
        last: Option<Value<V>>,
        read: impl Future<Output = Result<V>> + Send,
    ) -> Value<V> {
        // Whoever changes something after this may not be in what is read.
        let changes = self.changes_of(key).load(Ordering::Acquire);
        let began = Instant::now();
        let patience = if last.is_some() { REFRESH_TIMEOUT } else { FIRST_TIMEOUT };
        let error = match timeout(patience, read).await {
            Ok(Ok(value)) => {
                return Value {
                    last: Some(value),
                    error: None,
                    good_until: began + FRESH,
                    changes,
                };
            }
            Ok(Err(error)) => error,
            Err(_) => away(),
        };
        // The last one known is kept for when SQL is away; after a change of ours it is not what it was.
        match last {
            Some(last) if error.code == ErrorCode::Unavailable && last.changes >= changes => {
                Value { good_until: Instant::now() + RETRY, error: None, ..last }
            }
            last => Value {
                changes: last.as_ref().map_or(changes, |last| last.changes),
                last: last.and_then(|last| last.last),
                error: Some(error),
                good_until: began,
            },
        }
    }

    /// Says that this process changed what SQL has of a key: the next to ask reads it again.
    pub fn changed(&self, key: &K) {
        self.changes_of(key).fetch_add(1, Ordering::AcqRel);
    }

    fn changes_of(&self, key: &K) -> &AtomicU64 {
        &self.changes[self.hasher.hash_one(key) as usize % COUNTERS]
    }
}

impl<V> Value<V> {
    fn answer(self) -> Result<(V, Instant)> {
        match (self.error, self.last) {
            (None, Some(value)) => Ok((value, self.good_until)),
            (error, _) => Err(error.unwrap_or_else(away)),
        }
    }
}

fn away() -> Error {
    Error::new(ErrorCode::Unavailable, "the database does not answer for now; try again later")
}
