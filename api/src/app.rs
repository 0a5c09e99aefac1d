//! The state that all requests share: stores, caches, access tokens and committers.

use std::sync::Arc;
use std::time::Duration;

use engine::deployment::Deployment;
use futures::future::BoxFuture;
use moka::sync::Cache;
use ranking::id::BoardNo;
use ranking::store::Store;
use tokio::time::{Instant, sleep, timeout_at};

use crate::access::Access;
use crate::cache::boards::Boards;
use crate::cache::friends::Friends;
use crate::cache::recent_members::RecentMembers;
use crate::cache::shared::SharedCache;
use crate::error::{Error, Result};
use crate::read::reader::{PageCache, page_bytes};
use crate::submit::committer::Committers;
use engine::settings::CacheSettings;

/// How long a read waits for a partition to become level again.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The most members whose regions are kept for when SQL is unavailable.
const LAST_REGIONS_MAX: u64 = 100_000;

/// The state of the API.
pub struct App {
    /// The stores.
    pub deployment: Deployment,
    /// The cache of boards.
    pub boards: Boards,
    /// The cache of lists of friends.
    pub friends: Friends,
    /// The access tokens.
    pub access: Access,
    /// The cache of first pages of standings.
    pub pages: PageCache,
    /// The greatest age of a cached page or answer.
    pub cache_age: Duration,
    /// The committers of scores, one per partition.
    pub committers: Committers,
    /// True if public boards may be read without a token.
    pub public_reads: bool,
    /// Members whose scores this process accepted a moment ago.
    pub recent_members: RecentMembers,
    /// Members' last known regions, used while SQL is unavailable.
    pub last_regions: Cache<String, Option<String>>,
}

impl App {
    /// Builds the state, with empty caches.
    #[must_use]
    pub fn new(
        deployment: Deployment,
        committers: Committers,
        public_reads: bool,
        caches: &CacheSettings,
    ) -> Self {
        let cache_age = Duration::from_millis(caches.cache_age_ms);
        let bytes_max = caches.page_cache_bytes;
        let pages = SharedCache::new(&deployment.store, cache_age, bytes_max, page_bytes);
        Self {
            deployment,
            boards: Boards::new(),
            friends: Friends::new(),
            access: Access::new(),
            pages,
            cache_age,
            committers,
            public_reads,
            recent_members: RecentMembers::default(),
            last_regions: Cache::new(LAST_REGIONS_MAX),
        }
    }

    /// Rolls a board's windows to the present. After a transient error it pauses and returns, as
    /// the caller tries again.
    async fn roll(&self, board: BoardNo) -> Result<()> {
        let Deployment { db, clock, .. } = &self.deployment;
        let boards = entity::board::some(db, [board].into()).await?;
        let Some(board) = boards.get(&board) else {
            return Ok(());
        };
        match engine::roll::roll_board(&self.deployment, board, clock.now_ms()).await {
            Err(error) if !error.is_transient() => Err(error.into()),
            Err(_) => {
                sleep(Duration::from_millis(50)).await;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Reads from Redis, and retries until the read succeeds. If a partition is not level, this
    /// recovers it, or waits while another process does. If a rolling window lags behind the
    /// present, this rolls its board.
    ///
    /// # Errors
    /// `Sealed` or `Moved` if the standings are not there. `Failed` with the error of the read:
    /// `UNAVAILABLE` if the partition does not become level in time.
    pub async fn read_with_recovery<'a, T>(
        &'a self,
        read: impl Fn(&'a Store) -> BoxFuture<'a, ranking::Result<T>> + Send,
    ) -> Result<T, ReadError> {
        let deadline = Instant::now() + LEVEL_TIMEOUT;
        loop {
            let error = match read(&self.deployment.store).await {
                Ok(value) => return Ok(value),
                Err(ranking::Error::Sealed(before_ms)) => return Err(ReadError::Sealed(before_ms)),
                Err(error @ ranking::Error::BoardMoved(_)) => return Err(ReadError::Moved(error)),
                Err(error) => error,
            };
            if Instant::now() >= deadline {
                return Err(error.into());
            }
            let partition = match error {
                ranking::Error::NotLevel(partition) => partition,
                ranking::Error::NotRolled(board) => {
                    let rolling = timeout_at(deadline, self.roll(board)).await;
                    rolling.map_err(|_| ranking::Error::NotRolled(board))??;
                    continue;
                }
                error => return Err(error.into()),
            };
            match engine::partition::recovery::recover(
                &self.deployment,
                ranking::id::Partition(partition),
            )
            .await
            {
                Err(error) if !error.is_transient() => return Err(Error::from(error).into()),
                Err(_) => sleep(Duration::from_millis(50)).await,
                Ok(()) => {}
            }
        }
    }
}

/// The reason why a read from Redis gave nothing.
#[derive(Debug)]
pub enum ReadError {
    /// The period has left Redis, as have all that start before this instant, in Unix milliseconds.
    Sealed(i64),
    /// The board has moved to another number of shards since its row was read, or is about to.
    Moved(ranking::Error),
    /// The read failed.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for ReadError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The state, as request handlers share it.
pub type SharedApp = Arc<App>;
