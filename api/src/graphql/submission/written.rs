//! The bound on the standings that one request writes: a late score on a board with rolling windows
//! writes hundreds. Requests with many of those are written one at a time, so that they keep no
//! other score waiting for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ranking::id::PartitionNo;
use ranking::submission::Submission;
use ranking::submission::written::StandingsWritten;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
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

/// The longest wait of a request with more of them for another one.
const LATE_TIMEOUT: Duration = Duration::from_secs(20);

/// The rest of Redis after each commit of a turn, as a multiple of the time that it took.
const LATE_REST: u32 = 9;

/// The longest rest.
const LATE_REST_MAX: Duration = Duration::from_secs(1);

/// The time without any other request that ends a rest: Redis rests for those.
const LATE_QUIET: Duration = Duration::from_millis(100);

/// The turn of requests with many standings of late scores: one of them is written at a time.
#[derive(Debug)]
pub struct LateWrites(Arc<Semaphore>);

/// The turn of one request. It ends once Redis has rested from the last commit.
#[derive(Debug)]
pub(crate) struct LateTurn {
    place: Option<OwnedSemaphorePermit>,
    /// The rest that is due before the next commit, in whatever partition.
    rest: Mutex<Duration>,
    /// Counts the requests that come.
    admitted: Arc<AtomicU64>,
}

impl Default for LateWrites {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl LateWrites {
    /// Waits for the turn of a request whose late scores write so many standings; `None` if it
    /// needs none.
    ///
    /// # Errors
    /// `UNAVAILABLE` if it does not come within 20 s.
    async fn turn(
        &self,
        standings: u64,
        admitted: Arc<AtomicU64>,
    ) -> crate::error::Result<Option<LateTurn>> {
        if standings <= LATE_STANDINGS_MAX {
            return Ok(None);
        }
        match timeout(LATE_TIMEOUT, self.0.clone().acquire_owned()).await {
            Ok(Ok(place)) => {
                Ok(Some(LateTurn { place: Some(place), rest: Mutex::default(), admitted }))
            }
            _ => Err(Error::new(
                ErrorCode::Unavailable,
                "late scores of other requests are being written, and none of this request is; send it again",
            )),
        }
    }
}

impl LateTurn {
    /// Submits to one partition in several commits, with a rest after each, so that no other reads
    /// or scores wait for long. Returns the verdicts of those that were placed, and the error that
    /// kept the others out.
    pub(super) async fn submit(
        &self,
        app: &App,
        state: &RequestState,
        board: &CachedBoard,
        (partition, submissions): (PartitionNo, Vec<Submission>),
    ) -> (Submitted, Option<Error>) {
        let mut placed = Submitted { verdicts: vec![], commit: None };
        for piece in pieces(board, submissions, state.now_ms) {
            let mut rest = self.rest.lock().await;
            take_rest(*rest, || self.admitted.load(Ordering::Relaxed)).await;
            let began = Instant::now();
            let submitted = app.committers.submit(&state.client(), partition, piece).await;
            *rest = (began.elapsed() * LATE_REST).min(LATE_REST_MAX);
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

impl Drop for LateTurn {
    fn drop(&mut self) {
        let (place, rest) = (self.place.take(), *self.rest.get_mut());
        let admitted = self.admitted.clone();
        // The next turn alone waits for it.
        tokio::spawn(async move {
            take_rest(rest, || admitted.load(Ordering::Relaxed)).await;
            drop(place);
        });
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
/// its turn if many of them are late.
///
/// # Errors
/// `LIMIT_EXCEEDED`; the message says how many such scores a request may have. `UNAVAILABLE` as
/// [`LateWrites::turn`] says.
pub(crate) async fn check(
    app: &App,
    state: &RequestState,
    board: &CachedBoard,
    scores: &[ScoreInput],
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
    let Err(written) = state.budget.write(all, max) else {
        return app.late_writes.turn(late, state.budget.admitted()).await;
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
    async fn one_request_with_many_late_scores_is_written_at_a_time() {
        let late = LateWrites::default();
        let first = late.turn(LATE_STANDINGS_MAX + 1, Arc::default()).await.unwrap();
        let mut second = Box::pin(late.turn(u64::MAX, Arc::default()));
        assert!(futures::poll!(&mut second).is_pending());
        assert!(late.turn(LATE_STANDINGS_MAX, Arc::default()).await.unwrap().is_none());
        drop(first);
        assert!(second.await.unwrap().is_some());
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
