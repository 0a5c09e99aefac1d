//! The submission of scores, and the result for each of them.

mod doubt;
mod duplicates;
mod durable;
mod joining;
mod own_token;
mod quarantine;
mod result;
mod segments;
mod sources;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::{Context, Enum, InputObject};
use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::{EventId, MemberId, PartitionNo};
use ranking::submission::effect::Report;
use ranking::submission::{Submission, Verdict};
use tokio::time::{Instant, sleep};

use super::board::input::no_board;
use super::member::input::AttributeInput;
use super::price;
use super::request::{RequestState, app, state};
use super::types::scalar::{DateTime, Decimal, Json, OfItem, check_count};
use crate::access::scope::Scope;
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::Error;
use own_token::check_member_token;
pub use result::SubmitScoresPayload;
use result::{SubmitResult, count};
use segments::Segments;
use sources::{PositionInput, SourceInput, Sources};
use written::LateTurn;

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
pub enum Durability {
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
    #[graphql(default_with = "Some(Durability::Applied)")]
    ack: Option<Durability>,
    /// The source of those scores that have a position.
    source: Option<SourceInput>,
}

/// One score.
#[derive(InputObject)]
pub struct ScoreInput {
    /// The member's key: 1 to 128 bytes, not blank, without control characters, invisible ones or
    /// ones that change its direction. The first accepted score creates a member that is unknown
    /// so far.
    pub(crate) member: String,
    /// With SUM, the amount to add, which may be negative. With BEST and LATEST, the value.
    score: OfItem<Decimal>,
    /// The time when it was earned; now by default. Not in the future, not before 1970.
    at: Option<OfItem<DateTime>>,
    /// The client's id for the score, unique per board and member. The same id counts once within
    /// the server's deduplication window (24 hours by default), so a score with an id is safe to
    /// send again.
    pub(crate) event_id: Option<String>,
    /// A small JSON object that is kept with the score, such as the id of a replay: at most 1,024
    /// bytes as compact JSON, at most 8 deep. Entries that the score makes show it. Only for a
    /// board that was created with `metadata`.
    metadata: Option<OfItem<Json>>,
    /// The values of attributes by which the board has segments, for this score alone; by default
    /// those of the member. A member's own token sends none. A score that is sent again keeps those
    /// that it was accepted with.
    attributes: Option<Vec<AttributeInput>>,
    /// The place of the score in the request's source. A score at or before the position of the
    /// board in that partition of the source is a DUPLICATE for good, unless it was refused and is
    /// not settled. So a client sends the scores of a partition in their order, and each request
    /// after the answer to the one before.
    position: Option<PositionInput>,
}

impl ScoreInput {
    /// The raw score and the time of earning of a score that was accepted.
    pub(crate) fn accepted(
        &self,
        board: &CachedBoard,
        accepted_at_ms: i64,
    ) -> crate::error::Result<(i64, i64)> {
        let decimal = self.score.0.as_ref().map_err(|message| Error::bad_input(message.clone()))?;
        let raw = ranking::score::parse(&decimal.0, board.board.rules.decimals)?;
        let at_ms = self.at_ms().map_or(accepted_at_ms, |at_ms| at_ms.min(accepted_at_ms));
        Ok((raw, at_ms))
    }

    /// Its metadata, if a client gave some that can be read.
    pub(crate) fn metadata(&self) -> Option<&Json> {
        let OfItem(metadata) = self.metadata.as_ref()?;
        metadata.as_ref().ok()
    }

    /// The time when it was earned, in Unix milliseconds, if a client gave one that can be read.
    pub(crate) fn at_ms(&self) -> Option<i64> {
        let OfItem(at) = self.at.as_ref()?;
        at.as_ref().ok().map(|at| at.0)
    }
}

/// Submits scores.
pub(crate) async fn submit(
    ctx: &Context<'_>,
    input: SubmitScoresInput,
) -> crate::error::Result<SubmitScoresPayload> {
    let (app, state) = (app(ctx), state(ctx));
    let principal = state.require(Scope::Submit)?;
    check_count("scores", input.scores.len(), COMMIT_EVENTS_MAX)?;
    let mut board = super::board::find(app, state, &input.board)
        .await?
        .ok_or_else(|| no_board(&input.board).at("input.board"))?;
    check_member_token(principal, &board, &input.scores)?;
    let sources = Sources::read(principal, &input)?;
    let report = report(ctx);
    state.spend(price::effects(input.scores.len() * reported_windows(report, &board))).await?;
    let all: Vec<&ScoreInput> = input.scores.iter().collect();
    let turn = written::check(app, state, &board, (&all, false)).await?.map(Arc::new);
    let partitions = vec![None; input.scores.len()];
    let mut sending = Sending { input: &input, report, partitions, sources };
    let mut outcomes =
        submit_by_partition(app, state, &board, &mut sending, 0..input.scores.len(), turn).await;
    let deadline = Instant::now() + HELD_TIMEOUT;
    let mut left = GONE_MAX;
    // Another process deleted the board, changed its windows, or is moving it to another number of
    // shards. Accepted scores stay accepted, whatever happens to the rest.
    while outcomes.iter().any(is_gone) {
        if outcomes.iter().any(is_held) {
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
            outcomes.extract_if(.., |outcome| is_gone(outcome)).map(|(index, _)| index).collect();
        outcomes.extend(submit_again(app, state, &other, &mut sending, again).await);
        outcomes.sort_unstable_by_key(|(index, _)| *index);
        board = other;
    }
    joining::ask_sql(app, state, &board, &mut sending, &mut outcomes).await;
    let silent = quarantine::keep_all(app, state, &board, &sending, &mut outcomes).await;
    state.loaders.clear().await;
    let partitions = sending.partitions;
    let scores = input.scores.into_iter().zip(partitions).zip(outcomes).enumerate();
    let results: Vec<SubmitResult> = scores
        .map(|(index, ((score, partition), (_, outcome)))| match silent.contains(&index) {
            true => SubmitResult::in_silence(&board, score),
            false => SubmitResult::new(&board, index, score, partition, outcome),
        })
        .collect();
    count(&results);
    Ok(SubmitScoresPayload { board, results })
}

/// True for a score whose board or member is held for a moment.
fn is_held((_, outcome): &(usize, Outcome)) -> bool {
    use ranking::Error::{BoardHeld, MemberHeld};
    matches!(outcome, Ok(Verdict::Rejected(BoardHeld | MemberHeld)))
}

/// True for a score whose board is another one by now, or held.
fn is_gone(outcome: &(usize, Outcome)) -> bool {
    matches!(outcome.1, Ok(Verdict::Rejected(ranking::Error::BoardGone))) || is_held(outcome)
}

/// Submits scores whose board has changed. It may have other windows, in which late ones write
/// more.
async fn submit_again(
    app: &App,
    state: &RequestState,
    board: &Arc<CachedBoard>,
    sending: &mut Sending<'_>,
    again: Vec<usize>,
) -> Vec<(usize, Outcome)> {
    let scores = again.iter().map(|&index| &sending.input.scores[index]);
    let scores: Vec<&ScoreInput> = scores.collect();
    match written::check(app, state, board, (&scores, true)).await {
        Ok(turn) => {
            submit_by_partition(app, state, board, sending, again, turn.map(Arc::new)).await
        }
        Err(error) => again.into_iter().map(|index| (index, Err(error.clone()))).collect(),
    }
}

/// The outcome of one score.
type Outcome = crate::error::Result<Verdict>;

/// The scores of a request on their way.
struct Sending<'a> {
    input: &'a SubmitScoresInput,
    /// The effects that the answer tells.
    report: Report,
    /// The partition that each score was sent to last.
    partitions: Vec<Option<PartitionNo>>,
    /// The places where the scores come from, if their client says so.
    sources: Option<Sources>,
}

/// The effects that the fields of the answer need: none costs nothing.
fn report(ctx: &Context<'_>) -> Report {
    let results = ctx.look_ahead().field("results");
    if results.field("entries").exists() {
        return Report::EveryWindow;
    }
    let needs_all_time = ["improved", "previous", "entry"];
    match needs_all_time.into_iter().any(|field| results.field(field).exists()) {
        true => Report::AllTime,
        false => Report::Nothing,
    }
}

/// The windows whose entries each score reports.
fn reported_windows(report: Report, board: &CachedBoard) -> usize {
    match report {
        Report::Nothing => 0,
        Report::AllTime => 1,
        Report::EveryWindow => board.board.rules.windows.len(),
    }
}

/// Submits the scores of some indices, side by side by partition. Returns their outcomes, in order
/// of the indices. A turn is over once Redis has the scores: the next one does not wait for SQL.
async fn submit_by_partition(
    app: &App,
    state: &RequestState,
    board: &CachedBoard,
    sending: &mut Sending<'_>,
    indices: impl IntoIterator<Item = usize>,
    turn: Option<Arc<LateTurn>>,
) -> Vec<(usize, Outcome)> {
    let Sending { input, report, partitions, sources } = sending;
    let mut by_partition: BTreeMap<PartitionNo, (Vec<usize>, Vec<Submission>)> = BTreeMap::new();
    let mut outcomes: Vec<(usize, Outcome)> = vec![];
    let segments = Segments::of(app, board, &input.scores).await;
    let read = |index: usize| read(board, &input.scores[index], &segments, state.now_ms);
    // Also those of former attempts: a commit may pass over each of them.
    let provenances = sources.as_ref().map(|of| of.provenances(|index| read(index).is_err()));
    for index in indices {
        match read(index) {
            Ok(submission) => {
                let provenance = provenances.as_ref().and_then(|of| of[index].clone());
                let submission = Submission { report: *report, provenance, ..submission };
                let partition =
                    app.deployment.store.partitions().of_member(&board.board, &submission.member);
                partitions[index] = Some(partition);
                let (indices, submissions) = by_partition.entry(partition).or_default();
                indices.push(index);
                submissions.push(submission);
            }
            Err(error) => outcomes.push((index, Err(error))),
        }
    }
    let ack = input.ack.unwrap_or(Durability::Applied);
    let placed = by_partition.into_iter().map(|(partition, (indices, submissions))| {
        let turn = turn.clone();
        async move {
            let answers = submit_to(app, state, board, (partition, submissions), ack, turn).await;
            indices.into_iter().zip(answers)
        }
    });
    let placed: Vec<_> = placed.collect();
    drop(turn);
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
    let of = |argument: &'static str| move |error: ranking::Error| Error::from(error).at(argument);
    let at_ms = match &score.at {
        Some(OfItem(Err(message))) => return Err(Error::bad_input(message.clone()).at("at")),
        Some(OfItem(Ok(at))) => Some(at.0),
        None => None,
    };
    if at_ms.is_some_and(|at_ms| at_ms > now_ms + SKEW_MS) {
        let message = "invalid at: expected a time that is not in the future";
        return Err(Error::bad_input(message).at("at"));
    }
    if at_ms.is_some_and(|at_ms| at_ms < 0) {
        let message = "invalid at: expected a time that is not before 1970";
        return Err(Error::bad_input(message).at("at"));
    }
    let decimal = score.score.0.as_ref();
    let Decimal(decimal) =
        decimal.map_err(|message| Error::bad_input(message.clone()).at("score"))?;
    if let Some(OfItem(Err(message))) = &score.metadata {
        return Err(Error::bad_input(message.clone()).at("metadata"));
    }
    let metadata = score.metadata().map(|Json(metadata)| metadata.clone());
    board.board.check_metadata(metadata.as_ref()).map_err(of("metadata"))?;
    let event_id = score.event_id.as_deref().map(EventId::for_new).transpose();
    Ok(Submission {
        board: board.board.clone(),
        member: MemberId::for_new(&score.member).map_err(of("member"))?,
        score: ranking::score::parse(decimal, board.board.rules.decimals).map_err(of("score"))?,
        at_ms,
        event_id: event_id.map_err(of("eventId"))?,
        segments: segments.of_score(board, score)?,
        metadata,
        provenance: None,
        report: Report::Nothing,
    })
}

/// Submits to one partition. Returns the outcomes in the order of the submissions.
async fn submit_to(
    app: &App,
    state: &RequestState,
    board: &CachedBoard,
    (partition, submissions): (PartitionNo, Vec<Submission>),
    ack: Durability,
    turn: Option<Arc<LateTurn>>,
) -> Vec<crate::error::Result<Verdict>> {
    let members: Vec<MemberId> =
        submissions.iter().map(|submission| submission.member.clone()).collect();
    let sent = match ack {
        Durability::Applied => vec![],
        Durability::Durable => submissions.clone(),
    };
    let (placed, failed) = match &turn {
        Some(turn) => turn.submit(app, state, board, (partition, submissions)).await,
        None => match app.committers.submit(&state.client(), partition, submissions).await {
            Ok(placed) => (placed, None),
            Err(error) => return members.iter().map(|_| Err(error.clone())).collect(),
        },
    };
    drop(turn);
    let left = members.len() - placed.verdicts.len();
    let placed_at = members.into_iter().zip(&placed.verdicts);
    let accepted = placed_at.filter_map(|(member, verdict)| match verdict {
        Verdict::Accepted { seq, .. } => Some((member, (partition, *seq))),
        _ => None,
    });
    app.recent_members.insert(&board.row, accepted);
    let mut outcomes = match ack {
        Durability::Applied => placed.verdicts.into_iter().map(Ok).collect(),
        Durability::Durable => {
            let sent = &sent[..placed.verdicts.len()];
            durable::confirm(app, partition, sent, placed).await
        }
    };
    outcomes.extend(failed.into_iter().flat_map(|error| vec![Err(error); left]));
    outcomes
}
