//! What every request shares: the stores, what is known of boards and tokens, the committers.

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
use crate::cache::shared::{CacheSettings, Hot};
use crate::error::{Error, Result};
use crate::read::reader::{HotPages, page_bytes};
use crate::submit::committer::Committers;

/// How long a read waits for a partition to become level again.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// How many members' regions are remembered for when SQL is away.
const LAST_REGIONS_MAX: u64 = 100_000;

/// The API's state.
pub struct App {
    /// The stores.
    pub deployment: Deployment,
    /// The boards known so far.
    pub boards: Boards,
    /// The lists of friends known so far.
    pub friends: Friends,
    /// The tokens checked lately.
    pub access: Access,
    /// First pages of standings, read a moment ago.
    pub pages: HotPages,
    /// How old what is kept of pages and answers may be.
    pub cache_age: Duration,
    /// The way in for scores.
    pub committers: Committers,
    /// Whether boards that are public may be read without a token.
    pub public_reads: bool,
    /// Members who were accepted here a moment ago.
    pub recent_members: RecentMembers,
    /// The regions that members had when they were last asked for: what is used while SQL is away.
    pub last_regions: Cache<String, Option<String>>,
}

impl App {
    /// Puts it together.
    #[must_use]
    pub fn new(
        deployment: Deployment,
        committers: Committers,
        public_reads: bool,
        caches: &CacheSettings,
    ) -> Self {
        let cache_age = Duration::from_millis(caches.cache_age_ms);
        let bytes_max = caches.page_cache_bytes;
        let pages = Hot::new(&deployment.store, cache_age, bytes_max, page_bytes);
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

    /// Moves a board's rolling windows on to the present.
    async fn roll(&self, board: BoardNo) -> Result<()> {
        let Deployment { db, clock, .. } = &self.deployment;
        let boards = entity::board::some(db, [board].into()).await?;
        let Some(board) = boards.get(&board) else {
            return Ok(());
        };
        match engine::roll::roll_board(&self.deployment, board, clock.now_ms()).await {
            Err(error) if !error.is_for_now() => Err(error.into()),
            Err(_) => {
                sleep(Duration::from_millis(50)).await;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Reads from Redis. Where a partition is not level, brings it level first, or waits until whoever is at it is done; the same where a rolling
    /// window has not got to the present.
    ///
    /// # Errors
    /// Where what is read is elsewhere; what the read says; `UNAVAILABLE` where a partition does not become level in time.
    pub async fn read_level<'a, T>(
        &'a self,
        read: impl Fn(&'a Store) -> BoxFuture<'a, ranking::Result<T>> + Send,
    ) -> Result<T, Unread> {
        let deadline = Instant::now() + LEVEL_TIMEOUT;
        loop {
            let error = match read(&self.deployment.store).await {
                Ok(value) => return Ok(value),
                Err(ranking::Error::Sealed(before_ms)) => return Err(Unread::Sealed(before_ms)),
                Err(error @ ranking::Error::BoardMoved(_)) => return Err(Unread::Moved(error)),
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
                Err(error) if !error.is_for_now() => return Err(Error::from(error).into()),
                Err(_) => sleep(Duration::from_millis(50)).await,
                Ok(()) => {}
            }
        }
    }
}

/// Why nothing was read from Redis.
#[derive(Debug)]
pub enum Unread {
    /// The period, and all that start before this instant in Unix milliseconds, have left Redis.
    Sealed(i64),
    /// The board moved to another number of shards since its row was read, or is about to.
    Moved(ranking::Error),
    /// It failed.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Unread {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The state, shared.
pub type SharedApp = Arc<App>;
