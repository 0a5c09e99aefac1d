//! Work of SQL that all readers of the process share, while SQL gets nothing more.

use std::sync::Arc;
use std::time::Duration;

use entity::error::{Error, Result};
use moka::Expiry;
use moka::future::Cache;
use moka::policy::EvictionPolicy;
use ranking::standings_id::StandingsId;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};

use crate::read::in_sql::marks::Marks;

/// How long folded standings, and the sizes of all-time ones, are good at most. They are good while
/// SQL gets nothing more; a job may mend rows behind its cursors.
const FOLDED_AGE: Duration = Duration::from_secs(600);

/// The longest wait of a fold or a count for others.
const FOLD_WAIT: Duration = Duration::from_secs(3);

/// The longest time of a fold or a count.
const FOLD_TIMEOUT: Duration = Duration::from_secs(15);

/// The time after which a fold or a count that failed counts as too long for SQL.
const FOLD_SLOW: Duration = Duration::from_secs(3);

/// How long a fold or a count that took too long is not tried again.
const FOLD_PAUSE: Duration = Duration::from_secs(15);

/// Standings as they are looked up once, while SQL has as much.
type Known = (StandingsId, Marks);

/// Answers of SQL by standings.
#[derive(Debug)]
pub(super) struct Shared<T: Clone + Send + Sync + 'static> {
    found: Cache<Known, Sought<T>>,
    turns: Arc<Semaphore>,
}

/// The answer of SQL; `None` if it took too long.
type Sought<T> = Option<T>;

/// How long what was sought is good.
struct Age;

impl<T> Expiry<Known, Sought<T>> for Age {
    fn expire_after_create(
        &self,
        _: &Known,
        sought: &Sought<T>,
        _: std::time::Instant,
    ) -> Option<Duration> {
        Some(if sought.is_some() { FOLDED_AGE } else { FOLD_PAUSE })
    }
}

impl<T: Clone + Send + Sync + 'static> Shared<T> {
    /// Nothing yet, and at most so many with `weight` and one each. Others may take their turns in
    /// the same place.
    pub(super) fn new(max: u64, weight: fn(&T) -> u32, turns: &Arc<Semaphore>) -> Self {
        let weigh = move |_: &Known, sought: &Sought<T>| 1 + sought.as_ref().map_or(0, weight);
        // A new one is always kept: with moka's own policy, old ones that were popular once would
        // keep it out, and each reader would begin the work again.
        let found = Cache::builder().max_capacity(max).eviction_policy(EvictionPolicy::lru());
        let found = found.weigher(weigh).expire_after(Age).build();
        Self { found, turns: turns.clone() }
    }

    /// True if the work is done, and kept.
    pub(super) fn has(&self, known: &Known) -> bool {
        self.found.contains_key(known)
    }

    /// Does some work for all callers that wait for it, in its turn. It goes on if they wait no
    /// longer: the next ones find what it has done, or that it took too long, so that not each of
    /// them keeps SQL busy for nothing.
    ///
    /// # Errors
    /// `Overloaded` if its turn does not come, or it takes too long.
    pub(super) async fn find(
        &self,
        known: Known,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let sought = match self.found.get(&known).await {
            Some(sought) => sought,
            None => {
                let (found, turns) = (self.found.clone(), self.turns.clone());
                let seeking = async move {
                    found.try_get_with(known, in_turn(turns, work)).await.map_err(again)
                };
                tokio::spawn(seeking).await.map_err(ended)??
            }
        };
        sought.ok_or_else(|| overloaded("SQL takes too long for these standings; try again later"))
    }
}

/// Does some work in its turn; `None` if it takes too long.
async fn in_turn<T>(
    turns: Arc<Semaphore>,
    work: impl Future<Output = Result<T>>,
) -> Result<Sought<T>> {
    // The semaphore is never closed.
    let Ok(_permit) = timeout(FOLD_WAIT, turns.acquire()).await else {
        return Err(overloaded("many standings are read from SQL; try again later"));
    };
    let began = Instant::now();
    match timeout(FOLD_TIMEOUT, work).await {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(error)) if began.elapsed() < FOLD_SLOW || !error.is_transient() => Err(error),
        Ok(Err(error)) => {
            tracing::warn!(%error, "SQL took too long for standings that Redis does not answer for");
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}

fn overloaded(what: &str) -> Error {
    ranking::Error::Overloaded(format!("Redis is away, and {what}")).into()
}

/// The error of a read whose task ended.
pub(super) fn ended(error: JoinError) -> ranking::Error {
    ranking::Error::Unavailable(format!("a read of SQL ended: {error}"))
}

/// The error of a look-up that several readers share.
pub(super) fn again(error: Arc<Error>) -> Error {
    let text = error.to_string();
    match &*error {
        Error::Ranking(error) => error.clone().into(),
        error if error.is_transient() => ranking::Error::Unavailable(text).into(),
        _ => ranking::Error::Corrupt(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ranking::id::BoardNo;
    use ranking::window::Window;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn work_that_took_too_long_is_not_done_again_at_once() {
        let shared = Shared::new(10, |_| 0, &Arc::new(Semaphore::new(1)));
        let (board, window) = (BoardNo(1), Window::All);
        let (segment, period) = (String::new(), "all".to_owned());
        let id = StandingsId { board, generation: 1, segment, window, period };
        let known = || (id.clone(), Arc::default());
        let tries = Arc::new(AtomicUsize::new(0));
        let fail = |after: Duration| {
            let tries = tries.clone();
            async move {
                tries.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(after).await;
                Err::<u64, Error>(ranking::Error::Unavailable("away".into()).into())
            }
        };
        for _ in 0..2 {
            let error = shared.find(known(), fail(Duration::ZERO)).await.unwrap_err();
            assert!(matches!(error, Error::Ranking(ranking::Error::Unavailable(_))), "{error}");
        }
        assert_eq!(tries.load(Ordering::SeqCst), 2);
        for _ in 0..3 {
            let error = shared.find(known(), fail(FOLD_SLOW)).await.unwrap_err();
            assert!(error.to_string().contains("takes too long"), "{error}");
        }
        assert_eq!(tries.load(Ordering::SeqCst), 3);
    }
}
