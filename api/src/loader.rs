//! Batched look-ups of one request. All entries of members that it asks for cost one `ZMSCORE` per
//! standings and shard, then one pipeline of counts. All rows of members cost one SELECT.
//!
//! A look-up waits while a read is under way in the request that may lead to more look-ups, such as
//! a row of a member or a page. Without that, paths of different depth would come in batches of
//! their own.

mod boards;

use std::collections::HashMap;
use std::collections::hash_map::IntoValues;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dataloader::BatchFn;
use dataloader::cached::Loader;
use entity::member;
use ranking::id::MemberId;
use ranking::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::read::{RankedEntry, Standings};
use tokio::sync::Notify;

use crate::app::SharedApp;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode, Result};

use boards::{BoardBatch, Numbered};

/// The most keys of one batch. A request's own limits are tighter.
const BATCH_MAX: usize = 100_000;

/// How often a look-up yields first: once for others to register, once more for those that a read
/// has just woken.
const YIELD_COUNT: usize = 2;

/// The most rows that one SELECT asks for, as SQLite has 32,766 parameters.
const ROWS_MAX: usize = 10_000;

/// Something in standings, as the key of a loader. Two are equal if they name the same.
#[derive(Debug, Clone)]
pub struct In<K> {
    /// The standings.
    pub standings: Arc<Standings>,
    /// The key in them.
    pub key: K,
}

/// A member in standings.
pub type Place = In<MemberId>;

/// A rank key in standings, for a loader that counts the entries with smaller keys. `None` counts
/// all.
pub type Bound = In<Option<RankKey>>;

/// An entry in standings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The rank key.
    pub key: RankKey,
    /// The number of entries before it.
    pub position: u64,
}

/// The look-ups of one request.
#[derive(Clone)]
pub struct Loaders {
    counts: Loader<Bound, Result<u64>, CountBatch>,
    better_scores: Loader<Bound, Result<u64>, BetterScoresBatch>,
    entries: Loader<Place, Result<Option<Found>>, EntryBatch>,
    members: Loader<String, Result<Option<member::Model>>, MemberBatch>,
    boards: Loader<i64, Numbered, BoardBatch>,
    reads: Arc<Reads>,
}

/// The reads of a request that are under way and may lead to look-ups.
#[derive(Default)]
struct Reads {
    count: AtomicUsize,
    none_left: Notify,
}

/// A guard: while it lives, look-ups of the request wait.
pub struct Reading(Arc<Reads>);

impl Drop for Reading {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none_left.notify_waiters();
        }
    }
}

impl Loaders {
    /// Look-ups for a new request.
    pub fn new(app: &SharedApp) -> Self {
        Self {
            entries: loader(EntryBatch(app.clone())),
            counts: loader(CountBatch(app.clone())),
            better_scores: loader(BetterScoresBatch(app.clone())),
            members: loader(MemberBatch(app.clone())),
            boards: Loader::new(BoardBatch(app.clone())).with_yield_count(YIELD_COUNT),
            reads: Arc::default(),
        }
    }

    /// Announces a read that may lead to look-ups.
    pub fn reading(&self) -> Reading {
        self.reads.count.fetch_add(1, Ordering::AcqRel);
        Reading(self.reads.clone())
    }

    /// A member's entry in standings; `None` if it has none.
    pub async fn entry(&self, place: Place) -> Result<Option<Found>> {
        self.wait_for_reads().await;
        self.entries.try_load(place).await.map_err(|error| no_answer(&error))?
    }

    /// The entries of members in standings, in the order of `members`.
    pub async fn entries(
        &self,
        standings: &Arc<Standings>,
        members: &[MemberId],
    ) -> Result<Vec<Option<Found>>> {
        self.wait_for_reads().await;
        let places: Vec<Place> = members
            .iter()
            .map(|member| Place { standings: standings.clone(), key: member.clone() })
            .collect();
        let found =
            self.entries.try_load_many(places.clone()).await.map_err(|error| no_answer(&error))?;
        places.iter().map(|place| found.get(place).cloned().unwrap_or(Ok(None))).collect()
    }

    /// The number of entries before a bound.
    pub async fn count(&self, bound: Bound) -> Result<u64> {
        self.wait_for_reads().await;
        self.counts.try_load(bound).await.map_err(|error| no_answer(&error))?
    }

    /// The number of distinct scores that are better than that of the key of a bound.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if they are [`DENSE_SCORES_MAX`](crate::read::dense::DENSE_SCORES_MAX) or
    /// more.
    pub async fn better_scores(&self, bound: Bound) -> Result<u64> {
        self.wait_for_reads().await;
        self.better_scores.try_load(bound).await.map_err(|error| no_answer(&error))?
    }

    /// A member's row; `None` if SQL has none.
    pub async fn member(&self, key: &str) -> Result<Option<member::Model>> {
        self.members.try_load(key.to_owned()).await.map_err(|error| no_answer(&error))?
    }

    /// The rows of members, by key; members without one are absent.
    pub async fn members(&self, keys: Vec<String>) -> Result<HashMap<String, member::Model>> {
        let found = self.members.try_load_many(keys).await.map_err(|error| no_answer(&error))?;
        found
            .into_iter()
            .filter_map(|(key, row)| row.map(|row| row.map(|row| (key, row))).transpose())
            .collect()
    }

    /// The board of a number, even if it was deleted; `None` if there never was one.
    pub async fn board(&self, no: i64) -> Result<Option<Arc<CachedBoard>>> {
        self.boards.try_load(no).await.map_err(|error| no_answer(&error))?
    }

    /// The boards of numbers, even if they were deleted; absent if there never was one.
    pub async fn boards(&self, numbers: Vec<i64>) -> Result<HashMap<i64, Arc<CachedBoard>>> {
        let found = self.boards.try_load_many(numbers).await.map_err(|error| no_answer(&error))?;
        found
            .into_iter()
            .filter_map(|(no, board)| board.map(|board| board.map(|board| (no, board))).transpose())
            .collect()
    }

    /// Forgets all results, as the request has written something.
    pub async fn clear(&self) {
        self.entries.clear_all().await;
        self.counts.clear_all().await;
        self.better_scores.clear_all().await;
        self.members.clear_all().await;
    }

    async fn wait_for_reads(&self) {
        // Sibling fields may be about to begin a read.
        tokio::task::yield_now().await;
        loop {
            let none_left = self.reads.none_left.notified();
            tokio::pin!(none_left);
            none_left.as_mut().enable();
            if self.reads.count.load(Ordering::Acquire) == 0 {
                return;
            }
            none_left.await;
        }
    }
}

/// A loader whose batches are as large as a request may make them.
fn loader<K, V, F>(batch: F) -> Loader<K, V, F>
where
    K: Eq + Hash + Clone + Debug,
    V: Clone,
    F: BatchFn<K, V>,
{
    Loader::new(batch).with_max_batch_size(BATCH_MAX).with_yield_count(YIELD_COUNT)
}

/// The keys of a batch, by standings.
fn by_standings<K>(keys: &[In<K>]) -> IntoValues<&StandingsId, Vec<&In<K>>> {
    let mut by_standings: HashMap<&StandingsId, Vec<&In<K>>> = HashMap::new();
    for key in keys {
        by_standings.entry(&key.standings.id).or_default().push(key);
    }
    by_standings.into_values()
}

struct EntryBatch(SharedApp);

impl BatchFn<Place, Result<Option<Found>>> for EntryBatch {
    async fn load(&mut self, places: &[Place]) -> HashMap<Place, Result<Option<Found>>> {
        let app = &self.0;
        let batches = by_standings(places).map(|places| async move {
            let members: Vec<MemberId> = places.iter().map(|place| place.key.clone()).collect();
            let found = find(app, &places[0].standings, &members).await;
            let each = |(index, place): (usize, &&Place)| {
                ((*place).clone(), found.as_ref().map(|found| found[index]).map_err(Clone::clone))
            };
            places.iter().enumerate().map(each).collect::<Vec<_>>()
        });
        futures::future::join_all(batches).await.into_iter().flatten().collect()
    }
}

/// Finds entries in one round trip, or two if there are several shards.
async fn find(
    app: &SharedApp,
    standings: &Standings,
    members: &[MemberId],
) -> Result<Vec<Option<Found>>> {
    let found = app.reader.find(standings, members).await?.into_iter();
    let found = found.map(|found| {
        let (RankedEntry { key, .. }, position) = found?;
        Some(Found { key, position })
    });
    Ok(found.collect())
}

struct CountBatch(SharedApp);

impl BatchFn<Bound, Result<u64>> for CountBatch {
    async fn load(&mut self, bounds: &[Bound]) -> HashMap<Bound, Result<u64>> {
        let app = &self.0;
        let batches = by_standings(bounds).map(|bounds| async move {
            let standings = &bounds[0].standings;
            let keys: Vec<RankKey> = bounds.iter().filter_map(|bound| bound.key).collect();
            let counts = app.reader.counts_below(standings, &keys).await.map_err(Error::from);
            let size = match bounds.len() > keys.len() {
                true => app.reader.size(standings).await.map_err(Error::from),
                false => Ok(0),
            };
            let mut counts = keys.iter().enumerate().map(|(index, _)| {
                counts.as_ref().map(|counts| counts[index]).map_err(Clone::clone)
            });
            let each = bounds.iter().map(|bound| {
                let count =
                    if bound.key.is_some() { counts.next().unwrap_or(Ok(0)) } else { size.clone() };
                ((*bound).clone(), count)
            });
            each.collect::<Vec<_>>()
        });
        futures::future::join_all(batches).await.into_iter().flatten().collect()
    }
}

struct BetterScoresBatch(SharedApp);

impl BatchFn<Bound, Result<u64>> for BetterScoresBatch {
    async fn load(&mut self, bounds: &[Bound]) -> HashMap<Bound, Result<u64>> {
        let app = &self.0;
        let batches = by_standings(bounds).map(|bounds| async move {
            let keys: Vec<RankKey> = bounds.iter().filter_map(|bound| bound.key).collect();
            let counts = app.better_scores(&bounds[0].standings, &keys).await;
            let keyed = bounds.iter().filter(|bound| bound.key.is_some());
            let each = keyed.enumerate().map(|(index, bound)| {
                let count = match &counts {
                    Ok(counts) => counts[index].clone(),
                    Err(error) => Err(error.clone()),
                };
                ((*bound).clone(), count)
            });
            each.collect::<Vec<_>>()
        });
        futures::future::join_all(batches).await.into_iter().flatten().collect()
    }
}

struct MemberBatch(SharedApp);

impl BatchFn<String, Result<Option<member::Model>>> for MemberBatch {
    async fn load(&mut self, keys: &[String]) -> HashMap<String, Result<Option<member::Model>>> {
        let mut found = HashMap::with_capacity(keys.len());
        for chunk in keys.chunks(ROWS_MAX) {
            match member::of_keys(&self.0.deployment.reads, chunk).await {
                Ok(rows) => {
                    found.extend(chunk.iter().map(|key| (key.clone(), Ok(None))));
                    found.extend(rows.into_iter().map(|row| (row.key.clone(), Ok(Some(row)))));
                }
                Err(error) => {
                    let error = Error::from(error);
                    found.extend(chunk.iter().map(|key| (key.clone(), Err(error.clone()))));
                }
            }
        }
        found
    }
}

fn no_answer(error: &std::io::Error) -> Error {
    tracing::error!(%error, "a loader gave no answer");
    Error::new(ErrorCode::Internal, "internal error; the server's log has the cause")
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
