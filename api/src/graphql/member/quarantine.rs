//! Scores in quarantine, for moderators: listed, released, voided.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_graphql::connection::{Edge, EmptyFields};
use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject};
use engine::quarantine::{RELEASED_MAX, Released, release};
use entity::audit::AUDIT_KEYS_MAX;
use entity::board;
use entity::board::seen::Seen;
use entity::member::quarantine::{self as row, OPEN, State};
use entity::sql::begin;
use ranking::metadata::Metadata;
use serde_json::json;
use tokio::time::Instant;

use crate::access::scope::Scope;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::audit::writer::Audit;
use crate::graphql::event::amendment::AMEND_TIMEOUT;
use crate::graphql::guard::Needs;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::standings::member_id;
use crate::graphql::types::connection::{
    Connection, PAGE_DEFAULT, PageCursor, limit_or, states_or,
};
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::{DateTime, Decimal, Json, check_count, int};

/// The reason why a score is suspicious.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "ranking::board::fair_play::Suspicion")]
pub enum Suspicion {
    /// The member has as many scores in the minute as `perMinuteMax` allows.
    PerMinuteMax,
    /// The score would change the member's score by more than `deltaMax`.
    DeltaMax,
    /// The member is banned from the board.
    Banned,
}

/// The state of a score in quarantine.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::member::quarantine::State")]
pub enum QuarantineState {
    /// It waits for a moderator.
    Held,
    /// Its release was cut short: release it again.
    Releasing,
    /// It counts.
    Released,
    /// It does not count.
    Voided,
}

/// The outcome of a release or a void.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineOutcome {
    /// The score counts from now on, at the time when it was earned.
    Released,
    /// The score counted before: it was released, or its event id was accepted.
    Counted,
    /// The score is voided.
    Voided,
    /// The score stays in quarantine; `error` says why.
    Refused,
    /// There is no such score.
    NotFound,
}

/// A score that is kept and not ranked.
pub struct QuarantinedScore {
    board: Arc<CachedBoard>,
    row: row::Model,
}

/// A score that is kept and not ranked.
#[Object]
impl QuarantinedScore {
    /// The global id: "quarantined:<number>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Quarantined(self.row.no).to_text().into()
    }

    /// The number, for `releaseQuarantined` and `voidQuarantined`.
    async fn number(&self) -> ID {
        self.row.no.into()
    }

    /// The key of its member, who may not exist yet.
    async fn member(&self) -> &str {
        &self.row.member
    }

    /// The score.
    async fn score(&self) -> Decimal {
        Decimal::of(self.row.score, self.board.board.rules.decimals)
    }

    /// The time when it was earned.
    async fn at(&self) -> DateTime {
        DateTime(self.row.at_ms)
    }

    /// The client's id for it; null if it sent none.
    async fn event_id(&self) -> Option<&str> {
        self.row.event_id_sent.then_some(self.row.event_id.as_str())
    }

    /// Its metadata.
    async fn metadata(&self) -> Option<Json> {
        self.row.metadata.as_deref().map(|metadata| Json(Metadata::stored(metadata)))
    }

    /// The reason, for programs.
    async fn suspicion(&self) -> Result<Suspicion> {
        Ok(self.row.suspicion().map_err(Error::from)?.into())
    }

    /// The reason, for people.
    async fn message(&self) -> &str {
        &self.row.message
    }

    /// The time when it arrived.
    async fn received_at(&self) -> DateTime {
        DateTime(self.row.received_at_ms)
    }

    /// The state.
    async fn state(&self) -> QuarantineState {
        self.row.state.into()
    }

    /// The time when it was released or voided; null before.
    async fn decided_at(&self) -> Option<DateTime> {
        self.row.decided_at_ms.map(DateTime)
    }
}

/// Scores in quarantine.
#[derive(InputObject)]
pub struct ReleaseQuarantinedInput {
    /// Their numbers, 1 to 1,000.
    numbers: Vec<ID>,
}

/// Scores in quarantine.
#[derive(InputObject)]
pub struct VoidQuarantinedInput {
    /// Their numbers, 1 to 1,000.
    numbers: Vec<ID>,
}

/// The result of a release or a void, for one score.
#[derive(SimpleObject)]
pub struct QuarantineResult {
    /// The number of the score.
    number: ID,
    /// The outcome.
    outcome: QuarantineOutcome,
    /// The reason, if it is REFUSED.
    error: Option<QuarantineError>,
}

/// The reason why a score stays in quarantine.
#[derive(SimpleObject)]
pub struct QuarantineError {
    /// The code, for programs.
    code: ErrorCode,
    /// The message, for people.
    message: String,
}

/// The result of `releaseQuarantined`.
#[derive(SimpleObject)]
pub struct ReleaseQuarantinedPayload {
    /// The results, in the order of the numbers.
    results: Vec<QuarantineResult>,
    /// The number of scores that count from now on.
    released: i32,
}

/// The result of `voidQuarantined`.
#[derive(SimpleObject)]
pub struct VoidQuarantinedPayload {
    /// The results, in the order of the numbers.
    results: Vec<QuarantineResult>,
    /// The number of scores that were voided now.
    voided: i32,
}

/// The score of a number.
pub(crate) async fn find(
    ctx: &Context<'_>,
    number: i64,
) -> crate::error::Result<Option<QuarantinedScore>> {
    Needs::Scope(Scope::Moderate).met(ctx)?;
    state(ctx).spend(price::select(2)).await?;
    let db = &app(ctx).deployment.reads;
    let Some(row) = row::of_numbers(db, [number]).await?.pop() else {
        return Ok(None);
    };
    let board = board::living_of_numbers(db, &[row.board_no]).await?.remove(&row.board_no);
    let board = board.filter(|board| state(ctx).seen().includes(board));
    let board = board.map(CachedBoard::new).transpose()?;
    Ok(board.map(|board| QuarantinedScore { board, row }))
}

/// The scores of some numbers, as far as they are on boards that the client sees.
async fn seen(ctx: &Context<'_>, numbers: Vec<i64>) -> crate::error::Result<Vec<row::Model>> {
    let db = &app(ctx).deployment.db;
    let mut rows = row::of_numbers(db, numbers).await?;
    if *state(ctx).seen() != Seen::All {
        let of_rows: BTreeSet<i64> = rows.iter().map(|row| row.board_no).collect();
        let of_rows: Vec<i64> = of_rows.into_iter().collect();
        let boards = board::living_of_numbers(db, &of_rows).await?;
        rows.retain(|row| {
            let board = boards.get(&row.board_no);
            board.is_some_and(|board| state(ctx).seen().includes(board))
        });
    }
    Ok(rows)
}

/// A page of a board's quarantine.
pub(crate) async fn page(
    ctx: &Context<'_>,
    board: &Arc<CachedBoard>,
    (states, member): (Option<Vec<QuarantineState>>, Option<String>),
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<QuarantinedScore, EmptyFields>> {
    let limit = limit_or("first", first, PAGE_DEFAULT)?;
    let place = after.map(PageCursor::place::<i64>).transpose()?;
    let member = member.map(|member| member_id("member", &member)).transpose()?;
    let states: Vec<State> = states_or(states, &OPEN)?;
    state(ctx).spend(price::select(limit)).await?;
    let (db, no) = (&app(ctx).deployment.reads, board.row.no);
    let key = member.as_ref().map(|member| member.as_str());
    let of = (states.as_slice(), key);
    let (rows, has_next) = row::page(db, no, of, place.unwrap_or_default(), limit).await?;
    let mut connection = Connection::new(after.is_some(), has_next);
    connection.edges.extend(rows.into_iter().map(|row| {
        Edge::new(PageCursor::of(&row.no), QuarantinedScore { board: board.clone(), row })
    }));
    Ok(connection)
}

/// Releases scores.
pub(crate) async fn release_quarantined(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &ReleaseQuarantinedInput,
) -> crate::error::Result<ReleaseQuarantinedPayload> {
    state(ctx).spend(price::AMENDMENT).await?;
    let numbers = numbers(&input.numbers)?;
    let deployment = &app(ctx).deployment;
    let rows = seen(ctx, numbers.iter().flatten().copied().collect()).await?;
    note_scores(ctx, audit, &rows).await?;
    audit.announce().await?;
    let deadline = Instant::now() + AMEND_TIMEOUT;
    let told = Box::pin(release(deployment, rows, deadline)).await;
    state(ctx).loaders.clear().await;
    let told = told?;
    let result = |number: &ID, no: &Option<i64>| {
        let (outcome, error) = match no.and_then(|no| told.get(&no)) {
            None => (QuarantineOutcome::NotFound, None),
            Some(Released::Done) => (QuarantineOutcome::Released, None),
            Some(Released::Before) => (QuarantineOutcome::Counted, None),
            Some(Released::Voided) => (QuarantineOutcome::Voided, None),
            Some(Released::Refused(error)) => {
                let Error { code, message, .. } = error.clone().into();
                (QuarantineOutcome::Refused, Some(QuarantineError { code, message }))
            }
        };
        QuarantineResult { number: number.clone(), outcome, error }
    };
    let results = input.numbers.iter().zip(&numbers).map(|(number, no)| result(number, no));
    let released = told.values().filter(|outcome| **outcome == Released::Done).count();
    audit.note(|act| act.after(json!({ "released": released })));
    Ok(ReleaseQuarantinedPayload { results: results.collect(), released: int(released as u64)? })
}

/// Voids scores.
pub(crate) async fn void_quarantined(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &VoidQuarantinedInput,
) -> crate::error::Result<VoidQuarantinedPayload> {
    state(ctx).spend(price::AMENDMENT).await?;
    let numbers = numbers(&input.numbers)?;
    let rows = seen(ctx, numbers.iter().flatten().copied().collect()).await?;
    note_scores(ctx, audit, &rows).await?;
    let all: Vec<i64> = rows.iter().map(|row| row.no).collect();
    let deployment = &app(ctx).deployment;
    let now_ms = deployment.clock.now_ms();
    let held = (&[State::Held][..], State::Voided);
    let transaction = begin(&deployment.db).await?;
    let voided = row::decide(&transaction, &all, held, now_ms).await?;
    audit.note(|act| act.after(json!({ "voided": voided })));
    audit.act().write(&transaction).await?;
    transaction.commit().await?;
    audit.written();
    let rows = row::of_numbers(&deployment.db, all).await?;
    let result = |number: &ID, no: &Option<i64>| {
        let row = rows.iter().find(|row| Some(row.no) == *no);
        let (outcome, error) = match row.map(|row| row.state) {
            None => (QuarantineOutcome::NotFound, None),
            Some(State::Voided) => (QuarantineOutcome::Voided, None),
            Some(State::Released) => (QuarantineOutcome::Counted, None),
            Some(State::Held | State::Releasing) => {
                let message = "the score is being released; release it again, and void its event";
                let error =
                    QuarantineError { code: ErrorCode::Unavailable, message: message.to_owned() };
                (QuarantineOutcome::Refused, Some(error))
            }
        };
        QuarantineResult { number: number.clone(), outcome, error }
    };
    let results = input.numbers.iter().zip(&numbers).map(|(number, no)| result(number, no));
    Ok(VoidQuarantinedPayload { results: results.collect(), voided: int(voided)? })
}

/// Notes which scores an act is about.
async fn note_scores(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    rows: &[row::Model],
) -> crate::error::Result<()> {
    let first: Vec<i64> = rows.iter().take(AUDIT_KEYS_MAX).map(|row| row.no).collect();
    let value = json!({ "count": rows.len(), "numbers": first });
    audit.note(|act| act.before(value));
    let members: BTreeSet<&str> = rows.iter().map(|row| row.member.as_str()).collect();
    if let [member] = members.into_iter().collect::<Vec<_>>()[..] {
        audit.note(|act| act.on_member(member));
    }
    let boards: BTreeSet<i64> = rows.iter().map(|row| row.board_no).collect();
    if let [no] = boards.into_iter().collect::<Vec<_>>()[..]
        && let Some(found) = board::find(&app(ctx).deployment.db, no).await?
    {
        audit.note(|act| act.on(&found));
    }
    Ok(())
}

/// The numbers, each of which may be none of a score.
fn numbers(given: &[ID]) -> crate::error::Result<Vec<Option<i64>>> {
    let at = |error: Error| error.at("input.numbers");
    check_count("numbers", given.len(), RELEASED_MAX)?;
    let mut known = BTreeSet::new();
    if given.iter().any(|number| !known.insert(number.as_str())) {
        return Err(at(Error::bad_input("a number is named twice: expected each number once")));
    }
    Ok(given.iter().map(|number| number.parse().ok()).collect())
}
