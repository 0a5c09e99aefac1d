//! The result of a submission: for each score, its outcome and what it led to.

use std::sync::Arc;

use async_graphql::{Context, Enum, Object, Result, SimpleObject};
use engine::read::choice::Unreadable;
use ranking::commit::EventPlace;
use ranking::id::{ID_BYTES_MAX, PartitionNo};
use ranking::shown;
use ranking::submission::Verdict;
use ranking::submission::effect::{Effect, Ranks};
use ranking::window::Window;

use super::{Outcome, ScoreInput};
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::board::Board;
use crate::graphql::event::ScoreEvent;
use crate::graphql::request::{app, state};
use crate::graphql::standings::entry::Entry;
use crate::graphql::standings::{Standings, member_id};
use crate::graphql::types::scalar::{Decimal, int};
use crate::loader::Found;
use crate::metrics::METRICS;

/// The most windows in one field `entries`.
const CHANGES_MAX: usize = 100;

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
    /// A score with this event id counted before, or the position was passed before; this one does
    /// not count again.
    Duplicate,
    /// The score is suspicious: it is kept and not ranked, until a moderator decides.
    Quarantined,
    /// The score was refused; nothing of it was written.
    Rejected,
    /// No answer in time, so the outcome is unknown. Send the score again with the same event id.
    Unknown,
}

/// The reason why a score does not count, or not yet, or why its outcome is unknown.
#[derive(SimpleObject, Clone)]
pub struct SubmitError {
    /// The code, for programs.
    code: ErrorCode,
    /// The message, for people.
    message: String,
    /// The argument that is wrong, such as "input.scores[1].score"; null if none is.
    argument: Option<String>,
    /// The key of the member that this one was merged into, if the code is MEMBER_MERGED.
    merged_into: Option<String>,
}

/// The result for one score.
pub struct SubmitResult {
    board: Arc<CachedBoard>,
    score: ScoreInput,
    status: SubmitStatus,
    error: Option<SubmitError>,
    accepted: Option<Accepted>,
}

/// An accepted score.
struct Accepted {
    place: EventPlace,
    at_ms: i64,
    effects: Vec<Effect>,
}

/// A member's rank and score before a score counted.
#[derive(SimpleObject)]
pub struct PreviousEntry {
    /// The rank, from 1.
    rank: i32,
    /// The exact score; in a decaying window, its value at the time of the request.
    score: Decimal,
}

/// The change of a member's entry in one window.
#[derive(SimpleObject)]
pub struct EntryChange {
    /// The entry, in the period that the score belongs to.
    entry: Entry,
    /// The rank and score before; null if the member had no entry.
    previous: Option<PreviousEntry>,
    /// True if the score alone made the member's score better.
    improved: bool,
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

    /// The number of scores with status QUARANTINED.
    async fn quarantined(&self) -> Result<i32> {
        self.count(SubmitStatus::Quarantined)
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
        // The key of a rejected score may be of any length.
        let end = self.score.member.floor_char_boundary(ID_BYTES_MAX);
        &self.score.member[..end]
    }

    /// The outcome.
    async fn status(&self) -> SubmitStatus {
        self.status
    }

    /// The event that the score became, for `voidEvent`; null unless the status is APPLIED, and for
    /// a member that is banned in silence. `node` finds it a moment later.
    async fn event(&self) -> Result<Option<ScoreEvent>> {
        let Some(Accepted { place, at_ms, .. }) = &self.accepted else { return Ok(None) };
        Ok(Some(ScoreEvent::accepted(&self.board, &self.score, *place, *at_ms)?))
    }

    /// True if the score made the member's score in "all" better; null if the outcome is unknown.
    async fn improved(&self) -> Option<bool> {
        if self.status == SubmitStatus::Unknown {
            return None;
        }
        Some(self.effect_in(Window::All).is_some_and(|effect| effect.improved))
    }

    /// The member's rank and score in "all" before this submission; null if the member had none,
    /// and unless the status is APPLIED.
    async fn previous(&self, ctx: &Context<'_>) -> Result<Option<PreviousEntry>> {
        let Some(effect) = self.effect_in(Window::All) else { return Ok(None) };
        Ok(Box::pin(self.before(ctx, effect)).await?)
    }

    /// The member's entry in "all" after this submission; null if the score was rejected, is
    /// quarantined or its outcome is unknown. Rank and score, like those of `previous`, are those
    /// at the instant at which the score was committed. Scores of a member that were committed
    /// together have the same. On a board of several shards, ranks are counted right after that
    /// instant.
    async fn entry(&self, ctx: &Context<'_>) -> Result<Option<Entry>> {
        use SubmitStatus::{Quarantined, Rejected, Unknown};
        if matches!(self.status, Quarantined | Rejected | Unknown) {
            return Ok(None);
        }
        if let Some(effect) = self.effect_in(Window::All) {
            return Ok(Some(Box::pin(self.after(ctx, effect)).await?));
        }
        let standings = Standings::of_all_time(ctx, &self.board)?;
        Ok(standings.entry_of(ctx, member_id("member", &self.score.member)?).await?)
    }

    /// The changes of the member's entries in windows, in the order of `windows`; null for one in
    /// which the score does not count, as its period is sealed. Null unless the status is APPLIED.
    async fn entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The windows' names, at most 100.")] windows: Vec<String>,
    ) -> Result<Option<Vec<Option<EntryChange>>>> {
        if self.accepted.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::pin(self.changes(ctx, &windows)).await?))
    }

    /// The reason, if the score was rejected, is quarantined or its outcome is unknown.
    async fn error(&self) -> Option<SubmitError> {
        self.error.clone()
    }
}

impl SubmitResult {
    pub(super) fn new(
        board: &Arc<CachedBoard>,
        index: usize,
        score: ScoreInput,
        partition: Option<PartitionNo>,
        outcome: Outcome,
    ) -> Self {
        let refused = |error: Error, is_kept: bool| {
            let status = if is_kept {
                SubmitStatus::Quarantined
            } else if error.code == ErrorCode::Timeout {
                SubmitStatus::Unknown
            } else {
                SubmitStatus::Rejected
            };
            let argument = error.argument.as_deref().or(match error.code {
                ErrorCode::ScoreOutOfRange => Some("score"),
                ErrorCode::BoardNotOpen | ErrorCode::BoardClosed | ErrorCode::TooLate => Some("at"),
                ErrorCode::EventIdConflict => Some("eventId"),
                ErrorCode::DeltaExceeded => Some("score"),
                ErrorCode::MemberMerged
                | ErrorCode::MemberBanned
                | ErrorCode::PerMinuteExceeded => Some("member"),
                _ => None,
            });
            let argument = argument.map(|argument| format!("input.scores[{index}].{argument}"));
            let Error { code, message, merged_into, .. } = error;
            (status, Some(SubmitError { code, message, argument, merged_into }), None)
        };
        let (status, error, accepted) = match outcome {
            Ok(Verdict::Accepted { seq, index, accepted_at_ms, effects }) => {
                let accepted = partition.map(|partition| Accepted {
                    place: EventPlace { partition, seq, index },
                    at_ms: accepted_at_ms,
                    effects,
                });
                (SubmitStatus::Applied, None, accepted)
            }
            Ok(Verdict::Duplicate { .. } | Verdict::Taken { .. }) => {
                (SubmitStatus::Duplicate, None, None)
            }
            Ok(Verdict::Quarantined { suspicion, message }) => {
                refused(ranking::Error::Suspicious(suspicion, message).into(), true)
            }
            Ok(Verdict::Rejected(error)) => refused(error.into(), false),
            Err(error) => refused(error, false),
        };
        Self { board: board.clone(), score, status, error, accepted }
    }

    /// The result for a score of a member that is banned in silence.
    pub(super) fn in_silence(board: &Arc<CachedBoard>, score: ScoreInput) -> Self {
        let status = SubmitStatus::Applied;
        Self { board: board.clone(), score, status, error: None, accepted: None }
    }

    /// The effect in a window: of a rolling one, in its present period, or the last one that the
    /// score counts in.
    fn effect_in(&self, window: Window) -> Option<&Effect> {
        let accepted = self.accepted.as_ref()?;
        let of_window = accepted.effects.iter().filter(|effect| effect.id.window == window);
        let begun = of_window.filter(|effect| effect.period.present_from_ms <= accepted.at_ms);
        begun.max_by_key(|effect| effect.period.present_from_ms)
    }

    async fn changes(
        &self,
        ctx: &Context<'_>,
        windows: &[String],
    ) -> crate::error::Result<Vec<Option<EntryChange>>> {
        if windows.len() > CHANGES_MAX {
            let message =
                format!("{} windows requested: expected at most {CHANGES_MAX}", windows.len());
            return Err(Error::limit_exceeded(message).at("windows"));
        }
        let mut changes = vec![];
        for (index, name) in windows.iter().enumerate() {
            let no_window = || {
                let slug = &self.board.row.slug;
                let error =
                    Error::from(Unreadable::no_window(&self.board.board, slug, &shown(name)));
                error.at(format!("windows[{index}]"))
            };
            let window = name.parse().ok();
            let window = window.filter(|window| self.board.board.rules.is_shown(*window));
            let window = window.ok_or_else(no_window)?;
            let effect = self.effect_in(window);
            let is_filled = match effect {
                Some(effect) => self.board.board.is_filled(window, &effect.period),
                None => window == Window::Season || self.board.board.is_whole(window),
            };
            if !is_filled {
                let board = self.board.row.slug.clone();
                return Err(Unreadable::Filling { window, board }.into());
            }
            let Some(effect) = effect else {
                changes.push(None);
                continue;
            };
            changes.push(Some(EntryChange {
                entry: self.after(ctx, effect).await?,
                previous: self.before(ctx, effect).await?,
                improved: effect.improved,
            }));
        }
        Ok(changes)
    }

    async fn after(&self, ctx: &Context<'_>, effect: &Effect) -> crate::error::Result<Entry> {
        let standings = Standings::of_effect(app(ctx), &self.board, effect);
        let member = member_id("member", &self.score.member)?;
        let position = match effect.ranks {
            Ranks::Read { after, .. } => after,
            _ => standings.position_of(ctx, effect.after, &member).await?,
        };
        Ok(Entry::new(standings, member, Found { key: effect.after, position }))
    }

    async fn before(
        &self,
        ctx: &Context<'_>,
        effect: &Effect,
    ) -> crate::error::Result<Option<PreviousEntry>> {
        let Some(key) = effect.before else { return Ok(None) };
        let standings = Standings::of_effect(app(ctx), &self.board, effect);
        let member = member_id("member", &self.score.member)?;
        let position = match effect.ranks {
            Ranks::Read { before: Some(before), .. } => before,
            _ => {
                let position = standings.position_of(ctx, key, &member).await?;
                // The member's new entry, if it comes before the old one.
                position.saturating_sub(u64::from(effect.after < key))
            }
        };
        let entry = Entry::new(standings, member, Found { key, position });
        let (rank, score) = (entry.ordinal_rank()?, entry.shown_score(state(ctx).now_ms));
        Ok(Some(PreviousEntry { rank, score }))
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
        (SubmitStatus::Quarantined, &counted.quarantined, 0),
        (SubmitStatus::Rejected, &counted.rejected, unavailable),
        (SubmitStatus::Unknown, &counted.unknown, 0),
    ] {
        let of_status = results.iter().filter(|result| result.status == status);
        counter.inc_by(of_status.count() as u64 - others);
    }
    counted.unavailable.inc_by(unavailable);
}
