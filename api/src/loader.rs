//! The look-ups of one request, each made once. All entries of members that a request asks for cost
//! one `ZMSCORE` per standings and shard, then one pipeline of counts; all positions of the same
//! standings cost one search; all rows of members cost one SELECT.
//!
//! A look-up of entries or counts waits while a read is under way in the request that may lead to
//! more look-ups, such as a row of a member or a page. Without that, paths of different depth would
//! come in batches of their own.
//!
//! A method gives a boxed future, and a batch runs in one: a field of a query is as large as all
//! that it may await, and a query may have 100,000 fields that wait.

mod boards;
pub(crate) mod entries;
pub(crate) mod friends;
mod lazy;
mod lookups;
mod members;
mod metadata;
mod pages;
mod scores_counted;
pub(crate) mod totals;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use entity::member;
use futures::FutureExt;
use futures::future::BoxFuture;
use ranking::id::MemberId;
use ranking::metadata::Metadata;
use ranking::score::rank_key::RankKey;
use ranking::store::read::Standings;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::app::SharedApp;
use crate::cache::boards::CachedBoard;
use crate::error::Result;

use boards::{BoardBatch, Numbered};
use entries::{BetterScoresBatch, CountBatch, EntryBatch};
pub use entries::{Bound, Found, Place};
use friends::{FriendRankingBatch, FriendsBatch, FriendsRead, RankingRead};
use lazy::Lazy;
pub(crate) use lookups::In;
use lookups::Lookups;
use members::{MemberBatch, Row};
pub(crate) use metadata::EntryMaker;
use metadata::MetadataBatch;
use pages::{Around, AroundBatch, AroundRead, Extent, Page, PageBatch, PageRead, Span};
use scores_counted::{Counted, ScoresCountedBatch};
use totals::{Total, TotalBatch};

/// The most rows that one SELECT asks for, as SQLite has 32,766 parameters.
pub(crate) const ROWS_MAX: usize = 10_000;

/// The look-ups of one request.
pub struct Loaders {
    counts: Lazy<Bound, Result<u64>, CountBatch>,
    better_scores: Lazy<Bound, Result<u64>, BetterScoresBatch>,
    entries: Lazy<Place, Result<Option<Found>>, EntryBatch>,
    pages: Lazy<Page, PageRead, PageBatch>,
    around: Lazy<Around, AroundRead, AroundBatch>,
    members: Lazy<String, Row, MemberBatch>,
    metadata: Lazy<EntryMaker, Result<Option<Metadata>>, MetadataBatch>,
    scores_counted: Lazy<EntryMaker, Counted, ScoresCountedBatch>,
    friends: Lazy<MemberId, FriendsRead, FriendsBatch>,
    rankings: Lazy<Place, RankingRead, FriendRankingBatch>,
    totals: Lazy<Total, Result<u64>, TotalBatch>,
    boards: Lazy<i64, Numbered, BoardBatch>,
    lookups: Lookups,
    reads: Arc<Reads>,
    /// All look-ups of standings that are under way.
    look_ups: Arc<Reads>,
    began_at: Instant,
    made: Arc<Made>,
}

/// The hashes of the look-ups that the request has made.
#[derive(Default)]
struct Made {
    hasher: RandomState,
    hashes: Mutex<HashSet<u64>>,
}

/// The reads of a request that are under way.
#[derive(Default)]
struct Reads {
    count: AtomicUsize,
    none_left: Notify,
}

impl Reads {
    fn one_more(self: &Arc<Self>) -> Reading {
        self.count.fetch_add(1, Ordering::AcqRel);
        Reading(self.clone())
    }

    fn are_under_way(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Waits until none is under way.
    async fn end(&self) {
        loop {
            let none_left = self.none_left.notified();
            tokio::pin!(none_left);
            none_left.as_mut().enable();
            if !self.are_under_way() {
                return;
            }
            none_left.await;
        }
    }
}

/// A guard: while it lives, a read is under way.
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
            counts: Lazy::new(CountBatch),
            better_scores: Lazy::new(BetterScoresBatch),
            entries: Lazy::new(EntryBatch),
            pages: Lazy::new(PageBatch),
            around: Lazy::new(AroundBatch),
            members: Lazy::new(MemberBatch),
            metadata: Lazy::new(MetadataBatch),
            scores_counted: Lazy::new(ScoresCountedBatch::new),
            friends: Lazy::new(FriendsBatch),
            rankings: Lazy::new(FriendRankingBatch),
            totals: Lazy::new(TotalBatch),
            boards: Lazy::new(BoardBatch),
            lookups: Lookups::new(app),
            reads: Arc::default(),
            look_ups: Arc::default(),
            began_at: Instant::now(),
            made: Arc::default(),
        }
    }

    /// Announces a read that may lead to look-ups.
    pub fn reading(&self) -> Reading {
        self.reads.one_more()
    }

    /// The instant at which the request began.
    pub(crate) fn began_at(&self) -> Instant {
        self.began_at
    }

    /// Makes a read that no loader makes, as soon as fewer than 64 of the request are under way.
    pub(crate) fn read<'a, T: 'a>(
        &'a self,
        read: impl Future<Output = T> + Send + 'a,
    ) -> BoxFuture<'a, T> {
        self.lookups.read(read)
    }

    /// True the first time that the request asks about a look-up.
    pub(crate) fn is_new(&self, look_up: &impl Hash) -> bool {
        let hash = self.made.hasher.hash_one(look_up);
        self.made.hashes.lock().unwrap_or_else(PoisonError::into_inner).insert(hash)
    }

    /// A member's entry in standings; `None` if it has none.
    pub fn entry(&self, place: Place) -> BoxFuture<'_, Result<Option<Found>>> {
        let found = async move {
            let _look_up = self.look_up().await;
            self.entries.load(&self.lookups, place).await?
        };
        found.boxed()
    }

    /// The entries of members in standings, in the order of `members`.
    pub async fn entries(
        &self,
        standings: &Arc<Standings>,
        members: &[MemberId],
    ) -> Result<Vec<Option<Found>>> {
        let _look_up = self.look_up().await;
        let places: Vec<Place> = members
            .iter()
            .map(|member| Place { standings: standings.clone(), key: member.clone() })
            .collect();
        let found = self.entries.load_many(&self.lookups, places.clone()).await?;
        places.iter().map(|place| found.get(place).cloned().unwrap_or(Ok(None))).collect()
    }

    /// The number of entries before a bound.
    pub fn count(&self, bound: Bound) -> BoxFuture<'_, Result<u64>> {
        let count = async move {
            let _look_up = self.look_up().await;
            self.counts.load(&self.lookups, bound).await?
        };
        count.boxed()
    }

    /// The number of entries before each of some keys.
    pub async fn counts(&self, standings: &Arc<Standings>, keys: &[RankKey]) -> Result<Vec<u64>> {
        let _look_up = self.look_up().await;
        let bound = |key: &RankKey| Bound { standings: standings.clone(), key: Some(*key) };
        let bounds: Vec<Bound> = keys.iter().map(bound).collect();
        let counts = self.counts.load_many(&self.lookups, bounds.clone()).await?;
        bounds.iter().map(|bound| counts.get(bound).cloned().unwrap_or(Ok(0))).collect()
    }

    /// The number of distinct scores that are better than that of the key of a bound.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if they are `DENSE_SCORES_MAX` or more.
    pub fn better_scores(&self, bound: Bound) -> BoxFuture<'_, Result<u64>> {
        let count = async move {
            let _look_up = self.look_up().await;
            self.better_scores.load(&self.lookups, bound).await?
        };
        count.boxed()
    }

    /// The steps of the walks over scores since the last call.
    pub fn take_steps(&self) -> u64 {
        self.lookups.steps.swap(0, Ordering::Relaxed)
    }

    /// A page of up to `limit` entries from a position on, and the instant until which it is good.
    pub(crate) fn page(
        &self,
        standings: &Arc<Standings>,
        position: u64,
        limit: usize,
    ) -> BoxFuture<'_, PageRead> {
        let page = Page { standings: standings.clone(), key: Span { position, limit } };
        async move { self.pages.load(&self.lookups, page).await? }.boxed()
    }

    /// The entries around a member, its own included, and the position of the first; `None` if the
    /// member has no entry.
    pub(crate) fn around(
        &self,
        standings: &Arc<Standings>,
        member: MemberId,
        above: usize,
        below: usize,
    ) -> BoxFuture<'_, AroundRead> {
        let key = Extent { member, above, below };
        let around = Around { standings: standings.clone(), key };
        async move { self.around.load(&self.lookups, around).await? }.boxed()
    }

    /// A member's row; `None` if SQL has none.
    pub fn member(&self, key: &str) -> BoxFuture<'_, Result<Option<member::Model>>> {
        let key = key.to_owned();
        async move { self.members.load(&self.lookups, key).await? }.boxed()
    }

    /// The rows of members, by key; members without one are absent.
    pub async fn members(&self, keys: Vec<String>) -> Result<HashMap<String, member::Model>> {
        let found = self.members.load_many(&self.lookups, keys).await?;
        found
            .into_iter()
            .filter_map(|(key, row)| row.map(|row| row.map(|row| (key, row))).transpose())
            .collect()
    }

    /// The metadata of an entry.
    pub(crate) fn metadata(&self, of: EntryMaker) -> BoxFuture<'_, Result<Option<Metadata>>> {
        let found = async move {
            self.wait_for_look_ups().await;
            self.metadata.load(&self.lookups, of).await?
        };
        found.boxed()
    }

    /// The scores that count in an entry.
    pub(crate) fn scores_counted(&self, of: EntryMaker) -> BoxFuture<'_, Counted> {
        async move { self.scores_counted.load(&self.lookups, of).await? }.boxed()
    }

    /// A member's friends, ordered by key, and the instant until which the list is good.
    pub(crate) fn friends(&self, member: MemberId) -> BoxFuture<'_, FriendsRead> {
        async move { self.friends.load(&self.lookups, member).await? }.boxed()
    }

    /// The ranking of a member and its friends in standings, in order, and the instant until which
    /// it is good.
    pub(crate) fn ranking(&self, of: Place) -> BoxFuture<'_, RankingRead> {
        async move { self.rankings.load(&self.lookups, of).await? }.boxed()
    }

    /// The total of a connection.
    pub(crate) fn total(&self, total: Total) -> BoxFuture<'_, Result<u64>> {
        async move { self.totals.load(&self.lookups, total).await? }.boxed()
    }

    /// The board of a number, even if it was deleted; `None` if there never was one.
    pub fn board(&self, no: i64) -> BoxFuture<'_, Result<Option<Arc<CachedBoard>>>> {
        async move { self.boards.load(&self.lookups, no).await? }.boxed()
    }

    /// The boards of numbers, even if they were deleted; absent if there never was one.
    pub async fn boards(&self, numbers: Vec<i64>) -> Result<HashMap<i64, Arc<CachedBoard>>> {
        let found = self.boards.load_many(&self.lookups, numbers).await?;
        found
            .into_iter()
            .filter_map(|(no, board)| board.map(|board| board.map(|board| (no, board))).transpose())
            .collect()
    }

    /// Forgets all results, as the request has written something.
    pub async fn clear(&self) {
        self.entries.clear().await;
        self.counts.clear().await;
        self.better_scores.clear().await;
        self.pages.clear().await;
        self.around.clear().await;
        self.members.clear().await;
        self.metadata.clear().await;
        self.scores_counted.clear().await;
        self.friends.clear().await;
        self.rankings.clear().await;
        self.totals.clear().await;
        self.made.hashes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits while a read of the request that was announced is under way.
    pub(crate) async fn wait_for_reads(&self) {
        // Sibling fields may be about to begin a read.
        tokio::task::yield_now().await;
        self.reads.end().await;
    }

    /// Begins a look-up of standings, as soon as no read that was announced is under way.
    async fn look_up(&self) -> Reading {
        let look_up = self.look_ups.one_more();
        self.wait_for_reads().await;
        look_up
    }

    /// Waits while a look-up of standings is under way in the request.
    pub(crate) async fn wait_for_look_ups(&self) {
        loop {
            self.wait_for_reads().await;
            if !self.look_ups.are_under_way() {
                return;
            }
            self.look_ups.end().await;
        }
    }
}
