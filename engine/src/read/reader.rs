//! The reader: standings from Redis, or from SQL once their period is sealed or while Redis is
//! away, and one loop that makes a read succeed.
//!
//! A caller may know a board as it was a moment ago. If a period has left Redis, Redis says so;
//! then SQL has all of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use entity::error::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use ranking::id::{BoardNo, MemberId, PartitionNo};
use ranking::score::rank_key::RankKey;
use ranking::store::Store;
use ranking::store::read::merge::Start;
use ranking::store::read::{RankedEntry, Standings};
use tokio::time::{Instant, sleep, timeout_at};

use super::fallback::Fallback;
use super::in_sql::SqlStandings;
use super::log_tails::LogTails;
use super::sealed;
use crate::deployment::Deployment;
use crate::deployment::redis_health::RECOVERY_WAIT;
use crate::roll::{Goal, roll_to};

/// The pause before a read is tried again while another process does what it waits for.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The pause while a board moves to another number of shards: readers wait for milliseconds only.
const MOVE_PAUSE: Duration = Duration::from_millis(10);

/// The pause after a partition was recovered or a board rolled.
const MENDED_PAUSE: Duration = Duration::from_millis(5);

/// Reads standings, wherever they are. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reader {
    pub(super) deployment: Deployment,
    store: Store,
    timeout: Duration,
    /// The standings in SQL that answer while Redis is away; `None` if none do.
    pub(super) fallback: Option<Arc<Fallback>>,
    /// The ends of the logs, for the metadata of entries.
    pub(super) tails: Arc<LogTails>,
}

impl Reader {
    /// A reader that waits up to `timeout` for a partition to become level, a window to be rolled,
    /// or a board to have moved.
    pub fn new(deployment: &Deployment, timeout: Duration) -> Self {
        let (deployment, store) = (deployment.clone(), deployment.store.for_reads());
        Self { deployment, store, timeout, fallback: None, tails: Arc::default() }
    }

    /// The same reader, for costly requests: no other read of Redis waits for its own.
    pub fn costly(&self) -> Self {
        let store = self.deployment.store.for_costly_reads();
        Self { store, tails: Arc::default(), ..self.clone() }
    }

    /// The same reader, which reads from SQL while Redis is away. Clones share what SQL told.
    pub fn with_fallback(self) -> Self {
        Self { fallback: Some(Arc::new(Fallback::new())), ..self }
    }

    /// The number of entries.
    pub async fn size(&self, standings: &Standings) -> Result<u64> {
        self.read(
            standings,
            0,
            |store, now| async move { store.size(&now).await }.boxed(),
            |in_sql| async move {
                match (in_sql.size(), &self.fallback) {
                    (None, Some(fallback)) => fallback.size(&self.deployment, standings).await,
                    (size, _) => Ok(size.unwrap_or(0)),
                }
            },
        )
        .await
    }

    /// The keys of members, in the order of `members`.
    pub async fn rank_keys(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<RankKey>>> {
        self.read(
            standings,
            vec![None; members.len()],
            |store, now| async move { store.rank_keys(&now, members).await }.boxed(),
            |in_sql| async move { in_sql.rank_keys(members).await },
        )
        .await
    }

    /// The positions of entries; `None` for an entry that has left since.
    pub async fn positions(
        &self,
        standings: &Standings,
        entries: &[RankedEntry],
    ) -> Result<Vec<Option<u64>>> {
        self.read(
            standings,
            vec![None; entries.len()],
            |store, now| async move { store.positions(&now, entries).await }.boxed(),
            |in_sql| async move {
                let positions = in_sql.positions(entries).await;
                positions.map(|positions| positions.into_iter().map(Some).collect())
            },
        )
        .await
    }

    /// The entries and positions of members, in the order of `members`; `None` for members without
    /// an entry.
    pub async fn find(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<(RankedEntry, u64)>>> {
        self.read(
            standings,
            vec![None; members.len()],
            |store, now| async move { store.find(&now, members).await }.boxed(),
            |in_sql| async move { in_sql.find(members).await },
        )
        .await
    }

    /// For each key, the number of entries with a smaller one.
    pub async fn counts_below(&self, standings: &Standings, keys: &[RankKey]) -> Result<Vec<u64>> {
        self.read(
            standings,
            vec![0; keys.len()],
            |store, now| async move { store.counts_below(&now, keys).await }.boxed(),
            |in_sql| async move { in_sql.counts_below(keys).await },
        )
        .await
    }

    /// Up to `limit` entries from a place on, the entry of the place included, and the position of
    /// the first.
    pub async fn forward(
        &self,
        standings: &Standings,
        from: &RankedEntry,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        self.read(
            standings,
            (0, vec![]),
            |store, now| {
                let start = Start::Place(from.clone());
                async move { store.forward(&now, &start, limit).await }.boxed()
            },
            |in_sql| async move { in_sql.forward(from, limit).await },
        )
        .await
    }

    /// Up to `limit` entries from a position on.
    pub async fn forward_from(
        &self,
        standings: &Standings,
        position: u64,
        limit: usize,
    ) -> Result<Vec<RankedEntry>> {
        let mut pages = self.pages_from(standings, &[(position, limit)]).await?;
        Ok(pages.pop().unwrap_or_default())
    }

    /// Up to `limit` entries after the last one of a page, or the first ones; nothing before them
    /// is counted in SQL.
    pub async fn page_after(
        &self,
        standings: &Standings,
        last: Option<&RankedEntry>,
        limit: usize,
    ) -> Result<Vec<RankedEntry>> {
        self.read(
            standings,
            vec![],
            |store, now| {
                async move {
                    let start = match last {
                        // It begins with the entry of the place.
                        Some(last) => Start::Place(last.clone()),
                        None => Start::Split(store.split_at_position(&now, 0).await?),
                    };
                    let more = usize::from(last.is_some());
                    let (_, mut page) = store.forward(&now, &start, limit + more).await?;
                    if last.is_some() && page.first() == last {
                        page.remove(0);
                    }
                    page.truncate(limit);
                    Ok(page)
                }
                .boxed()
            },
            |in_sql| async move { in_sql.page_after(last, limit).await },
        )
        .await
    }

    /// Up to `limit` entries before a place, or the last ones, in rank order; and the position of
    /// the place.
    pub async fn backward(
        &self,
        standings: &Standings,
        before: Option<&RankedEntry>,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        self.read(
            standings,
            (0, vec![]),
            |store, now| {
                async move {
                    let start = match before {
                        Some(place) => Start::Place(place.clone()),
                        None => Start::Split(store.end(&now).await?),
                    };
                    store.backward(&now, &start, limit).await
                }
                .boxed()
            },
            |in_sql| async move { in_sql.backward(before, limit).await },
        )
        .await
    }

    /// The entries around a member, its own included, and the position of the first; `None` if the
    /// member has no entry.
    pub async fn neighbors(
        &self,
        standings: &Standings,
        member: &MemberId,
        above: usize,
        below: usize,
    ) -> Result<Option<(u64, Vec<RankedEntry>)>> {
        self.read(
            standings,
            None,
            |store, now| async move { store.neighbors(&now, member, above, below).await }.boxed(),
            |in_sql| async move { in_sql.neighbors(member, above, below).await },
        )
        .await
    }

    /// Reads from Redis, or from SQL if the standings are there or Redis is away; gives `nothing`
    /// if they never had an entry.
    pub(super) async fn read<'a, T: Send + 'a, S>(
        &'a self,
        standings: &'a Standings,
        nothing: T,
        live: impl Fn(&'a Store, Cow<'a, Standings>) -> BoxFuture<'a, ranking::Result<T>> + Send + Sync,
        in_sql: impl FnOnce(SqlStandings) -> S + Send + 'a,
    ) -> Result<T>
    where
        S: Future<Output = Result<T>> + Send + 'a,
    {
        let mut fallback: Option<&Fallback> = None;
        if !standings.is_sealed() {
            match self.read_redis(standings, live).await {
                Ok(Ok(read)) => return Ok(read),
                Ok(Err(_)) => {}
                Err(error) => fallback = Some(self.fallback_for(error)?),
            }
        }
        // In a box, as most reads never come here.
        let reading = async move {
            let (found, complete_at) = match fallback {
                Some(fallback) => fallback.find(&self.deployment, standings).await?,
                None => (sealed::find(&self.deployment.reads, standings).await?, None),
            };
            let read = match found {
                Some(found) => in_sql(found).await?,
                None => nothing,
            };
            if let Some(fallback) = fallback {
                fallback.note(&standings.id, complete_at).await;
            }
            Ok(read)
        };
        reading.boxed().await
    }

    /// Reads from Redis until the read succeeds. It recovers a partition that is not level, or
    /// waits while another process does; rolls a board whose windows lag behind the present; and
    /// reads the board's row again if the board has moved to another number of shards since, or is
    /// about to. The inner error is the instant before which periods have left Redis.
    pub(super) async fn read_redis<'a, T>(
        &'a self,
        standings: &'a Standings,
        read: impl Fn(&'a Store, Cow<'a, Standings>) -> BoxFuture<'a, ranking::Result<T>> + Send + Sync,
    ) -> Result<Result<T, i64>> {
        let deadline = Instant::now() + self.timeout;
        // SQL answers instead of a partition that waits longer, or a window behind the present.
        let level_by = match &self.fallback {
            Some(_) => deadline.min(Instant::now() + RECOVERY_WAIT),
            None => deadline,
        };
        let mut now = Cow::Borrowed(standings);
        loop {
            let away = self.deployment.redis_health.until_away(standings.partitions());
            let read = tokio::select! {
                // A silent server is asked by the probe alone.
                biased;
                () = away => Err(ranking::Error::Unavailable("Redis does not answer".into())),
                read = read(&self.store, now.clone()) => {
                    if matches!(read, Err(ranking::Error::Unavailable(_))) {
                        self.deployment.redis_health.doubt();
                    }
                    read
                }
            };
            let error = match read {
                Ok(value) => return Ok(Ok(value)),
                Err(ranking::Error::Sealed(before_ms)) => return Ok(Err(before_ms)),
                Err(error) => error,
            };
            if Instant::now() >= deadline {
                return Err(error.into());
            }
            let mended = match error {
                ranking::Error::BoardMoved(_) => {
                    match Box::pin(self.read_again(standings)).await? {
                        Some(moved) => now = Cow::Owned(moved),
                        None => sleep(MOVE_PAUSE).await,
                    }
                    continue;
                }
                ranking::Error::NotLevel(_) if Instant::now() >= level_by => {
                    return Err(error.into());
                }
                ranking::Error::NotLevel(partition) => {
                    let partition = self.deployment.partition(PartitionNo(partition));
                    let recovering = timeout_at(level_by, Box::pin(partition.recover()));
                    recovering.await.unwrap_or(Ok(()))
                }
                ranking::Error::NotRolled(no) => {
                    let rolling = timeout_at(deadline, Box::pin(self.roll(BoardNo(no)))).await;
                    match rolling.map_err(|_| ranking::Error::NotRolled(no))? {
                        // It cannot be rolled, as when Redis is out of memory.
                        Err(error) if error.is_transient() && Instant::now() >= level_by => {
                            return Err(ranking::Error::NotRolled(no).into());
                        }
                        rolled => rolled,
                    }
                }
                error => return Err(error.into()),
            };
            match mended {
                Err(error) if !error.is_transient() => return Err(error),
                Err(_) => sleep(RETRY_PAUSE).await,
                // A partition that is level may still have a log that cannot be read on.
                Ok(()) => sleep(MENDED_PAUSE).await,
            }
        }
    }

    /// The standings by the board's row of now; `None` while the board moves.
    async fn read_again(&self, standings: &Standings) -> Result<Option<Standings>> {
        let no = standings.id.board;
        let boards = entity::board::some(&self.deployment.reads, [no].into()).await?;
        let board = boards.get(&no).ok_or(ranking::Error::BoardGone)?;
        if board.layouts.is_coming {
            return Ok(None);
        }
        let (id, period) = (standings.id.clone(), standings.period.clone());
        Ok(Some(Standings::new(&self.deployment.store, board, id, period)))
    }

    /// Rolls a board's windows to the present.
    async fn roll(&self, no: BoardNo) -> Result<()> {
        let boards = entity::board::some(&self.deployment.db, [no].into()).await?;
        match boards.get(&no) {
            Some(board) => {
                let now_ms = self.deployment.clock.now_ms();
                roll_to(&self.deployment, board, now_ms, Goal::Present).await
            }
            None => Ok(()),
        }
    }
}
