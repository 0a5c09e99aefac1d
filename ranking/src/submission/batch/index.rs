//! The entries that a batch touches, and the rolling windows that they belong to.

use crate::board::Board;
use crate::error::Result;
use crate::id::{BoardNo, MemberId};
use crate::standings_id::StandingsId;
use crate::submission::{Periods, Submission, Wanted};
use crate::window::roll::{RollMark, Rolls};
use crate::window::{Period, Rolling};
use std::collections::{BTreeMap, HashMap};

/// The position of an entry among the reads: standings, then member.
pub(crate) type EntryIndex = (usize, usize);

/// An entry that a submission touches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TouchedEntry {
    pub(crate) place: EntryIndex,
    /// For the standings after the last begun period: the same member's entry in that period.
    pub(crate) from: Option<EntryIndex>,
}

/// An entry in a base window's period, by standings, start of the period, and member.
pub(crate) type BaseEntry = (StandingsId, i64, MemberId);

/// One series of a rolling window.
#[derive(Debug)]
pub(crate) struct Series {
    /// The name, with any period.
    pub(crate) id: StandingsId,
    pub(crate) board: Board,
    /// The instant at which the latest period with an event became the present one.
    pub(crate) needs_ms: i64,
    /// The last begun period, as far as it is known.
    pub(crate) begun: Begun,
}

/// The assumed progress of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) ms: i64,
    /// The mark that the partition has to record for it.
    pub(crate) mark: Option<RollMark>,
}

/// The positions of standings and their members in [`Wanted`].
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) standings: HashMap<StandingsId, usize>,
    pub(crate) members: HashMap<(usize, MemberId), usize>,
    pub(crate) periods: Vec<Period>,
    /// The position of the standings that were wanted last.
    last: usize,
}

impl Index {
    pub(crate) fn want(
        &mut self,
        wanted: &mut Wanted,
        id: StandingsId,
        period: Period,
        member: &MemberId,
    ) -> EntryIndex {
        // Most submissions of a batch touch the same standings in the same order.
        let next = if self.last + 1 < wanted.standings.len() { self.last + 1 } else { 0 };
        let standings = match wanted.standings.get(next) {
            Some((at_next, _)) if *at_next == id => next,
            _ => *self.standings.entry(id).or_insert_with_key(|id| {
                wanted.standings.push((id.clone(), vec![]));
                self.periods.push(period);
                wanted.standings.len() - 1
            }),
        };
        self.last = standings;
        let members = &mut wanted.standings[standings].1;
        let place = (standings, member.clone());
        let member = *self.members.entry(place).or_insert_with_key(|(_, member)| {
            members.push(member.clone());
            members.len() - 1
        });
        (standings, member)
    }

    pub(crate) fn find(&self, id: &StandingsId, member: &MemberId) -> Option<EntryIndex> {
        let standings = *self.standings.get(id)?;
        let member = self.members.get(&(standings, member.clone()))?;
        Some((standings, *member))
    }
}

impl Series {
    /// The progress after the batch, given this mark or none; `None` if the window has to be rolled
    /// first.
    pub(crate) fn begun(
        &self,
        mark: Option<RollMark>,
        periods: &mut Periods,
        now_ms: i64,
    ) -> Result<Option<Begun>> {
        let window = self.id.window;
        let Some(mark) = mark else {
            let begun_ms = periods.at(&self.board, window, now_ms)?.present_from_ms;
            let mark = RollMark { begun_ms, is_ready: true };
            return Ok(Some(Begun { ms: begun_ms, mark: Some(mark) }));
        };
        if self.needs_ms <= mark.begun_ms {
            return Ok(Some(Begun { ms: mark.begun_ms, mark: None }));
        }
        let last = periods.at(&self.board, window, mark.begun_ms)?;
        let is_next = mark.is_ready && last.end_ms == Some(self.needs_ms);
        Ok(is_next.then_some(Begun {
            ms: self.needs_ms,
            mark: Some(RollMark { begun_ms: self.needs_ms, is_ready: false }),
        }))
    }
}

/// The series that submissions touch, with their known progress or else the present; and that
/// progress by board.
pub(crate) fn rolling(
    submissions: &[Submission],
    now_ms: i64,
    known: &HashMap<(BoardNo, String), Begun>,
    periods: &mut Periods,
) -> (BTreeMap<(BoardNo, String), Series>, HashMap<BoardNo, Rolls>) {
    let mut all: BTreeMap<(BoardNo, String), Series> = BTreeMap::new();
    let mut rolls: HashMap<BoardNo, Rolls> = HashMap::new();
    for submission in submissions {
        let board = &submission.board;
        let of_board = rolls.entry(board.no).or_insert_with(|| Rolls::to(now_ms));
        let windows = board.rules.windows.iter().copied();
        for window in windows.filter(|window| window.rolling().is_some()) {
            // The fold refuses a submission whose time is invalid.
            let Ok(period) = periods.at(board, window, submission.earned_ms(now_ms)) else {
                continue;
            };
            let Ok(present) = periods.at(board, window, now_ms) else {
                continue;
            };
            for segment in std::iter::once("").chain(submission.segments.iter().map(String::as_str))
            {
                let id = StandingsId::of(board, segment, window, &period);
                let name = (board.no, id.series());
                let begun = known
                    .get(&name)
                    .copied()
                    .unwrap_or(Begun { ms: present.present_from_ms, mark: None });
                let mark = RollMark { begun_ms: begun.ms, is_ready: false };
                of_board.marks.insert(name.1.clone(), mark);
                let series = all.entry(name).or_insert_with(|| Series {
                    id,
                    board: board.clone(),
                    needs_ms: 0,
                    begun,
                });
                series.needs_ms = series.needs_ms.max(period.present_from_ms);
            }
        }
    }
    (all, rolls)
}

/// The standings of one base period of a rolling window.
pub fn part_id(board: &Board, segment: &str, window: Rolling, period: &Period) -> StandingsId {
    StandingsId::of(board, segment, window.base(), period)
}
