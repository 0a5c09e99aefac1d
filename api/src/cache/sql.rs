//! A cache of values from SQL. Most requests need no SQL thanks to it, and reads go on while SQL is
//! unavailable.
//!
//! A value is good for [`FRESH`], or until this process changes it. Then one request reads it
//! again, and the others wait for that. If SQL does not answer, the last known value stays in use,
//! and while SQL is known to be away, at once.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::future::Cache;
use tokio::time::Instant;

use crate::error::{Error, ErrorCode, Result};
use crate::health::Health;
use crate::health::sql::unavailable;
use crate::http::turns;

/// How long a value is good. Writes of other processes show here that much later at most.
pub const FRESH: Duration = Duration::from_millis(250);

/// The number of change counters, which keys share by hash.
const COUNTERS: usize = 1024;

/// The connections that values are read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Those of look-ups, which writes need, too. One that gets no answer in time tells that SQL is
    /// away.
    LookUps,
    /// Those of reads, which other reads may keep busy.
    Reads,
}

/// A cache of values from SQL, by key.
pub struct SqlCache<K, V> {
    values: Cache<K, Value<V>>,
    lane: Lane,
    health: Arc<Health>,
    hasher: RandomState,
    changes: Vec<AtomicU64>,
}

#[derive(Clone)]
struct Value<V> {
    /// The last known value.
    last: Option<V>,
    /// The error of the last read, if the value must not be used.
    error: Option<Error>,
    /// The instant until which it is good.
    good_until: Instant,
    /// How many changes this process had made when the read began, by the counter of the key.
    changes: u64,
}

impl<K, V> SqlCache<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Starts empty, and keeps values up to a total weight.
    pub fn new(health: &Arc<Health>, lane: Lane, weight_max: u64, weigh: fn(&V) -> u32) -> Self {
        let weigher = move |_: &K, value: &Value<V>| value.last.as_ref().map_or(1, weigh);
        Self {
            values: Cache::builder().max_capacity(weight_max).weigher(weigher).build(),
            lane,
            health: health.clone(),
            hasher: RandomState::new(),
            changes: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Finds the value of a key: a good cached one, or else that of `read`; and the instant until
    /// which it is good.
    ///
    /// # Errors
    /// The error of `read`, if there is no known value to use instead.
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
            if turns::is_here() {
                // No light request waits for what is read here, and its lateness tells nothing of
                // SQL. The next request that others wait for reads the value again.
                let began = Instant::now();
                let error = match self.health.sql.read(read()).await {
                    Ok(value) => return Ok((value, began + FRESH)),
                    Err(error) => error,
                };
                return match last.and_then(|known| known.last) {
                    Some(value) if error.code == ErrorCode::Unavailable => Ok((value, began)),
                    _ => Err(error),
                };
            }
            let reading = self.read(key, last, read());
            let entry = self.values.entry_by_ref(key);
            let value = entry.or_insert_with_if(reading, is_old).await.into_value();
            // Another request's read may have begun before a change by this process.
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
        // The read may miss changes made after this point.
        let changes = self.changes_of(key).load(Ordering::Acquire);
        let began = Instant::now();
        let answer = match self.lane {
            Lane::LookUps => self.health.sql.ask(read).await,
            Lane::Reads => self.health.sql.read(read).await,
        };
        let error = match answer {
            Ok(value) => {
                return Value {
                    last: Some(value),
                    error: None,
                    good_until: began + FRESH,
                    changes,
                };
            }
            Err(error) => error,
        };
        // The last known value serves while SQL is unavailable, but not after a change by this
        // process.
        match last {
            Some(last) if error.code == ErrorCode::Unavailable && last.changes >= changes => {
                Value { good_until: Instant::now() + FRESH, error: None, ..last }
            }
            last => Value {
                changes: last.as_ref().map_or(changes, |last| last.changes),
                last: last.and_then(|last| last.last),
                error: Some(error),
                good_until: began,
            },
        }
    }

    /// Invalidates the value of a key, as this process has changed it in SQL. The next request
    /// reads it again.
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
            (error, _) => Err(error.unwrap_or_else(unavailable)),
        }
    }
}
