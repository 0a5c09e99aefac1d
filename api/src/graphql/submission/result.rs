//! The result of a submission: for each score, its outcome and what it led to.

use std::sync::Arc;

use async_graphql::{Context, Enum, Object, Result, SimpleObject};
use ranking::id::{ID_BYTES_MAX, MemberId};
use ranking::submission::Verdict;

use super::Outcome;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::board::Board;
use crate::graphql::standings::Standings;
use crate::graphql::standings::entry::Entry;
use crate::graphql::types::scalar::int;
use crate::metrics::METRICS;

/// The result of `submitScores`.
pub struct SubmitScoresPayload {
    pub(super) board: Arc<CachedBoard>,
    pub(super) results: Vec<SubmitResult>,
}

/// The outcome of one score.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitStatus {
    /// The score counts.
    Applied,
    /// A score with this event id counted before; this one does not count again.
    Duplicate,
    /// The score was refused; nothing of it was written.
    Rejected,
    /// No answer in time, so the outcome is unknown. Send the score again with the same event id.
    Unknown,
}

/// The reason why a score does not count, or why its outcome is unknown.
#[derive(SimpleObject, Clone)]
pub struct SubmitError {
    /// The code, for programs.
    code: ErrorCode,
    /// The message, for people.
    message: String,
    /// The argument that is wrong, such as "input.scores[1].score"; null if none is.
    argument: Option<String>,
}

/// The result for one score.
pub struct SubmitResult {
    board: Arc<CachedBoard>,
    member: String,
    status: SubmitStatus,
    error: Option<SubmitError>,
}

/// The result of `submitScores`.
#[Object]
impl SubmitScoresPayload {
    /// The board.
    async fn board(&self) -> Board {
        Board(self.board.clone())
    }

    /// The results, one for each score, in the order of the scores.
    async fn results(&self) -> &[SubmitResult] {
        &self.results
    }

    /// The number of scores with status APPLIED.
    async fn accepted(&self) -> Result<i32> {
        self.count(SubmitStatus::Applied)
    }

    /// The number of scores with status DUPLICATE.
    async fn duplicates(&self) -> Result<i32> {
        self.count(SubmitStatus::Duplicate)
    }

    /// The number of scores with status REJECTED.
    async fn rejected(&self) -> Result<i32> {
        self.count(SubmitStatus::Rejected)
    }
}

impl SubmitScoresPayload {
    fn count(&self, status: SubmitStatus) -> Result<i32> {
        let count = self.results.iter().filter(|result| result.status == status).count();
        Ok(int(count as u64)?)
    }
}

/// The result for one score.
#[Object]
impl SubmitResult {
    /// The member's key, as it was sent.
    async fn member(&self) -> &str {
        &self.member
    }

    /// The outcome.
    async fn status(&self) -> SubmitStatus {
        self.status
    }

    /// The member's entry in "all" after this submission; null if the score was rejected or its
    /// outcome is unknown.
    async fn entry(&self, ctx: &Context<'_>) -> Result<Option<Entry>> {
        if matches!(self.status, SubmitStatus::Rejected | SubmitStatus::Unknown) {
            return Ok(None);
        }
        let standings = Standings::of_all_time(ctx, &self.board)?;
        Ok(standings.entry_of(ctx, MemberId::new(&self.member).map_err(Error::from)?).await?)
    }

    /// The reason, if the score was rejected or its outcome is unknown.
    async fn error(&self) -> Option<SubmitError> {
        self.error.clone()
    }
}

impl SubmitResult {
    pub(super) fn new(
        board: &Arc<CachedBoard>,
        index: usize,
        member: &str,
        outcome: Outcome,
    ) -> Self {
        let refused = |error: Error| {
            let status = if error.code == ErrorCode::Timeout {
                SubmitStatus::Unknown
            } else {
                SubmitStatus::Rejected
            };
            let argument = error.argument.as_deref().or(match error.code {
                ErrorCode::ScoreOutOfRange => Some("score"),
                ErrorCode::BoardNotOpen | ErrorCode::BoardClosed | ErrorCode::TooLate => Some("at"),
                ErrorCode::EventIdConflict => Some("eventId"),
                _ => None,
            });
            let argument = argument.map(|argument| format!("input.scores[{index}].{argument}"));
            (status, Some(SubmitError { code: error.code, message: error.message, argument }))
        };
        let (status, error) = match outcome {
            Ok(Verdict::Accepted { .. }) => (SubmitStatus::Applied, None),
            Ok(Verdict::Duplicate { .. }) => (SubmitStatus::Duplicate, None),
            Ok(Verdict::Rejected(error)) => refused(error.into()),
            Err(error) => refused(error),
        };
        // The key of a rejected score may be of any length.
        let end = member.floor_char_boundary(ID_BYTES_MAX);
        Self { board: board.clone(), member: member[..end].to_owned(), status, error }
    }
}

/// Counts scores by outcome; each counter is added to once.
pub(super) fn count(results: &[SubmitResult]) {
    let counted = &METRICS.submissions;
    let is_unavailable = |result: &SubmitResult| {
        let error = result.error.as_ref();
        error.is_some_and(|error| error.code == ErrorCode::Unavailable)
    };
    let unavailable = results.iter().filter(|result| is_unavailable(result));
    let unavailable = unavailable.count() as u64;
    for (status, counter, others) in [
        (SubmitStatus::Applied, &counted.accepted, 0),
        (SubmitStatus::Duplicate, &counted.duplicate, 0),
        (SubmitStatus::Rejected, &counted.rejected, unavailable),
        (SubmitStatus::Unknown, &counted.unknown, 0),
    ] {
        let of_status = results.iter().filter(|result| result.status == status);
        counter.inc_by(of_status.count() as u64 - others);
    }
    counted.unavailable.inc_by(unavailable);
}
