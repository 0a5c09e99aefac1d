//! Submissions: the standings that an event counts in, the reads before its fold, and the outcome.
//!
//! The write path makes all its decisions here, in Rust, from a [`Snapshot`]. Redis only checks
//! that the partition's head has not moved since, and then writes.

pub mod batch;
pub mod effect;
pub mod event_ids;
pub mod written;

use std::collections::{BTreeMap, HashMap};

use crate::board::Board;
use crate::board::fair_play::Suspicion;
use crate::board::mark::BoardMark;
use crate::commit::{Commit, Event, EventKind, Head};
use crate::error::{Error, Result};
use crate::id::{BoardNo, EventId, MemberId};
use crate::merge::MemberMark;
use crate::metadata::Metadata;
use crate::position::Provenance;
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::submission::batch::Batch;
use crate::submission::effect::{Effect, Report};
use crate::submission::event_ids::{Seen, seen_field};
use crate::window::roll::{RollMark, Rolls};
use crate::window::seal::{SealMark, SealName};
use crate::window::{Period, Window};

/// A score to be accepted.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The board.
    pub board: Board,
    /// The member.
    pub member: MemberId,
    /// The raw score.
    pub score: i64,
    /// The time of earning, in Unix milliseconds; `None` for the time of acceptance. A later time
    /// counts as the time of acceptance.
    pub at_ms: Option<i64>,
    /// The client's name for it.
    pub event_id: Option<EventId>,
    /// The segments in which it counts, besides everyone.
    pub segments: Vec<String>,
    /// Its metadata.
    pub metadata: Option<Metadata>,
    /// The place that it comes from, if its client takes scores from a source in order.
    pub provenance: Option<Provenance>,
    /// The effects that its verdict tells.
    pub report: Report,
}

/// The outcome of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted, in this commit, at this index.
    Accepted {
        /// The commit's seq.
        seq: u64,
        /// 0-based.
        index: u32,
        /// The time of acceptance, in Unix milliseconds.
        accepted_at_ms: i64,
        /// The effects that the submission asked for.
        effects: Vec<Effect>,
    },
    /// A duplicate: its event id was accepted before, in this commit.
    Duplicate {
        /// The commit's seq; [`ELSEWHERE`](crate::submission::event_ids::ELSEWHERE) if SQL has the
        /// event and another partition accepted it.
        seq: u64,
    },
    /// A duplicate: its place in a source was taken before. SQL has what came of it once it has
    /// this commit.
    Taken {
        /// The commit's seq.
        seq: u64,
        /// The commit's id.
        commit: String,
    },
    /// Suspicious, on a board that quarantines: nothing of it is written, and it has to be kept.
    Quarantined {
        /// The reason.
        suspicion: Suspicion,
        /// The reason, for people.
        message: String,
    },
    /// Refused; nothing of it is written.
    Rejected(Error),
}

impl Verdict {
    fn accepted(seq: u64, index: usize, accepted_at_ms: i64) -> Self {
        Self::Accepted { seq, index: index as u32, accepted_at_ms, effects: vec![] }
    }
}

/// The reads that a batch needs before it can be folded.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The boards; never empty if there is a submission.
    pub boards: Vec<BoardNo>,
    /// The marks of rolling windows: boards and their series.
    pub rolls: Vec<(BoardNo, Vec<String>)>,
    /// The windows whose seal marks are needed.
    pub seals: Vec<SealName>,
    /// The members whose marks are needed, none twice.
    pub members: Vec<MemberId>,
    /// The boards that members must join, each with the generation that began its layout, and the
    /// members; no member twice in one.
    pub entrants: Vec<(BoardNo, u32, Vec<MemberId>)>,
    /// The boards that limit the scores of a minute, each with the minute since 1970, and the
    /// members; no member twice in one.
    pub paces: Vec<(BoardNo, i64, Vec<MemberId>)>,
    /// The boards whose positions in sources are needed, each with the generation that began its
    /// layout, and the fields; see [`position_field`](crate::position::position_field). The first
    /// field is their number.
    pub positions: Vec<(BoardNo, u32, Vec<String>)>,
    /// The event ids, as fields of the seen hashes.
    pub seen: Vec<String>,
    /// The members whose keys are needed, by standings; no member twice in one.
    pub standings: Vec<(StandingsId, Vec<MemberId>)>,
}

/// The state of a partition at one moment, in the order of [`Wanted`].
#[derive(Debug)]
pub struct Snapshot {
    /// The partition's head; level with the Redis that answered.
    pub head: Head,
    /// The number of commits that wait for SQL.
    pub log_len: u64,
    /// The bytes of those commits, without the oldest one.
    pub log_bytes: u64,
    /// The deployment's clock; see [`Commit::clock_ms`].
    pub clock_ms: i64,
    /// The mark of each board.
    pub boards: Vec<BoardMark>,
    /// The mark of each series.
    pub rolls: Vec<Vec<Option<RollMark>>>,
    /// The mark of each window's seal.
    pub seals: Vec<SealMark>,
    /// The mark of each member.
    pub members: Vec<MemberMark>,
    /// True for each member who has joined.
    pub entrants: Vec<Vec<bool>>,
    /// The number of scores of each member that are ranked in its minute.
    pub paces: Vec<Vec<u32>>,
    /// The texts of positions, and the number of those of each board.
    pub positions: Vec<Vec<Option<String>>>,
    /// The last record of each event id that still counts.
    pub seen: Vec<Option<String>>,
    /// The keys; an error for an entry that another program wrote.
    pub keys: Vec<Vec<Result<Option<RankKey>>>>,
}

/// The writes of a folded batch, and the outcome of each submission.
#[derive(Debug)]
pub struct FoldedBatch {
    /// In the order of the submissions.
    pub verdicts: Vec<Verdict>,
    /// The commit; `None` if no submission was accepted.
    pub commit: Option<Commit>,
    /// The new keys, standings by standings.
    pub changes: Vec<StandingsChange>,
    /// The entries whose ranks the commit reads, before its writes and after them.
    pub ranked: Vec<(StandingsId, MemberId)>,
    /// The new marks of rolling windows: board, series, mark.
    pub rolls: Vec<(BoardNo, String, RollMark)>,
    /// The new numbers of ranked scores: board, minute, member, number.
    pub paces: Vec<(BoardNo, i64, MemberId, u32)>,
    /// The new numbers of positions that the partition keeps: board, generation that began its
    /// layout, number.
    pub position_counts: Vec<(BoardNo, u32, u64)>,
    /// Fields and values for the present seen hash.
    pub seen: Vec<(String, String)>,
}

/// The outcome of folding a batch onto a snapshot.
#[derive(Debug)]
pub enum FoldOutcome {
    /// The fold is complete.
    FoldedBatch(FoldedBatch),
    /// More has to be read: fold this batch instead, which names it.
    Again(Batch),
    /// The roller has to bring the rolling windows of these boards to the present first.
    Roll(Vec<Board>),
}

/// A commit's changes to the standings of one period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingsChange {
    /// The standings.
    pub id: StandingsId,
    /// The instant at which the period became the present one, in Unix milliseconds.
    pub present_from_ms: i64,
    /// Members and their new keys; `None` for a member who leaves.
    pub entries: Vec<(MemberId, Option<RankKey>)>,
}

impl StandingsChange {
    /// The entries that it sets, in their order.
    pub fn entries_set(&self) -> Vec<(&str, RankKey)> {
        let entries = self.entries.iter();
        entries.filter_map(|(member, key)| Some((member.as_str(), (*key)?))).collect()
    }
}

/// The most periods remembered for each board and window.
const PERIODS_MAX: usize = 10_000;

/// A cache of periods, as time zone arithmetic is slow.
#[derive(Debug, Default)]
pub struct Periods {
    /// By board and window, then by the instant at which each became the present one.
    known: HashMap<(BoardNo, Window), BTreeMap<i64, Period>>,
}

impl Periods {
    /// [`Window::period_at`], cached.
    pub fn at(&mut self, board: &Board, window: Window, at_ms: i64) -> Result<Period> {
        // A bisection is not slow, and another generation of the board may have other seasons.
        if window.has_seasons() {
            return window.period_at(at_ms, &board.rules.calendar);
        }
        let known = self.known.entry((board.no, window)).or_default();
        let last = known.range(..=at_ms).next_back();
        if let Some((_, period)) = last.filter(|(_, period)| period.is_present(at_ms)) {
            return Ok(period.clone());
        }
        let period = window.period_at(at_ms, &board.rules.calendar)?;
        if known.len() >= PERIODS_MAX {
            known.clear();
        }
        known.insert(period.present_from_ms, period.clone());
        Ok(period)
    }

    /// All standings in which an event of that time counts: for each window its period, for
    /// everyone and for each segment. Of a rolling window, the existing ones: up to the period
    /// after the last begun one.
    pub fn standings(
        &mut self,
        board: &Board,
        segments: &[String],
        at_ms: i64,
        rolls: &Rolls,
    ) -> Result<Vec<(StandingsId, Period)>> {
        let mut standings = Vec::with_capacity(board.rules.windows.len() * (segments.len() + 1));
        for &window in &board.rules.windows {
            for segment in window.segments_of(segments) {
                let mut period = self.at(board, window, at_ms)?;
                if period.is_gap() {
                    continue;
                }
                let id = StandingsId::of(board, segment, window, &period);
                let Some(rolling) = window.rolling() else {
                    standings.push((id, period));
                    continue;
                };
                let begun = self.at(board, window, rolls.begun_ms(&id))?;
                for _ in 0..rolling.count() {
                    if Some(period.present_from_ms) > begun.end_ms {
                        break;
                    }
                    let id = StandingsId { period: period.label.clone(), ..id.clone() };
                    let next_ms = period.end_ms.unwrap_or(i64::MAX);
                    standings.push((id, period));
                    period = self.at(board, window, next_ms)?;
                }
            }
        }
        Ok(standings)
    }
}

impl Submission {
    pub(crate) fn seen_field(&self) -> Option<String> {
        Some(seen_field(self.board.no, &self.member, self.event_id.as_ref()?))
    }

    pub(crate) fn earned_ms(&self, now_ms: i64) -> i64 {
        self.at_ms.map_or(now_ms, |at_ms| at_ms.min(now_ms))
    }

    pub(crate) fn as_seen(&self, now_ms: i64, seq: u64) -> Seen {
        Seen {
            score: self.score,
            at_ms: self.at_ms.map(|at_ms| at_ms.min(now_ms)),
            accepted_at_ms: now_ms,
            seq,
            metadata: self.metadata.as_ref().map(Metadata::hash),
        }
    }

    pub(crate) fn to_event(&self, now_ms: i64) -> Event {
        Event {
            board: self.board.no,
            generation: self.board.generation,
            member: self.member.clone(),
            kind: EventKind::Score {
                score: self.score,
                at_ms: self.earned_ms(now_ms),
                at_sent: self.at_ms.is_some(),
            },
            event_id: self.event_id.clone(),
            segments: self.segments.clone(),
            metadata: self.metadata.clone(),
            origin: None,
        }
    }
}
