//! The bound on the standings that one request writes: a late score on a board with rolling windows
//! writes hundreds. Requests with many of those are written one at a time, so that they keep no
//! other score waiting for long.

use std::time::Duration;

use ranking::submission::written::StandingsWritten;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::ScoreInput;
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::request::RequestState;

/// The standings of late scores that requests may write at the same time.
const LATE_STANDINGS_MAX: u64 = 1000;

/// The longest wait of a request with more of them for another one.
const LATE_TIMEOUT: Duration = Duration::from_secs(5);

/// The turn of requests with many standings of late scores: one of them is written at a time.
#[derive(Debug)]
pub struct LateWrites(Semaphore);

impl Default for LateWrites {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl LateWrites {
    /// Waits for the turn of a request whose late scores write so many standings; `None` if it
    /// needs none.
    ///
    /// # Errors
    /// `UNAVAILABLE` if it does not come within 5 s.
    async fn turn(&self, standings: u64) -> crate::error::Result<Option<SemaphorePermit<'_>>> {
        if standings <= LATE_STANDINGS_MAX {
            return Ok(None);
        }
        match timeout(LATE_TIMEOUT, self.0.acquire()).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            _ => Err(Error::new(
                ErrorCode::Unavailable,
                "late scores of other requests are being written, and none of this request is; send it again",
            )),
        }
    }
}

/// Checks that the scores of a request write no more standings than one request may, and waits for
/// its turn if many of them are late.
///
/// # Errors
/// `LIMIT_EXCEEDED`; the message says how many such scores a request may have. `UNAVAILABLE` as
/// [`LateWrites::turn`] says.
pub(crate) async fn check<'a>(
    app: &'a App,
    state: &RequestState,
    board: &CachedBoard,
    scores: &[ScoreInput],
) -> crate::error::Result<Option<SemaphorePermit<'a>>> {
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
        return app.late_writes.turn(late).await;
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
        let first = late.turn(LATE_STANDINGS_MAX + 1).await.unwrap();
        let mut second = Box::pin(late.turn(u64::MAX));
        assert!(futures::poll!(&mut second).is_pending());
        assert!(late.turn(LATE_STANDINGS_MAX).await.unwrap().is_none());
        drop(first);
        assert!(second.await.unwrap().is_some());
    }
}
