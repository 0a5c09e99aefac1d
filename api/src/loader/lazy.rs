//! A loader of a request that is made when it is first used.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::OnceLock;

use dataloader::BatchFn;
use dataloader::cached::Loader;

use super::lookups::Lookups;
use crate::error::{Error, ErrorCode, Result};

/// The most keys of one batch. A request's own limits are tighter.
const BATCH_MAX: usize = 100_000;

/// How often a look-up yields first: once for others to register, once more for those that a read
/// has just woken.
const YIELD_COUNT: usize = 2;

/// A loader that is made when it is first used: most requests use few of them.
pub(super) struct Lazy<K, V, F>
where
    K: Eq + Hash + Clone,
    V: Clone,
    F: BatchFn<K, V>,
{
    made: OnceLock<Loader<K, V, F>>,
    batch: fn(Lookups) -> F,
}

impl<K, V, F> Lazy<K, V, F>
where
    K: Eq + Hash + Clone + std::fmt::Debug,
    V: Clone,
    F: BatchFn<K, V>,
{
    pub(super) fn new(batch: fn(Lookups) -> F) -> Self {
        Self { made: OnceLock::new(), batch }
    }

    /// The value of a key, found in a batch with those of others.
    pub(super) async fn load(&self, lookups: &Lookups, key: K) -> Result<V> {
        self.with(lookups).try_load(key).await.map_err(|error| no_answer(&error))
    }

    /// The values of keys, as [`Self::load`].
    pub(super) async fn load_many(&self, lookups: &Lookups, keys: Vec<K>) -> Result<HashMap<K, V>> {
        self.with(lookups).try_load_many(keys).await.map_err(|error| no_answer(&error))
    }

    fn with(&self, lookups: &Lookups) -> &Loader<K, V, F> {
        self.made.get_or_init(|| {
            Loader::new((self.batch)(lookups.clone()))
                .with_max_batch_size(BATCH_MAX)
                .with_yield_count(YIELD_COUNT)
        })
    }

    pub(super) async fn clear(&self) {
        if let Some(made) = self.made.get() {
            made.clear_all().await;
        }
    }
}

fn no_answer(error: &std::io::Error) -> Error {
    tracing::error!(%error, "a loader gave no answer");
    Error::new(ErrorCode::Internal, "internal error; the server's log has the cause")
}
