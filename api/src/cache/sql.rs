//! A cache of values from SQL. Most requests need no SQL thanks to it, and reads go on while SQL is
//! unavailable.
//!
//! A value is good for [`FRESH`], or until this process changes it. One request reads it again at
//! half of that time, while the others go on with it; those that come when it is no longer good
//! wait for one that reads it. If SQL does not answer, the last known value stays in use, and while
//! SQL is known to be away, at once.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// [`FRESH`], but in tests.
    fresh: Duration,
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
    /// True once a request reads it again.
    is_renewed: Arc<AtomicBool>,
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
            fresh: FRESH,
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
                Some(value) if !is_old(&value) => {
                    if !turns::is_here() && value.is_to_renew(self.fresh) {
                        // If that fails, the present value stays until its end, and no longer.
                        let _shared = turns::share();
                        let renewed = self.read(key, None, read()).await;
                        return keep(self.values.clone(), key.clone(), renewed).await.answer();
                    }
                    return value.answer();
                }
                last => last.filter(|last| last.last.is_some()),
            };
            if turns::is_here() {
                // No light request waits for what is read here, and its lateness tells nothing of
                // SQL.
                let changes = self.changes_of(key).load(Ordering::Acquire);
                let began = Instant::now();
                let error = match self.health.sql.read(read()).await {
                    Ok(value) => {
                        let read = self.value(value, began, changes);
                        // Another request may wait for this step, so it is not done here.
                        tokio::spawn(keep(self.values.clone(), key.clone(), read.clone()));
                        return read.answer();
                    }
                    Err(error) => error,
                };
                return match last.and_then(|known| known.last) {
                    Some(value) if error.code == ErrorCode::Unavailable => Ok((value, began)),
                    _ => Err(error),
                };
            }
            let reading = self.read(key, last, read());
            let _shared = turns::share();
            let entry = self.values.entry_by_ref(key);
            let value = entry.or_insert_with_if(reading, is_old).await.into_value();
            // Another request's read may have begun before a change by this process.
            if value.error.is_some() || value.changes >= changes {
                return value.answer();
            }
        }
    }

    /// A value of SQL, of a read that began then.
    fn value(&self, value: V, began: Instant, changes: u64) -> Value<V> {
        Value {
            last: Some(value),
            error: None,
            good_until: began + self.fresh,
            changes,
            is_renewed: Arc::default(),
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
            Ok(value) => return self.value(value, began, changes),
            Err(error) => error,
        };
        // The last known value serves while SQL is unavailable, but not after a change by this
        // process.
        match last {
            Some(last) if error.code == ErrorCode::Unavailable && last.changes >= changes => {
                let good_until = Instant::now() + self.fresh;
                Value { good_until, error: None, is_renewed: Arc::default(), ..last }
            }
            last => Value {
                changes: last.as_ref().map_or(changes, |last| last.changes),
                last: last.and_then(|last| last.last),
                error: Some(error),
                good_until: began,
                is_renewed: Arc::default(),
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

/// Keeps a value of a key, unless there is a later one; gives the one that is kept.
async fn keep<K, V>(values: Cache<K, Value<V>>, key: K, value: Value<V>) -> Value<V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    let (good_until, changes) = (value.good_until, value.changes);
    let is_earlier = |kept: &Value<V>| kept.good_until < good_until || kept.changes < changes;
    values.entry(key).or_insert_with_if(async { value }, is_earlier).await.into_value()
}

impl<V> Value<V> {
    /// True for the first request that asks so in the second half of the time that it is good.
    fn is_to_renew(&self, fresh: Duration) -> bool {
        let left = self.good_until.saturating_duration_since(Instant::now());
        left < fresh / 2 && !self.is_renewed.swap(true, Ordering::Relaxed)
    }

    fn answer(self) -> Result<(V, Instant)> {
        match (self.error, self.last) {
            (None, Some(value)) => Ok((value, self.good_until)),
            (error, _) => Err(error.unwrap_or_else(unavailable)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const KEY: u8 = 1;

    /// No test lasts so long.
    const HOUR: Duration = Duration::from_secs(3600);

    fn cache() -> SqlCache<u8, u8> {
        let cache = SqlCache::new(&Health::unwatched(), Lane::LookUps, 10, |_| 1);
        SqlCache { fresh: HOUR, ..cache }
    }

    /// Makes the kept value older.
    async fn age(cache: &SqlCache<u8, u8>, by: Duration) {
        let mut value = cache.values.get(&KEY).await.unwrap();
        value.good_until -= by;
        cache.values.insert(KEY, value).await;
    }

    async fn read_as(cache: &SqlCache<u8, u8>, value: u8) -> Option<u8> {
        cache.find(&KEY, || ready(Ok(value))).await.ok().map(|(value, _)| value)
    }

    #[tokio::test]
    async fn one_request_renews_a_value_while_others_go_on_with_it() {
        let cache = cache();
        assert_eq!(read_as(&cache, 1).await, Some(1));
        age(&cache, HOUR / 4).await;
        assert_eq!(read_as(&cache, 2).await, Some(1));
        age(&cache, HOUR / 2).await;
        let mut renewing = Box::pin(cache.find(&KEY, pending));
        assert!(futures::poll!(&mut renewing).is_pending());
        assert_eq!(read_as(&cache, 3).await, Some(1));
        // That read is late, and then it is gone.
        age(&cache, HOUR / 2).await;
        assert_eq!(read_as(&cache, 4).await, Some(4));
        drop(renewing);
        age(&cache, HOUR * 3 / 4).await;
        assert_eq!(read_as(&cache, 5).await, Some(5));
    }

    #[tokio::test]
    async fn a_value_that_is_not_read_again_stays_until_its_end_only() {
        let cache = cache();
        read_as(&cache, 1).await;
        age(&cache, HOUR * 3 / 4).await;
        let failed = || ready(Err::<u8, _>(Error::new(ErrorCode::Internal, "a fault")));
        assert_eq!(cache.find(&KEY, failed).await.unwrap().0, 1);
        age(&cache, HOUR / 4).await;
        assert_eq!(cache.find(&KEY, failed).await.unwrap_err().code, ErrorCode::Internal);
        assert_eq!(read_as(&cache, 2).await, Some(2));
        // A change of this process ends it at once.
        cache.changed(&KEY);
        assert_eq!(read_as(&cache, 3).await, Some(3));
    }
    #[tokio::test]
    async fn a_value_that_cannot_be_renewed_hides_no_later_one() {
        let cache = SqlCache { lane: Lane::Reads, ..cache() };
        read_as(&cache, 1).await;
        age(&cache, HOUR * 3 / 4).await;
        let away = || ready(Err::<u8, _>(unavailable()));
        assert_eq!(cache.find(&KEY, away).await.unwrap().0, 1);
        age(&cache, HOUR / 4).await;
        assert_eq!(read_as(&cache, 2).await, Some(2));
    }
}
