//! Submissions: which standings an event belongs to, what has to be read before it is folded, and what comes of it.
//!
//! All decisions of the write path are made here, in Rust, from a [`Snapshot`]; Redis only checks that the
//! partition's head has not moved since and then writes.

pub mod batch;
pub mod event_ids;

use std::collections::{BTreeMap, HashMap};

use crate::board::Board;
use crate::board::mark::BoardMark;
use crate::commit::{Commit, Event, EventKind, Head};
use crate::error::{Error, Result};
use crate::id::{BoardNo, EventId, MemberId};
use crate::rank_key::RankKey;
use crate::roll::{RollMark, Rolls};
use crate::seal::{SealMark, SealName};
use crate::standings_id::StandingsId;
use crate::submission::batch::Batch;
use crate::submission::event_ids::{Seen, seen_field};
use crate::window::{Period, Window};

/// A score on its way in.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The board.
    pub board: Board,
    /// Who.
    pub member: MemberId,
    /// The raw score.
    pub score: i64,
    /// When it was earned, in Unix milliseconds; `None` for when it is accepted. A time after that is taken as that.
    pub at_ms: Option<i64>,
    /// The client's name for it.
    pub event_id: Option<EventId>,
    /// The segments it counts in besides everyone.
    pub segments: Vec<String>,
}

/// The one member attribute that a board can have standings by.
pub const REGION: &str = "region";

/// The segment of everyone with an attribute: `region:eu`.
#[must_use]
pub fn segment_of(attribute: &str, value: &str) -> String {
    format!("{attribute}:{value}")
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the commit of that number, at this index.
    Accepted {
        /// The commit's seq.
        seq: u64,
        /// 0-based.
        index: u32,
    },
    /// Its event id was accepted before, in the commit of that number.
    Duplicate {
        /// The commit's seq; [`ELSEWHERE`](crate::submission::event_ids::ELSEWHERE) where it is in another partition, and in SQL.
        seq: u64,
    },
    /// It was refused; nothing of it is written.
    Rejected(Error),
}

/// What has to be read before a batch can be folded.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The boards; never none where there is a submission.
    pub boards: Vec<BoardNo>,
    /// The marks of rolling windows: a board, and its series.
    pub rolls: Vec<(BoardNo, Vec<String>)>,
    /// The windows whose seals count.
    pub seals: Vec<SealName>,
    /// The event ids, as fields of the seen hashes.
    pub seen: Vec<String>,
    /// The keys, standings by standings; no member twice in one.
    pub standings: Vec<(StandingsId, Vec<MemberId>)>,
}

/// What a partition held at one moment, in the order of [`Wanted`].
#[derive(Debug)]
pub struct Snapshot {
    /// The partition's head; level with the Redis that answered.
    pub head: Head,
    /// How many commits wait for SQL.
    pub log_len: u64,
    /// What became of each board.
    pub boards: Vec<BoardMark>,
    /// How far each series has got.
    pub rolls: Vec<Vec<Option<RollMark>>>,
    /// How far each window is sealed.
    pub seals: Vec<SealMark>,
    /// What each event id was accepted as, last.
    pub seen: Vec<Option<String>>,
    /// The keys; an error where an entry is none of ours.
    pub keys: Vec<Vec<Result<Option<RankKey>>>>,
}

/// What a folded batch writes, and what became of each submission.
#[derive(Debug)]
pub struct Folded {
    /// In the order of the submissions.
    pub verdicts: Vec<Verdict>,
    /// The commit; `None` where nothing was accepted.
    pub commit: Option<Commit>,
    /// The new keys, standings by standings.
    pub changes: Vec<StandingsChange>,
    /// How far series have got from here on: board, series, mark.
    pub rolls: Vec<(BoardNo, String, RollMark)>,
    /// Fields and values for the present seen hash.
    pub seen: Vec<(String, String)>,
}

/// What folding a batch onto a snapshot came to.
#[derive(Debug)]
pub enum Fold {
    /// It is folded.
    Folded(Folded),
    /// More has to be read: this batch says what, and is to be folded instead.
    Again(Batch),
    /// These boards' rolling windows have to be rolled up to the present first.
    Roll(Vec<Board>),
}

/// What a commit changes in one standings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingsChange {
    /// Which.
    pub id: StandingsId,
    /// Since when its period is the present one, in Unix milliseconds.
    pub present_from_ms: i64,
    /// Members and their new keys; `None` for those who leave.
    pub entries: Vec<(MemberId, Option<RankKey>)>,
}

/// How many periods are remembered for each board and window.
const PERIODS_MAX: usize = 10_000;

/// Periods found so far: zone arithmetic is not free.
#[derive(Debug, Default)]
pub struct Periods {
    /// By board and window, then by the instant they begin to be the present one.
    known: HashMap<(BoardNo, Window), BTreeMap<i64, Period>>,
}

impl Periods {
    /// [`Window::period_at`] with a memory.
    pub fn at(&mut self, board: &Board, window: Window, at_ms: i64) -> Result<Period> {
        let known = self.known.entry((board.no, window)).or_default();
        let last = known.range(..=at_ms).next_back();
        if let Some((_, period)) = last.filter(|(_, period)| period.is_present(at_ms)) {
            return Ok(period.clone());
        }
        let period = window.period_at(at_ms, &board.rules.zone)?;
        if known.len() >= PERIODS_MAX {
            known.clear();
        }
        known.insert(period.present_from_ms, period.clone());
        Ok(period)
    }

    /// Every standings that an event of that time counts in: for each window its period, for each segment besides everyone again. Of a rolling
    /// window those that there are: up to the one after the last period begun.
    pub fn standings(
        &mut self,
        board: &Board,
        segments: &[String],
        at_ms: i64,
        rolls: &Rolls,
    ) -> Result<Vec<(StandingsId, Period)>> {
        let mut standings = Vec::with_capacity(board.rules.windows.len() * (segments.len() + 1));
        for &window in &board.rules.windows {
            for segment in std::iter::once("").chain(segments.iter().map(String::as_str)) {
                let mut period = self.at(board, window, at_ms)?;
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
        }
    }
}
