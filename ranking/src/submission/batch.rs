//! A batch of submissions to one partition, folded onto a snapshot of Redis.
//!
//! The standings of a rolling window that an event touches depend on how far the window has rolled
//! in the partition. A batch first assumes that it has rolled to the present, which is nearly
//! always so. If the snapshot shows otherwise, the batch is rebuilt and reads again.

mod fairness;
mod folding;
pub mod index;
mod reported;
mod taking;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use self::fairness::want_paces;
use self::folding::Folding;
use self::index::{BaseEntry, Begun, Index, Series, TouchedEntry, rolling};
use self::reported::Reported;
use self::taking::{Taking, want_positions};
use crate::board::Board;
use crate::board::mark::BoardMark;
use crate::commit::content::Random;
use crate::error::{Error, Result};
use crate::id::{BoardNo, MemberId};
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::submission::event_ids::Seen;
use crate::submission::{
    FoldOutcome, FoldedBatch, Periods, Snapshot, StandingsChange, Submission, Verdict, Wanted,
};
use crate::window::Period;
use crate::window::roll::RollMark;
use crate::window::seal::{SealMark, SealName};

/// A batch of submissions to one partition, and the position of each submission's entries among its
/// reads.
#[derive(Debug)]
pub struct Batch {
    submissions: Vec<Submission>,
    now_ms: i64,
    wanted: Wanted,
    index: Index,
    /// The series of rolling windows that it touches.
    series: BTreeMap<(BoardNo, String), Series>,
    /// Entries that are read only to carry members.
    parts: BTreeSet<BaseEntry>,
    /// The entries that each submission touches, or the reason for its refusal.
    places: Vec<Result<Vec<TouchedEntry>>>,
    /// The positions of members among the entrants that it reads.
    entrants: Entrants,
}

/// The positions of members in [`Wanted::entrants`]: board, then member.
type Entrants = HashMap<(BoardNo, MemberId), (usize, usize)>;

impl Batch {
    /// Determines the standings that each submission touches; a submission without a time of its
    /// own counts as earned at `now_ms`.
    pub fn new(submissions: Vec<Submission>, now_ms: i64) -> Self {
        Self::build(submissions, now_ms, &HashMap::new(), BTreeSet::new())
    }

    fn build(
        submissions: Vec<Submission>,
        now_ms: i64,
        known: &HashMap<(BoardNo, String), Begun>,
        parts: BTreeSet<BaseEntry>,
    ) -> Self {
        let mut periods = Periods::default();
        let (series, rolls) = rolling(&submissions, now_ms, known, &mut periods);
        let (mut wanted, mut index) = (Wanted::default(), Index::default());
        let boards: BTreeSet<BoardNo> =
            submissions.iter().map(|submission| submission.board.no).collect();
        wanted.boards = boards.into_iter().collect();
        let members: BTreeSet<&MemberId> =
            submissions.iter().map(|submission| &submission.member).collect();
        wanted.members = members.into_iter().cloned().collect();
        for (no, name) in series.keys() {
            match wanted.rolls.last_mut() {
                Some((last, names)) if last == no => names.push(name.clone()),
                _ => wanted.rolls.push((*no, vec![name.clone()])),
            }
        }
        let (mut places, entrants) = (vec![], want_entrants(&submissions, &mut wanted));
        want_paces(&submissions, now_ms, &mut wanted);
        want_positions(&submissions, &mut wanted);
        for submission in &submissions {
            wanted.seen.extend(submission.seen_field());
            let board = &submission.board;
            let earned_ms = submission.earned_ms(now_ms);
            // A refused submission reads nothing: a late one would read hundreds of entries.
            let touched = board.admission.check(earned_ms, now_ms).and_then(|()| {
                periods.standings(board, &submission.segments, earned_ms, &rolls[&board.no])
            });
            let touch = |(id, period): (StandingsId, Period)| {
                let window = id.window;
                let of_series = window.rolling().and_then(|_| {
                    let series = series.get(&(id.board, id.series()))?;
                    let is_ahead = period.present_from_ms > series.begun.ms;
                    let begun = periods.at(board, window, series.begun.ms).ok()?;
                    is_ahead.then_some(begun)
                });
                let from = of_series.map(|begun| {
                    let from = StandingsId { period: begun.label.clone(), ..id.clone() };
                    index.want(&mut wanted, from, begun, &submission.member)
                });
                let place = index.want(&mut wanted, id, period, &submission.member);
                TouchedEntry { place, from }
            };
            places.push(touched.map(|touched| touched.into_iter().map(touch).collect()));
            for (id, from_ms, member) in &parts {
                if id.board != board.no || *member != submission.member {
                    continue;
                }
                if let Ok(period) = periods.at(board, id.window, *from_ms) {
                    index.want(&mut wanted, id.clone(), period, member);
                }
            }
        }
        let seals = wanted.standings.iter();
        let seals: BTreeSet<SealName> = seals.filter_map(|(id, _)| id.seal_name()).collect();
        wanted.seals = seals.into_iter().collect();
        Self { submissions, now_ms, wanted, index, series, parts, places, entrants }
    }

    /// The number of entries it touches: a late event touches many of a rolling window.
    pub fn touched(&self) -> usize {
        self.places.iter().flatten().map(Vec::len).sum()
    }

    /// The submissions, in their order.
    pub fn submissions(&self) -> &[Submission] {
        &self.submissions
    }

    /// The time of acceptance, in Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The reads that it needs before it can be folded.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Folds the batch, in order, onto the answer to [`Self::wanted`].
    ///
    /// A submission is rejected if it would leave the range of any standings it touches; the fold
    /// goes on as if it were not there. An event id that the snapshot knows, or one earlier in the
    /// batch, makes a duplicate. So does a place in a source that was taken, whatever the id.
    /// `random` is for the new commit alone.
    ///
    /// # Errors
    /// `Corrupt` if the snapshot holds data that this program does not write.
    pub fn fold(&self, snapshot: &Snapshot, random: Random) -> Result<FoldOutcome> {
        let boards = self.wanted.boards.iter().copied().zip(snapshot.boards.iter().copied());
        let marks: HashMap<BoardNo, BoardMark> = boards.collect();
        let is_there =
            |board: &Board| marks.get(&board.no).unwrap_or(&BoardMark::Deleted).check(board);
        let begun = match self.begun(snapshot, is_there)? {
            Ok(begun) => begun,
            Err(boards) => return Ok(FoldOutcome::Roll(boards)),
        };
        if !self.is_as_taken(&begun) {
            return Ok(self.again(&begun, BTreeSet::new()));
        }
        let (mut seen, members) = (self.seen(snapshot)?, self.open_members(snapshot));
        let closed = self.closed(snapshot);
        let mut folding = Folding::onto(self, snapshot);
        let seq = snapshot.head.seq + 1;
        let (mut verdicts, mut events, mut seen_now) = (vec![], vec![], vec![]);
        let (mut moved_on, mut reported) = (BTreeSet::new(), Reported::default());
        let mut taking = Taking::onto(&self.wanted, snapshot)?;
        for (submission, places) in self.submissions.iter().zip(&self.places) {
            let is_open = is_there(&submission.board);
            let taken = is_open.as_ref().ok().and_then(|()| taking.verdict(submission));
            let refused = is_open.and_then(|()| members[&submission.member].clone()).err();
            if let Some(verdict) = taken.or(refused.map(Verdict::Rejected)) {
                verdicts.push(taking.noted(submission, verdict));
                continue;
            }
            let (field, this) = (submission.seen_field(), submission.as_seen(self.now_ms, seq));
            if let Some(first) = field.as_ref().and_then(|field| seen.get(field)) {
                verdicts.push(taking.noted(submission, first.verdict_on(&this)));
                continue;
            }
            let joined = self.check_joined(submission, snapshot);
            let place = verdicts.len();
            let admit = |()| reported.admit(&mut folding, place, submission, places, &closed);
            if let Err(error) = joined.and_then(admit) {
                let verdict = submission.board.fair_play.verdict_on(error);
                verdicts.push(taking.noted(submission, verdict));
                continue;
            }
            taking.take(submission);
            moved_on.extend(places.iter().flatten().filter_map(|touch| self.series_of(touch)));
            verdicts.push(Verdict::accepted(seq, events.len(), self.now_ms));
            events.push(submission.to_event(self.now_ms));
            if let Some(field) = field {
                seen_now.push((field.clone(), this.to_text()));
                seen.insert(field, this);
            }
        }
        if !folding.unknown.is_empty() {
            return Ok(self.again(&begun, folding.unknown));
        }
        let ranked = reported.tell(self, &snapshot.keys, &folding.keys, &mut verdicts)?;
        let (positions, position_counts) = taking.changes();
        let (head, clock_ms) = (&snapshot.head, snapshot.clock_ms);
        let commit = (!events.is_empty())
            .then(|| head.next_moving(clock_ms, random, self.now_ms, events, positions));
        taking::name_commit(&mut verdicts, commit.as_ref());
        Ok(FoldOutcome::FoldedBatch(FoldedBatch {
            verdicts,
            commit,
            changes: self.changes(&snapshot.keys, &folding.keys),
            ranked,
            rolls: marks_of(begun, &moved_on),
            paces: folding.fairness.changes(),
            position_counts,
            seen: seen_now,
        }))
    }

    /// True if all series have got as far as the batch took them to be.
    fn is_as_taken(&self, begun: &HashMap<(BoardNo, String), Begun>) -> bool {
        self.series
            .iter()
            .all(|(name, series)| begun.get(name).is_none_or(|begun| begun.ms == series.begun.ms))
    }

    /// For each member, the reason why the partition accepts nothing for it, if there is one.
    fn open_members(&self, snapshot: &Snapshot) -> HashMap<&MemberId, Result<()>> {
        let marks = self.wanted.members.iter().zip(&snapshot.members);
        marks.map(|(member, mark)| (member, mark.check())).collect()
    }

    /// Checks that the member has joined its board, as far as the snapshot knows.
    fn check_joined(&self, submission: &Submission, snapshot: &Snapshot) -> Result<()> {
        let Submission { board, member, .. } = submission;
        if !board.is_joined {
            return Ok(());
        }
        let place = self.entrants.get(&(board.no, member.clone()));
        let has_joined = place.and_then(|&(of, at)| snapshot.entrants.get(of)?.get(at));
        if has_joined == Some(&true) {
            return Ok(());
        }
        Err(Error::NotJoined(format!(
            "member {} has not joined this board: expected joinBoard before the first score",
            crate::shown(member.as_str())
        )))
    }

    /// The event ids of the snapshot that still count, by field.
    fn seen(&self, snapshot: &Snapshot) -> Result<HashMap<String, Seen>> {
        let mut seen = HashMap::new();
        for (field, value) in self.wanted.seen.iter().zip(&snapshot.seen) {
            if let Some(first) = value.as_deref().map(Seen::parse).transpose()? {
                seen.insert(field.clone(), first);
            }
        }
        Ok(seen)
    }

    /// The series of an entry, if its window is rolling.
    fn series_of(&self, touch: &TouchedEntry) -> Option<(BoardNo, String)> {
        let id = &self.wanted.standings[touch.place.0].0;
        id.window.rolling().map(|_| (id.board, id.series()))
    }

    /// The progress of each series whose board accepts writes, or the boards that have to be rolled
    /// first.
    #[expect(clippy::type_complexity, reason = "an outcome with two cases")]
    fn begun(
        &self,
        snapshot: &Snapshot,
        is_there: impl Fn(&Board) -> Result<()>,
    ) -> Result<std::result::Result<HashMap<(BoardNo, String), Begun>, Vec<Board>>> {
        let marks = snapshot.rolls.iter().flatten();
        let (mut begun, mut behind) = (HashMap::new(), BTreeMap::new());
        let mut periods = Periods::default();
        for ((name, series), mark) in self.series.iter().zip(marks) {
            if is_there(&series.board).is_err() {
                continue;
            }
            match series.begun(*mark, &mut periods, self.now_ms)? {
                Some(known) => {
                    begun.insert(name.clone(), known);
                }
                None => {
                    behind.insert(series.board.no, series.board.clone());
                }
            }
        }
        Ok(if behind.is_empty() { Ok(begun) } else { Err(behind.into_values().collect()) })
    }

    /// True for each of the standings whose period is sealed or being sealed: its events go to the
    /// history alone.
    fn closed(&self, snapshot: &Snapshot) -> Vec<bool> {
        let marks = self.wanted.seals.iter().zip(&snapshot.seals);
        let marks: HashMap<&SealName, &SealMark> = marks.collect();
        let standings = self.wanted.standings.iter().zip(&self.index.periods);
        let closed = standings.map(|((id, _), period)| {
            let mark = id.seal_name().and_then(|name| marks.get(&name).copied());
            mark.is_some_and(|mark| mark.closes(period))
        });
        closed.collect()
    }

    fn again(
        &self,
        begun: &HashMap<(BoardNo, String), Begun>,
        unknown: BTreeSet<BaseEntry>,
    ) -> FoldOutcome {
        let parts = self.parts.union(&unknown).cloned().collect();
        FoldOutcome::Again(Self::build(self.submissions.clone(), self.now_ms, begun, parts))
    }

    fn changes(
        &self,
        before: &[Vec<Result<Option<RankKey>>>],
        after: &[Vec<Result<Option<RankKey>>>],
    ) -> Vec<StandingsChange> {
        let keys = before.iter().zip(after);
        let standings = self.wanted.standings.iter().zip(&self.index.periods).zip(keys);
        let changes = standings.map(|(((id, members), period), (before, after))| {
            let keys = members.iter().zip(before.iter().zip(after));
            let moved = keys.filter(|(_, (before, after))| before != after);
            StandingsChange {
                id: id.clone(),
                present_from_ms: period.present_from_ms,
                entries: moved
                    .filter_map(|(member, (_, after))| {
                        Some((member.clone(), Some(after.clone().ok().flatten()?)))
                    })
                    .collect(),
            }
        });
        changes.filter(|change| !change.entries.is_empty()).collect()
    }
}

/// The marks of those series that were moved on.
fn marks_of(
    begun: HashMap<(BoardNo, String), Begun>,
    moved_on: &BTreeSet<(BoardNo, String)>,
) -> Vec<(BoardNo, String, RollMark)> {
    let moved = begun.into_iter().filter(|(name, _)| moved_on.contains(name));
    moved.filter_map(|((no, series), begun)| Some((no, series, begun.mark?))).collect()
}

/// Asks which members of boards that one must join have joined. Returns their positions.
fn want_entrants(submissions: &[Submission], wanted: &mut Wanted) -> Entrants {
    let mut places = Entrants::new();
    for Submission { board, member, .. } in submissions.iter().filter(|of| of.board.is_joined) {
        let key = (board.no, board.layout_since());
        let of = wanted.entrants.iter().position(|(no, since, _)| (*no, *since) == key);
        let of = of.unwrap_or_else(|| {
            wanted.entrants.push((key.0, key.1, vec![]));
            wanted.entrants.len() - 1
        });
        let members = &mut wanted.entrants[of].2;
        places.entry((board.no, member.clone())).or_insert_with(|| {
            members.push(member.clone());
            (of, members.len() - 1)
        });
    }
    places
}
