//! A batch of submissions to one partition, folded onto what Redis held at one moment.
//!
//! Which standings of a rolling window an event touches depends on how far the window has got in the partition. A batch first assumes that it
//! has got to the present, which it nearly always has; where the snapshot says otherwise, the batch is made anew and read again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::board::mark::BoardMark;
use crate::board::{Board, Policy};
use crate::error::Result;
use crate::fold::State;
use crate::id::{BoardNo, MemberId};
use crate::rank_key::RankKey;
use crate::roll::{Carried, RollMark, Rolls, carry};
use crate::seal::{SealMark, SealName};
use crate::standings_id::StandingsId;
use crate::submission::event_ids::Seen;
use crate::submission::{
    Fold, Folded, Periods, Snapshot, StandingsChange, Submission, Verdict, Wanted,
};
use crate::window::{Period, Rolling};

/// A batch of submissions to one partition, and where in what is read for it each one's entries are.
#[derive(Debug)]
pub struct Batch {
    submissions: Vec<Submission>,
    now_ms: i64,
    wanted: Wanted,
    index: Index,
    /// The rolling windows' series that it touches.
    series: BTreeMap<(BoardNo, String), Series>,
    /// Entries that are only read, to carry members.
    parts: BTreeSet<Part>,
    /// For each submission what it touches, or why it cannot be accepted.
    places: Vec<Result<Vec<Touch>>>,
}

/// An entry in what is read: standings, then member.
type Place = (usize, usize);

/// An entry that a submission touches.
#[derive(Debug, Clone, Copy)]
struct Touch {
    place: Place,
    /// Of the standings after the last period begun: the same member's entry in that period.
    from: Option<Place>,
}

/// An entry of a base window's period, by standings, start of the period, and member.
type Part = (StandingsId, i64, MemberId);

/// One series of a rolling window.
#[derive(Debug)]
struct Series {
    /// Which, in some period.
    id: StandingsId,
    board: Board,
    /// Since when the latest period that an event belongs to is the present one.
    needs_ms: i64,
    /// The last period begun, as far as it is known.
    begun: Begun,
}

/// How far a series is taken to have got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Begun {
    ms: i64,
    /// What the partition has to be told about it.
    mark: Option<RollMark>,
}

/// Where standings and their members are in what is wanted.
#[derive(Debug, Default)]
struct Index {
    standings: HashMap<StandingsId, usize>,
    members: HashMap<(usize, MemberId), usize>,
    periods: Vec<Period>,
}

impl Index {
    fn want(
        &mut self,
        wanted: &mut Wanted,
        id: StandingsId,
        period: Period,
        member: &MemberId,
    ) -> Place {
        let standings = *self.standings.entry(id).or_insert_with_key(|id| {
            wanted.standings.push((id.clone(), vec![]));
            self.periods.push(period);
            wanted.standings.len() - 1
        });
        let members = &mut wanted.standings[standings].1;
        let place = (standings, member.clone());
        let member = *self.members.entry(place).or_insert_with_key(|(_, member)| {
            members.push(member.clone());
            members.len() - 1
        });
        (standings, member)
    }

    fn find(&self, id: &StandingsId, member: &MemberId) -> Option<Place> {
        let standings = *self.standings.get(id)?;
        let member = self.members.get(&(standings, member.clone()))?;
        Some((standings, *member))
    }
}

impl Series {
    /// How far it has got with this mark, or with none, once the events are in; `None` where it has to be rolled first.
    fn begun(
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

impl Batch {
    /// Works out which standings each submission touches; those without a time of their own are taken as of `now_ms`.
    #[must_use]
    pub fn new(submissions: Vec<Submission>, now_ms: i64) -> Self {
        Self::build(submissions, now_ms, &HashMap::new(), BTreeSet::new())
    }

    fn build(
        submissions: Vec<Submission>,
        now_ms: i64,
        known: &HashMap<(BoardNo, String), Begun>,
        parts: BTreeSet<Part>,
    ) -> Self {
        let mut periods = Periods::default();
        let (series, rolls) = rolling(&submissions, now_ms, known, &mut periods);
        let (mut wanted, mut index) = (Wanted::default(), Index::default());
        let boards: BTreeSet<BoardNo> =
            submissions.iter().map(|submission| submission.board.no).collect();
        wanted.boards = boards.into_iter().collect();
        for (no, name) in series.keys() {
            match wanted.rolls.last_mut() {
                Some((last, names)) if last == no => names.push(name.clone()),
                _ => wanted.rolls.push((*no, vec![name.clone()])),
            }
        }
        let mut places = vec![];
        for submission in &submissions {
            wanted.seen.extend(submission.seen_field());
            let board = &submission.board;
            let touched = periods.standings(
                board,
                &submission.segments,
                submission.earned_ms(now_ms),
                &rolls[&board.no],
            );
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
                Touch { place, from }
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
        let seals: BTreeSet<SealName> = seals.filter_map(|(id, _)| SealName::of(id)).collect();
        wanted.seals = seals.into_iter().collect();
        Self { submissions, now_ms, wanted, index, series, parts, places }
    }

    /// How many entries it touches: a late event touches many of a rolling window.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.places.iter().flatten().map(Vec::len).sum()
    }

    /// The submissions, in their order.
    #[must_use]
    pub fn submissions(&self) -> &[Submission] {
        &self.submissions
    }

    /// When it counts as accepted, in Unix milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// What has to be read before it can be folded.
    #[must_use]
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Folds the batch, in order, onto what was read for [`Self::wanted`].
    ///
    /// A submission is rejected where it would leave the range of any standings it touches; those after it go on from
    /// what it found. An event id that was accepted within the last `dedup_ms`, or earlier in the batch, makes a
    /// duplicate. `commit` is the id that the commit gets.
    ///
    /// # Errors
    /// `Corrupt` where the snapshot holds what this program does not write.
    pub fn fold(&self, snapshot: &Snapshot, dedup_ms: i64, commit: &str) -> Result<Fold> {
        let marks: HashMap<BoardNo, BoardMark> =
            self.wanted.boards.iter().copied().zip(snapshot.boards.iter().copied()).collect();
        let is_there = |board: &Board| {
            let mark = marks.get(&board.no).copied();
            mark.unwrap_or(BoardMark::Deleted).check(board)
        };
        let begun = match self.begun(snapshot, is_there)? {
            Ok(begun) => begun,
            Err(boards) => return Ok(Fold::Roll(boards)),
        };
        let is_as_taken = |(name, series): (&(BoardNo, String), &Series)| {
            begun.get(name).is_none_or(|begun| begun.ms == series.begun.ms)
        };
        if !self.series.iter().all(is_as_taken) {
            return Ok(self.again(&begun, BTreeSet::new()));
        }
        let mut seen: HashMap<String, Seen> = HashMap::new();
        for (field, value) in self.wanted.seen.iter().zip(&snapshot.seen) {
            let Some(first) = value.as_deref().map(Seen::parse).transpose()? else {
                continue;
            };
            if first.accepted_at_ms > self.now_ms - dedup_ms {
                seen.insert(field.clone(), first);
            }
        }
        let closed = self.closed(snapshot);
        let mut folding =
            Folding { batch: self, keys: snapshot.keys.clone(), unknown: BTreeSet::new() };
        let seq = snapshot.head.seq + 1;
        let (mut verdicts, mut events, mut seen_now) = (vec![], vec![], vec![]);
        let mut moved_on = BTreeSet::new();
        for (submission, places) in self.submissions.iter().zip(&self.places) {
            if let Err(error) = is_there(&submission.board) {
                verdicts.push(Verdict::Rejected(error));
                continue;
            }
            let (field, this) = (submission.seen_field(), submission.as_seen(self.now_ms, seq));
            if let Some(first) = field.as_ref().and_then(|field| seen.get(field)) {
                verdicts.push(first.verdict_on(&this));
                continue;
            }
            if let Err(error) = places.clone().and_then(|mut places| {
                places.retain(|touch| !closed[touch.place.0]);
                folding.admit(submission, &places)
            }) {
                verdicts.push(Verdict::Rejected(error));
                continue;
            }
            for touch in places.iter().flatten() {
                let id = &self.wanted.standings[touch.place.0].0;
                if id.window.rolling().is_some() {
                    moved_on.insert((id.board, id.series()));
                }
            }
            verdicts.push(Verdict::Accepted { seq, index: events.len() as u32 });
            events.push(submission.to_event(self.now_ms));
            if let Some(field) = field {
                seen_now.push((field.clone(), this.to_text()));
                seen.insert(field, this);
            }
        }
        if !folding.unknown.is_empty() {
            return Ok(self.again(&begun, folding.unknown));
        }
        let commit = (!events.is_empty())
            .then(|| snapshot.head.next(commit.to_owned(), self.now_ms, events));
        let rolls = begun.into_iter().filter_map(|(name, begun)| {
            let mark = begun.mark.filter(|_| moved_on.contains(&name))?;
            Some((name.0, name.1, mark))
        });
        Ok(Fold::Folded(Folded {
            verdicts,
            commit,
            changes: self.changes(&snapshot.keys, &folding.keys),
            rolls: rolls.collect(),
            seen: seen_now,
        }))
    }

    /// How far each series of a board that is there has got, or the boards that have to be rolled first.
    #[expect(clippy::type_complexity, reason = "two things that it may be")]
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

    /// Whether each of the standings is of a period that is being sealed, or is: its events go to the history alone.
    fn closed(&self, snapshot: &Snapshot) -> Vec<bool> {
        let marks = self.wanted.seals.iter().zip(&snapshot.seals);
        let marks: HashMap<&SealName, &SealMark> = marks.collect();
        let standings = self.wanted.standings.iter().zip(&self.index.periods);
        let closed = standings.map(|((id, _), period)| {
            let mark = SealName::of(id).and_then(|name| marks.get(&name).copied());
            mark.is_some_and(|mark| mark.closes(period))
        });
        closed.collect()
    }

    fn again(&self, begun: &HashMap<(BoardNo, String), Begun>, unknown: BTreeSet<Part>) -> Fold {
        let parts = self.parts.union(&unknown).cloned().collect();
        Fold::Again(Self::build(self.submissions.clone(), self.now_ms, begun, parts))
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

/// The series that submissions touch, each taken to have got as far as it is known, or to the present; and the same by board.
fn rolling(
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
            // What cannot be accepted for its time is told later.
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

/// A batch being folded.
struct Folding<'a> {
    batch: &'a Batch,
    keys: Vec<Vec<Result<Option<RankKey>>>>,
    /// What was not read and is needed: the fold is to be thrown away.
    unknown: BTreeSet<Part>,
}

impl<'a> Folding<'a> {
    /// Moves a member in all the standings it touches, or in none.
    fn admit(&mut self, submission: &Submission, places: &[Touch]) -> Result<()> {
        let rules = &submission.board.rules;
        let earned_ms = submission.earned_ms(self.batch.now_ms);
        submission.board.admission.check(earned_ms, self.batch.now_ms)?;
        if rules.policy != Policy::Sum {
            // One that would not change anything now might after a removal.
            rules.check_score(submission.score)?;
        }
        let mut moved = Vec::with_capacity(places.len());
        for touch in places {
            let (id, period) = self.standings(touch.place);
            let state = match (self.state(submission, touch.place)?, touch.from) {
                (None, Some(from)) => self.carried(submission, touch.place, from)?,
                (state, _) => state,
            };
            let event = rules.first(id.window, submission.score, earned_ms);
            moved.push(rules.key(id.window, period, rules.fold(id.window, state, event))?);
        }
        for (touch, key) in places.iter().zip(moved) {
            let (standings, member) = touch.place;
            self.keys[standings][member] = Ok(Some(key));
        }
        Ok(())
    }

    fn standings(&self, (standings, _): Place) -> (&'a StandingsId, &'a Period) {
        let batch = self.batch;
        (&batch.wanted.standings[standings].0, &batch.index.periods[standings])
    }

    fn state(&self, submission: &Submission, place: Place) -> Result<Option<State>> {
        let (id, period) = self.standings(place);
        let key = self.keys[place.0][place.1].clone()?;
        Ok(key.map(|key| submission.board.rules.state(id.window, period, key)))
    }

    /// What the member takes over into the standings after the last period begun.
    fn carried(
        &mut self,
        submission: &Submission,
        place: Place,
        from: Place,
    ) -> Result<Option<State>> {
        let Some(state) = self.state(submission, from)? else {
            return Ok(None);
        };
        let ((id, next), (_, from)) = (self.standings(place), self.standings(from));
        let Some(window) = id.window.rolling() else {
            return Ok(Some(state));
        };
        let part_id = |period: &Period| part_id(&submission.board, &id.segment, window, period);
        let part = |period: &Period| {
            let place = self.batch.index.find(&part_id(period), &submission.member);
            place.map(|place| self.state(submission, place)).transpose()
        };
        match carry(&submission.board.rules, window, from, next, state, part)? {
            Carried::Known(state) => Ok(state),
            Carried::Wants(periods) => {
                let wanted = periods.iter().map(|period| {
                    let member = submission.member.clone();
                    (part_id(period), period.present_from_ms, member)
                });
                let wanted: Vec<Part> = wanted.collect();
                self.unknown.extend(wanted);
                Ok(None)
            }
        }
    }
}

/// The standings of a rolling window's part.
#[must_use]
pub fn part_id(board: &Board, segment: &str, window: Rolling, period: &Period) -> StandingsId {
    StandingsId::of(board, segment, window.base(), period)
}
