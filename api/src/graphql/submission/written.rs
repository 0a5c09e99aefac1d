//! The bound on the standings that one request writes: a late score on a board with rolling windows
//! writes hundreds. Those of requests with many take turns, so that they keep no other score
//! waiting for long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ranking::id::PartitionNo;
use ranking::submission::Submission;
use ranking::submission::written::StandingsWritten;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::ScoreInput;
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::request::RequestState;
use crate::submit::committer::Submitted;

/// The standings of late scores that requests may write at the same time, and that one commit of a
/// turn writes, unless a single score writes more.
const LATE_STANDINGS_MAX: u64 = 1000;

/// The standings of late scores of a request that waits for no other one.
const LATE_STANDINGS_FEW: u64 = 20;

/// The longest wait of a request with more of them for another one of its client, and of each
/// commit for those of all others.
const LATE_TIMEOUT: Duration = Duration::from_secs(15);

/// The rest of Redis after each commit of a turn, as a multiple of the time that it took: readers
/// that meet a commit wait for it, and these are to be less than one in a hundred.
const LATE_REST: u32 = 99;

/// The longest rest, and the longest ones of a request together: its client waits for them.
const LATE_REST_MAX: Duration = Duration::from_secs(3);
const LATE_RESTS_MAX: Duration = Duration::from_secs(15);

/// The time without any other request that ends a rest: Redis rests for those.
const LATE_QUIET: Duration = Duration::from_millis(100);

/// The turns of requests with many standings of late scores: one commit of them is written at a
/// time, and one request of each client, so that no client keeps the others out.
#[derive(Debug)]
pub struct LateWrites {
    commits: Arc<Semaphore>,
    /// The standings that requests write without a turn.
    standings: Arc<Semaphore>,
    by_client: Clients,
    /// One request of each client waits for these standings.
    waiting: Clients,
}

/// The place of each client, which is forgotten once no request has it or waits for it.
#[derive(Debug, Default)]
struct Clients(Mutex<HashMap<Arc<str>, Weak<Semaphore>>>);

/// The room of one request with late scores, until Redis has them.
#[derive(Debug)]
pub(crate) struct LateTurn {
    /// `None` if they are so few that they are written at once.
    commits: Option<Commits>,
    _place: OwnedSemaphorePermit,
}

/// The commits of a request in its turn among those of its client.
#[derive(Debug)]
struct Commits {
    commits: Arc<Semaphore>,
    /// Taken by the one partition for which a commit waits: a request waits in one place.
    waiting: tokio::sync::Mutex<()>,
    rest_max: Duration,
    /// Counts the requests that come.
    admitted: Arc<AtomicU64>,
}

impl Default for LateWrites {
    fn default() -> Self {
        Self {
            commits: Arc::new(Semaphore::new(1)),
            standings: Arc::new(Semaphore::new(LATE_STANDINGS_MAX as usize)),
            by_client: Clients::default(),
            waiting: Clients::default(),
        }
    }
}

impl LateWrites {
    /// Waits for the turn of a client's request with so many scores, of which late ones write so
    /// many standings; `None` if it needs none.
    ///
    /// # Errors
    /// `UNAVAILABLE` if it does not come within 15 s.
    async fn turn(
        &self,
        (scores, standings): (usize, u64),
        client: Arc<str>,
        admitted: Arc<AtomicU64>,
    ) -> crate::error::Result<Option<LateTurn>> {
        if standings <= LATE_STANDINGS_FEW {
            return Ok(None);
        }
        if standings <= LATE_STANDINGS_MAX {
            let waiting = in_time(self.waiting.of(client), 1).await?;
            let _place = in_time(self.standings.clone(), standings as u32).await?;
            drop(waiting);
            return Ok(Some(LateTurn { commits: None, _place }));
        }
        let _place = in_time(self.by_client.of(client), 1).await?;
        let commits_max = (standings / LATE_STANDINGS_MAX).min(scores as u64).max(1);
        let commits = Commits {
            commits: self.commits.clone(),
            waiting: tokio::sync::Mutex::default(),
            rest_max: LATE_REST_MAX.min(LATE_RESTS_MAX.div_f64(commits_max as f64)),
            admitted,
        };
        Ok(Some(LateTurn { commits: Some(commits), _place }))
    }
}

impl Clients {
    fn of(&self, client: Arc<str>) -> Arc<Semaphore> {
        let mut by_client = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = by_client.get(&client).and_then(Weak::upgrade) {
            return turns;
        }
        by_client.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(1));
        by_client.insert(client, Arc::downgrade(&turns));
        turns
    }
}

/// Waits for so many places.
///
/// # Errors
/// `UNAVAILABLE` if they are not free within 15 s.
async fn in_time(places: Arc<Semaphore>, count: u32) -> crate::error::Result<OwnedSemaphorePermit> {
    match timeout(LATE_TIMEOUT, places.acquire_many_owned(count)).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(Error::new(
            ErrorCode::Unavailable,
            "late scores of other requests are being written, and these are not; send them again",
        )),
    }
}

impl LateTurn {
    /// Submits to one partition; many late scores in several commits, with a rest after each, so
    /// that no other reads or scores wait for long. Returns the verdicts of those that were placed,
    /// and the error that kept the others out.
    pub(super) async fn submit(
        &self,
        app: &App,
        state: &RequestState,
        board: &CachedBoard,
        (partition, submissions): (PartitionNo, Vec<Submission>),
    ) -> (Submitted, Option<Error>) {
        let mut placed = Submitted { verdicts: vec![], commit: None };
        let Some(commits) = &self.commits else {
            return match app.committers.submit(&state.client(), partition, submissions).await {
                Ok(placed) => (placed, None),
                Err(error) => (placed, Some(error)),
            };
        };
        for piece in pieces(board, submissions, state.now_ms) {
            let waiting = commits.waiting.lock().await;
            let place = match in_time(commits.commits.clone(), 1).await {
                Ok(place) => place,
                Err(error) => return (placed, Some(error)),
            };
            drop(waiting);
            let began = Instant::now();
            let submitted = app.committers.submit(&state.client(), partition, piece).await;
            let rest = (began.elapsed() * LATE_REST).min(commits.rest_max);
            let admitted = commits.admitted.clone();
            // The next commit alone waits for it, also one of another client.
            tokio::spawn(async move {
                take_rest(rest, || admitted.load(Ordering::Relaxed)).await;
                drop(place);
            });
            match submitted {
                Ok(Submitted { verdicts, commit }) => {
                    placed.verdicts.extend(verdicts);
                    placed.commit = commit.or(placed.commit);
                }
                Err(error) => return (placed, Some(error)),
            }
        }
        (placed, None)
    }
}

/// Rests for so long, or until no other request comes for [`LATE_QUIET`]. `admitted` counts those
/// that came.
async fn take_rest(rest: Duration, admitted: impl Fn() -> u64) {
    let ends = Instant::now() + rest;
    loop {
        let before = admitted();
        sleep(LATE_QUIET.min(ends - Instant::now())).await;
        if Instant::now() >= ends || admitted() == before {
            return;
        }
    }
}

/// Submissions in their order, in pieces that write few standings.
fn pieces(board: &CachedBoard, submissions: Vec<Submission>, now_ms: i64) -> Vec<Vec<Submission>> {
    let mut written = StandingsWritten::new(&board.board, board.segment_by.len(), now_ms);
    let (mut pieces, mut standings): (Vec<Vec<Submission>>, u64) = (vec![], 0);
    for submission in submissions {
        let of_score = written.by_score(submission.at_ms);
        standings += of_score;
        match pieces.last_mut().filter(|_| standings <= LATE_STANDINGS_MAX) {
            Some(piece) => piece.push(submission),
            None => {
                standings = of_score;
                pieces.push(vec![submission]);
            }
        }
    }
    pieces
}

/// Checks that the scores of a request write no more standings than one request may, and waits for
/// its turn if many of them are late. Those that are sent `again`, as their board has changed, were
/// counted for the request before.
///
/// # Errors
/// `LIMIT_EXCEEDED`; the message says how many such scores a request may have. `UNAVAILABLE` as
/// [`LateWrites::turn`] says.
pub(crate) async fn check(
    app: &App,
    state: &RequestState,
    board: &CachedBoard,
    (scores, again): (&[&ScoreInput], bool),
) -> crate::error::Result<Option<LateTurn>> {
    let max = app.standings_per_submission;
    let mut written = StandingsWritten::new(&board.board, board.segment_by.len(), state.now_ms);
    let of_present = written.by_score(None);
    let (mut all, mut late) = (0, 0);
    for score in scores {
        let of_score = written.by_score(score.at_ms());
        all += of_score;
        late += if of_score > of_present { of_score } else { 0 };
    }
    let fits = match again {
        true => (all <= max).then_some(()).ok_or(all),
        false => state.budget.write(all, max),
    };
    let Err(written) = fits else {
        let late = (scores.len(), late);
        return app.late_writes.turn(late, state.client(), state.budget.admitted()).await;
    };
    let fitting = (scores.len() as u64 * max / written).max(1);
    Err(Error::new(
        ErrorCode::LimitExceeded,
        format!(
            "{} scores would write {written} standings, as late scores count in many periods of a rolling window: expected at most {max} in a request, so send about {fitting} of these scores at a time",
            scores.len()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_commit_of_many_late_scores_is_written_at_a_time_and_one_request_of_a_client() {
        let late = LateWrites::default();
        let turn =
            |client: &str, standings| late.turn((9, standings), client.into(), Arc::default());
        let first = turn("ann", LATE_STANDINGS_MAX + 1).await.unwrap();
        let mut second = Box::pin(turn("ann", u64::MAX));
        assert!(futures::poll!(&mut second).is_pending());
        assert!(turn("ann", LATE_STANDINGS_FEW).await.unwrap().is_none());
        // Some scores are written at once, up to as many standings at a time.
        let some = turn("ann", LATE_STANDINGS_MAX - 100).await.unwrap().unwrap();
        assert!(some.commits.is_none());
        let more = turn("ann", 100).await.unwrap();
        let mut beyond = Box::pin(turn("bob", LATE_STANDINGS_FEW + 1));
        assert!(futures::poll!(&mut beyond).is_pending());
        drop(more);
        assert!(beyond.await.unwrap().is_some());
        // The requests of others do not wait for it, and their commits do.
        let of_other = turn("bob", u64::MAX).await.unwrap().unwrap();
        let commits = |turn: &LateTurn| turn.commits.as_ref().unwrap().commits.clone();
        let commit = in_time(commits(&of_other), 1).await.unwrap();
        let turn = first.unwrap();
        let mut next = Box::pin(in_time(commits(&turn), 1));
        assert!(futures::poll!(&mut next).is_pending());
        drop(commit);
        drop((next.await.unwrap(), turn));
        assert!(second.await.unwrap().is_some());
        drop(of_other);
        assert_eq!(late.by_client.of("cid".into()).available_permits(), 1);
        assert_eq!(late.by_client.0.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_rest_ends_where_no_other_request_comes() {
        let hour = Duration::from_secs(3600);
        timeout(LATE_TIMEOUT, take_rest(hour, || 7)).await.expect("nothing comes");
        let (began, rest, coming) = (Instant::now(), 3 * LATE_QUIET, AtomicU64::new(0));
        take_rest(rest, || coming.fetch_add(1, Ordering::Relaxed)).await;
        assert!(began.elapsed() >= rest);
    }
}
