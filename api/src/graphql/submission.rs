//! The submission of scores, and the result for each of them.

mod doubt;
mod duplicates;
mod durable;
mod segments;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::{Context, Enum, InputObject, Object, Result, SimpleObject};
use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::{EventId, ID_BYTES_MAX, MemberId, PartitionNo};
use ranking::submission::{Submission, Verdict};
use tokio::time::{Instant, sleep};

use super::board::input::no_board;
use super::request::{RequestState, app, state};
use super::standings::entry::Entry;
use super::standings::{Choice, Standings};
use super::types::scalar::{DateTime, Decimal, int};
use crate::access::{Principal, Scope};
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::metrics::METRICS;
use segments::Segments;

/// How far the clock of a client may be ahead of the server's, in milliseconds; a time within it is
/// taken as now.
const SKEW_MS: i64 = 2000;

/// How long scores wait while their board moves to another number of shards.
const HELD_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a waiting request tries again.
const HELD_INTERVAL: Duration = Duration::from_millis(20);

/// How often scores are submitted again because the cached board is out of date.
const GONE_MAX: usize = 3;

/// The point at which the server answers.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// The score is ranked in Redis. Until it is in SQL, moments later, a crash of the Redis server
    /// may lose it.
    Applied,
    /// The score is committed to SQL too.
    Durable,
}

/// Scores for one board.
#[derive(InputObject)]
pub struct SubmitScoresInput {
    /// The board's slug.
    board: String,
    /// The scores, 1 to 1,000. Each is accepted or rejected on its own.
    scores: Vec<ScoreInput>,
    /// The point at which the server answers.
    #[graphql(default_with = "Some(Ack::Applied)")]
    ack: Option<Ack>,
}

/// One score.
#[derive(InputObject)]
pub struct ScoreInput {
    /// The member's key: 1 to 128 bytes, not blank, without control characters, invisible ones or
    /// ones that change its direction. The first accepted score creates a member that is unknown
    /// so far.
    pub(crate) member: String,
    /// With SUM, the amount to add, which may be negative. With BEST and LATEST, the value.
    score: Decimal,
    /// The time when it was earned; now by default. Not in the future, not before 1970.
    at: Option<DateTime>,
    /// The client's id for the score, unique per board and member. The same id counts once within
    /// the server's deduplication window (24 hours by default), so a score with an id is safe to
    /// send again.
    event_id: Option<String>,
}

/// The result of `submitScores`.
pub struct SubmitScoresPayload {
    results: Vec<SubmitResult>,
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
        let choice = Choice { window: "all".into(), ..Choice::default() };
        let standings = Standings::choose(app(ctx), &self.board, choice, state(ctx).now_ms)?;
        Ok(standings.entry_of(ctx, MemberId::new(&self.member).map_err(Error::from)?).await?)
    }

    /// The reason, if the score was rejected or its outcome is unknown.
    async fn error(&self) -> Option<SubmitError> {
        self.error.clone()
    }
}

/// Submits scores.
pub(crate) async fn submit(
    ctx: &Context<'_>,
    input: SubmitScoresInput,
) -> crate::error::Result<SubmitScoresPayload> {
    let (app, state) = (app(ctx), state(ctx));
    let principal = state.require(Scope::Submit)?;
    if input.scores.is_empty() {
        return Err(Error::bad_input(format!(
            "scores is empty: expected 1 to {COMMIT_EVENTS_MAX} scores"
        )));
    }
    if input.scores.len() > COMMIT_EVENTS_MAX {
        return Err(Error::limit_exceeded(format!(
            "{} scores sent at once: expected at most {COMMIT_EVENTS_MAX}",
            input.scores.len()
        )));
    }
    let mut board = super::board::find(app, state, &input.board)
        .await?
        .ok_or_else(|| no_board(&input.board))?;
    check_member_token(principal, &board, &input.scores)?;
    written::check(app, state, &board, &input.scores)?;
    let mut outcomes = submit_by_partition(app, state, &board, &input, 0..input.scores.len()).await;
    let held = |(_, outcome): &(usize, Outcome)| {
        matches!(outcome, Ok(Verdict::Rejected(ranking::Error::BoardHeld)))
    };
    let gone = |outcome: &(usize, Outcome)| {
        let is_gone = matches!(outcome.1, Ok(Verdict::Rejected(ranking::Error::BoardGone)));
        is_gone || held(outcome)
    };
    let deadline = Instant::now() + HELD_TIMEOUT;
    let mut left = GONE_MAX;
    // Another process deleted the board, changed its windows, or is moving it to another number of
    // shards. Accepted scores stay accepted, whatever happens to the rest.
    while outcomes.iter().any(gone) {
        if outcomes.iter().any(held) {
            if Instant::now() >= deadline {
                break;
            }
            sleep(HELD_INTERVAL).await;
        } else if left > 0 {
            left -= 1;
            app.boards.changed(&input.board);
        } else {
            break;
        }
        let other = super::board::find(app, state, &input.board).await;
        let other = other.inspect_err(|error| doubt::doubt_gone(&mut outcomes, error));
        let is_allowed =
            |other: &Arc<CachedBoard>| check_member_token(principal, other, &input.scores).is_ok();
        let Some(other) = other.ok().flatten().filter(is_allowed) else {
            break;
        };
        let again: Vec<usize> =
            outcomes.extract_if(.., |outcome| gone(outcome)).map(|(index, _)| index).collect();
        outcomes.extend(submit_by_partition(app, state, &other, &input, again).await);
        outcomes.sort_unstable_by_key(|(index, _)| *index);
        board = other;
    }
    state.loaders.clear().await;
    let result = |(index, outcome): (usize, Outcome)| {
        SubmitResult::new(&board, &input.scores[index].member, outcome)
    };
    let results: Vec<SubmitResult> = outcomes.into_iter().map(result).collect();
    count(&results);
    Ok(SubmitScoresPayload { results })
}

/// Counts scores by outcome; each counter is added to once.
fn count(results: &[SubmitResult]) {
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

/// The outcome of one score.
type Outcome = crate::error::Result<Verdict>;

/// Checks that a member's own token submits scores of that member only, and that the board allows
/// it.
fn check_member_token(
    principal: &Principal,
    board: &CachedBoard,
    scores: &[ScoreInput],
) -> crate::error::Result<()> {
    let Some(member) = &principal.member else {
        return Ok(());
    };
    if !board.row.self_submit {
        return Err(Error::forbidden(format!(
            "board {} does not accept scores from members themselves",
            board.row.slug
        )));
    }
    if scores.iter().any(|score| score.member != *member) {
        return Err(Error::forbidden(format!(
            "this access token may submit scores of {member} only"
        )));
    }
    Ok(())
}

/// Submits the scores of some indices, side by side by partition. Returns their outcomes, in order
/// of the indices.
async fn submit_by_partition(
    app: &App,
    state: &RequestState,
    board: &CachedBoard,
    input: &SubmitScoresInput,
    indices: impl IntoIterator<Item = usize>,
) -> Vec<(usize, Outcome)> {
    let mut by_partition: BTreeMap<PartitionNo, (Vec<usize>, Vec<Submission>)> = BTreeMap::new();
    let mut outcomes: Vec<(usize, Outcome)> = vec![];
    let segments = Segments::of(app, board, &input.scores).await;
    for index in indices {
        match read(board, &input.scores[index], &segments, state.now_ms) {
            Ok(submission) => {
                let partition =
                    app.deployment.store.partitions().of_member(&board.board, &submission.member);
                let (indices, submissions) = by_partition.entry(partition).or_default();
                indices.push(index);
                submissions.push(submission);
            }
            Err(error) => outcomes.push((index, Err(error))),
        }
    }
    let ack = input.ack.unwrap_or(Ack::Applied);
    let placed = by_partition.into_iter().map(|(partition, (indices, submissions))| async move {
        let answers = submit_to(app, state, partition, submissions, ack).await;
        indices.into_iter().zip(answers)
    });
    outcomes.extend(futures::future::join_all(placed).await.into_iter().flatten());
    outcomes.sort_unstable_by_key(|(index, _)| *index);
    outcomes
}

fn read(
    board: &CachedBoard,
    score: &ScoreInput,
    segments: &Segments,
    now_ms: i64,
) -> crate::error::Result<Submission> {
    let at_ms = score.at.map(|at| at.0);
    if at_ms.is_some_and(|at_ms| at_ms > now_ms + SKEW_MS) {
        return Err(Error::bad_input("invalid at: expected a time that is not in the future"));
    }
    if at_ms.is_some_and(|at_ms| at_ms < 0) {
        return Err(Error::bad_input("invalid at: expected a time that is not before 1970"));
    }
    Ok(Submission {
        board: board.board.clone(),
        member: MemberId::for_new(&score.member)?,
        score: ranking::score::parse(&score.score.0, board.board.rules.decimals)?,
        at_ms,
        event_id: score.event_id.as_deref().map(EventId::for_new).transpose()?,
        segments: segments.of_member(&score.member)?,
    })
}

/// Submits to one partition. Returns the outcomes in the order of the submissions.
async fn submit_to(
    app: &App,
    state: &RequestState,
    partition: PartitionNo,
    submissions: Vec<Submission>,
    ack: Ack,
) -> Vec<crate::error::Result<Verdict>> {
    let members: Vec<MemberId> =
        submissions.iter().map(|submission| submission.member.clone()).collect();
    let sent = match ack {
        Ack::Applied => vec![],
        Ack::Durable => submissions.clone(),
    };
    let placed = match app.committers.submit(&state.client(), partition, submissions).await {
        Ok(placed) => placed,
        Err(error) => return members.iter().map(|_| Err(error.clone())).collect(),
    };
    let accepted = members.into_iter().zip(&placed.verdicts);
    let accepted = accepted.filter(|(_, verdict)| matches!(verdict, Verdict::Accepted { .. }));
    app.recent_members.insert(accepted.map(|(member, _)| member));
    match ack {
        Ack::Applied => placed.verdicts.into_iter().map(Ok).collect(),
        Ack::Durable => durable::confirm(app, partition, &sent, placed).await,
    }
}

impl SubmitResult {
    fn new(board: &Arc<CachedBoard>, member: &str, outcome: crate::error::Result<Verdict>) -> Self {
        let refused = |error: Error| {
            let status = if error.code == ErrorCode::Timeout {
                SubmitStatus::Unknown
            } else {
                SubmitStatus::Rejected
            };
            (status, Some(SubmitError { code: error.code, message: error.message }))
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
