//! The bound on the standings that one request writes: a late score on a board with rolling windows
//! writes hundreds.

use ranking::submission::written::StandingsWritten;

use super::ScoreInput;
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::request::RequestState;

/// The number of standings that scores would write, accepted at `now_ms`, in Unix milliseconds.
/// O(scores × windows), whatever the times of the scores are; no I/O.
pub(crate) fn standings_written(board: &CachedBoard, scores: &[ScoreInput], now_ms: i64) -> u64 {
    let mut written = StandingsWritten::new(&board.board, board.segment_by.len(), now_ms);
    scores.iter().map(|score| written.by_score(score.at_ms())).sum()
}

/// Checks that the scores of a request write no more standings than one request may.
///
/// # Errors
/// `LIMIT_EXCEEDED`; the message says how many such scores a request may have.
pub(crate) fn check(
    app: &App,
    state: &RequestState,
    board: &CachedBoard,
    scores: &[ScoreInput],
) -> crate::error::Result<()> {
    let max = app.standings_per_submission;
    let Err(written) = state.budget.write(standings_written(board, scores, state.now_ms), max)
    else {
        return Ok(());
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
