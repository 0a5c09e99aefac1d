//! Submissions: which standings an event belongs to, and how a batch meets what Redis held at one moment.
//!
//! All decisions of the write path are made here, in Rust, from a [`Snapshot`]; Redis only checks that the
//! partition's head has not moved since and then writes.

use std::collections::{BTreeSet, HashMap};

use crate::board::{Board, Policy};
use crate::board_mark::BoardMark;
use crate::commit::{Commit, Event, EventKind, Head};
use crate::error::{Error, Result};
use crate::fold::State;
use crate::id::{BoardNo, EventId, MemberId};
use crate::key::StandingsId;
use crate::rank_key::RankKey;
use crate::seal::{SealMark, SealName};
use crate::seen::{Seen, seen_field};
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
    /// It is in the commit, at this index.
    Accepted {
        /// 0-based.
        index: u32,
    },
    /// Its event id was accepted before, in the commit of that number.
    Duplicate {
        /// The commit's seq.
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
    /// Fields and values for the present seen hash.
    pub seen: Vec<(String, String)>,
}

/// What a commit changes in one standings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingsChange {
    /// Which.
    pub id: StandingsId,
    /// Where its period starts, in Unix milliseconds.
    pub start_ms: i64,
    /// Members and their new keys; `None` for those who leave.
    pub entries: Vec<(MemberId, Option<RankKey>)>,
}

/// Periods found so far: events come in runs of the same period, and zone arithmetic is not free.
#[derive(Debug, Default)]
pub struct Periods {
    last: HashMap<(BoardNo, Window), Period>,
}

impl Periods {
    /// [`Window::period_at`] with a memory of one period per board and window.
    ///
    /// # Errors
    /// As [`Window::period_at`].
    pub fn at(&mut self, board: &Board, window: Window, at_ms: i64) -> Result<Period> {
        let within = |period: &&Period| {
            period.start_ms <= at_ms && period.end_ms.is_none_or(|end_ms| at_ms < end_ms)
        };
        if let Some(period) = self.last.get(&(board.no, window)).filter(within) {
            return Ok(period.clone());
        }
        let period = window.period_at(at_ms, &board.rules.zone)?;
        self.last.insert((board.no, window), period.clone());
        Ok(period)
    }

    /// Every standings that an event of that time counts in: for each window its period, for each segment besides everyone again.
    ///
    /// # Errors
    /// As [`Window::period_at`].
    pub fn standings(
        &mut self,
        board: &Board,
        segments: &[String],
        at_ms: i64,
    ) -> Result<Vec<(StandingsId, Period)>> {
        let mut standings = Vec::with_capacity(board.rules.windows.len() * (segments.len() + 1));
        for &window in &board.rules.windows {
            let period = self.at(board, window, at_ms)?;
            for segment in std::iter::once("").chain(segments.iter().map(String::as_str)) {
                let id = StandingsId {
                    board: board.no,
                    generation: board.generation_of(window),
                    segment: segment.to_owned(),
                    window,
                    period: period.label.clone(),
                };
                standings.push((id, period.clone()));
            }
        }
        Ok(standings)
    }
}

/// A batch of submissions to one partition, and where in what is read for it each one's entries are.
#[derive(Debug)]
pub struct Batch {
    submissions: Vec<Submission>,
    now_ms: i64,
    wanted: Wanted,
    /// The periods of the wanted standings.
    periods: Vec<Period>,
    /// For each submission the indices (standings, member) of what it touches, or why it cannot be accepted.
    places: Vec<Result<Vec<(usize, usize)>>>,
}

impl Batch {
    /// Works out which standings each submission touches; those without a time of their own are taken as of `now_ms`.
    #[must_use]
    pub fn new(submissions: Vec<Submission>, now_ms: i64) -> Self {
        let (mut wanted, mut standings_periods, mut places) = (Wanted::default(), vec![], vec![]);
        let mut periods = Periods::default();
        let boards: BTreeSet<BoardNo> = submissions
            .iter()
            .map(|submission| submission.board.no)
            .collect();
        wanted.boards = boards.into_iter().collect();
        let mut standings_index: HashMap<StandingsId, usize> = HashMap::new();
        let mut member_index: HashMap<(usize, MemberId), usize> = HashMap::new();
        for submission in &submissions {
            wanted.seen.extend(submission.seen_field());
            let touched = periods.standings(
                &submission.board,
                &submission.segments,
                submission.earned_ms(now_ms),
            );
            places.push(touched.map(|touched| {
                let place = |(id, period): (StandingsId, Period)| {
                    let standings = *standings_index.entry(id).or_insert_with_key(|id| {
                        wanted.standings.push((id.clone(), vec![]));
                        standings_periods.push(period);
                        wanted.standings.len() - 1
                    });
                    let members = &mut wanted.standings[standings].1;
                    let member = *member_index
                        .entry((standings, submission.member.clone()))
                        .or_insert_with(|| {
                            members.push(submission.member.clone());
                            members.len() - 1
                        });
                    (standings, member)
                };
                touched.into_iter().map(place).collect()
            }));
        }
        let seals: BTreeSet<SealName> = wanted
            .standings
            .iter()
            .filter_map(|(id, _)| SealName::of(id))
            .collect();
        wanted.seals = seals.into_iter().collect();
        Self {
            submissions,
            now_ms,
            wanted,
            periods: standings_periods,
            places,
        }
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
    pub fn fold(&self, snapshot: &Snapshot, dedup_ms: i64, commit: &str) -> Result<Folded> {
        let mut seen: HashMap<String, Seen> = HashMap::new();
        for (field, value) in self.wanted.seen.iter().zip(&snapshot.seen) {
            let Some(first) = value.as_deref().map(Seen::parse).transpose()? else {
                continue;
            };
            if first.accepted_at_ms > self.now_ms - dedup_ms {
                seen.insert(field.clone(), first);
            }
        }
        let marks: HashMap<BoardNo, BoardMark> = self
            .wanted
            .boards
            .iter()
            .copied()
            .zip(snapshot.boards.iter().copied())
            .collect();
        let is_there = |board: &Board| {
            let mark = marks.get(&board.no).copied();
            mark.unwrap_or(BoardMark::Deleted).check(board)
        };
        let closed = self.closed(snapshot);
        let mut keys = snapshot.keys.clone();
        let seq = snapshot.head.seq + 1;
        let (mut verdicts, mut events, mut seen_now) = (vec![], vec![], vec![]);
        for (submission, places) in self.submissions.iter().zip(&self.places) {
            if let Err(error) = is_there(&submission.board) {
                verdicts.push(Verdict::Rejected(error));
                continue;
            }
            let (field, this) = (
                submission.seen_field(),
                submission.as_seen(self.now_ms, seq),
            );
            if let Some(first) = field.as_ref().and_then(|field| seen.get(field)) {
                verdicts.push(first.verdict_on(&this));
                continue;
            }
            if let Err(error) = places.clone().and_then(|mut places| {
                places.retain(|(standings, _)| !closed[*standings]);
                self.admit(submission, &places, &mut keys)
            }) {
                verdicts.push(Verdict::Rejected(error));
                continue;
            }
            verdicts.push(Verdict::Accepted {
                index: events.len() as u32,
            });
            events.push(submission.to_event(self.now_ms));
            if let Some(field) = field {
                seen_now.push((field.clone(), this.to_text()));
                seen.insert(field, this);
            }
        }
        let commit = (!events.is_empty())
            .then(|| snapshot.head.next(commit.to_owned(), self.now_ms, events));
        Ok(Folded {
            verdicts,
            commit,
            changes: self.changes(&snapshot.keys, &keys),
            seen: seen_now,
        })
    }

    /// Whether each of the standings is of a period that is being sealed, or is: its events go to the history alone.
    fn closed(&self, snapshot: &Snapshot) -> Vec<bool> {
        let marks = self.wanted.seals.iter().zip(&snapshot.seals);
        let marks: HashMap<&SealName, &SealMark> = marks.collect();
        let standings = self.wanted.standings.iter().zip(&self.periods);
        let closed = standings.map(|((id, _), period)| {
            let mark = SealName::of(id).and_then(|name| marks.get(&name).copied());
            mark.is_some_and(|mark| mark.closes(period))
        });
        closed.collect()
    }

    /// Moves a member in all the standings it touches, or in none.
    fn admit(
        &self,
        submission: &Submission,
        places: &[(usize, usize)],
        keys: &mut [Vec<Result<Option<RankKey>>>],
    ) -> Result<()> {
        let rules = &submission.board.rules;
        let earned_ms = submission.earned_ms(self.now_ms);
        submission.board.admission.check(earned_ms, self.now_ms)?;
        if rules.policy != Policy::Sum {
            // One that would not change anything now might after a removal.
            rules.check_score(submission.score)?;
        }
        let event = State {
            score: submission.score,
            tick: rules.tick(earned_ms),
        };
        let mut moved = Vec::with_capacity(places.len());
        for &(standings, member) in places {
            let (window, period) = (
                self.wanted.standings[standings].0.window,
                &self.periods[standings],
            );
            let state = keys[standings][member]
                .clone()?
                .map(|key| rules.state(window, period, key));
            moved.push(rules.key(window, period, rules.fold(state, event))?);
        }
        for (&(standings, member), key) in places.iter().zip(moved) {
            keys[standings][member] = Ok(Some(key));
        }
        Ok(())
    }

    fn changes(
        &self,
        before: &[Vec<Result<Option<RankKey>>>],
        after: &[Vec<Result<Option<RankKey>>>],
    ) -> Vec<StandingsChange> {
        let keys = before.iter().zip(after);
        let standings = self.wanted.standings.iter().zip(&self.periods).zip(keys);
        let changes = standings.map(|(((id, members), period), (before, after))| {
            let keys = members.iter().zip(before.iter().zip(after));
            let moved = keys.filter(|(_, (before, after))| before != after);
            StandingsChange {
                id: id.clone(),
                start_ms: period.start_ms,
                entries: moved
                    .filter_map(|(member, (_, after))| {
                        Some((member.clone(), Some(after.clone().ok().flatten()?)))
                    })
                    .collect(),
            }
        });
        changes
            .filter(|change| !change.entries.is_empty())
            .collect()
    }
}

impl Submission {
    fn seen_field(&self) -> Option<String> {
        Some(seen_field(
            self.board.no,
            &self.member,
            self.event_id.as_ref()?,
        ))
    }

    fn earned_ms(&self, now_ms: i64) -> i64 {
        self.at_ms.map_or(now_ms, |at_ms| at_ms.min(now_ms))
    }

    fn as_seen(&self, now_ms: i64, seq: u64) -> Seen {
        Seen {
            score: self.score,
            at_ms: self.at_ms.map(|at_ms| at_ms.min(now_ms)),
            accepted_at_ms: now_ms,
            seq,
        }
    }

    fn to_event(&self, now_ms: i64) -> Event {
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
