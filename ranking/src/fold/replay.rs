//! Standings from history: folds events one by one, in order. Recovery rebuilds from it, and tests
//! use it as an oracle.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::board::Board;
use crate::board::State;
use crate::commit::{Event, EventKind, EventPlace};
use crate::error::Result;
use crate::id::{BoardNo, MemberId};
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::submission::{Periods, StandingsChange};
use crate::window::roll::Rolls;
use crate::window::{Period, Window};

/// The standings that result from a sequence of events. Holds a state for every entry.
#[derive(Debug, Default)]
pub struct Replay {
    /// The voided events, known before the first event is folded.
    voided: HashSet<EventPlace>,
    /// Leaves out entries that no key can hold.
    skips_unfit: bool,
    /// For some windows, an instant: periods that start before it are left out.
    skips_before_ms: HashMap<(BoardNo, Window), i64>,
    /// The windows to fold; empty for all.
    windows: HashSet<Window>,
    /// The progress of each board's rolling windows, and of boards that are not listed.
    rolls: HashMap<BoardNo, Rolls>,
    rolls_to: Rolls,
    periods: Periods,
    standings: AllStandings,
    /// The states of each member, by the index of their standings.
    states: HashMap<(BoardNo, MemberId), HashMap<usize, State>>,
}

/// The standings that events counted in. Each has an index: a number is cheaper to hash than a
/// name.
#[derive(Debug, Default)]
struct AllStandings {
    list: Vec<Folded>,
    indexes: HashMap<StandingsId, usize>,
}

/// Standings that an event counted in.
#[derive(Debug)]
struct Folded {
    id: StandingsId,
    board: Board,
    period: Period,
}

impl AllStandings {
    fn index(&mut self, board: &Board, id: StandingsId, period: Period) -> usize {
        if let Some(&known) = self.indexes.get(&id) {
            return known;
        }
        let index = self.list.len();
        self.indexes.insert(id.clone(), index);
        self.list.push(Folded { id, board: board.clone(), period });
        index
    }
}

impl Replay {
    /// A replay of a history in which these events were voided; rolling windows have reached an
    /// instant.
    pub fn without(voided: HashSet<EventPlace>, now_ms: i64) -> Self {
        Self { voided, rolls_to: Rolls::to(now_ms), ..Self::default() }
    }

    /// Sets the progress of a board's rolling windows.
    pub fn rolled(mut self, board: BoardNo, rolls: Rolls) -> Self {
        self.rolls.insert(board, rolls);
        self
    }

    /// Leaves out entries that no key can hold: recovery must not fail because of them. The history
    /// has not been checked against windows still being filled, and a row may have been edited.
    pub fn skipping_unfit(self) -> Self {
        Self { skips_unfit: true, ..self }
    }

    /// Folds some windows of each board only.
    pub fn only(self, windows: impl IntoIterator<Item = Window>) -> Self {
        Self { windows: windows.into_iter().collect(), ..self }
    }

    /// Leaves out the periods of some windows that start before an instant, as they are sealed.
    pub fn skipping_before(
        self,
        windows: impl IntoIterator<Item = ((BoardNo, Window), i64)>,
    ) -> Self {
        Self { skips_before_ms: windows.into_iter().collect(), ..self }
    }

    /// Sets a member's state in `all` before the first event: earlier events are known by their sum
    /// only.
    pub fn begin_with(&mut self, board: &Board, member: &MemberId, segment: &str, state: State) {
        let id = StandingsId::all_time(board, segment.to_owned());
        let index = self.standings.index(board, id, Period::all());
        let states = self.states.entry((board.no, member.clone())).or_default();
        states.insert(index, state);
    }

    /// Folds one event. A member's events must come in the order of the partition's history.
    ///
    /// # Errors
    /// `Invalid` if the event's time is in no period; the time of an accepted event always is.
    pub fn apply(&mut self, board: &Board, place: EventPlace, event: &Event) -> Result<()> {
        if self.voided.contains(&place) {
            return Ok(());
        }
        let (score, at_ms) = match event.kind {
            EventKind::Score { score, at_ms, .. } => (score, at_ms),
            EventKind::Removal => {
                self.states.remove(&(board.no, event.member.clone()));
                return Ok(());
            }
            EventKind::Void { .. } => return Ok(()),
        };
        let states = self.states.entry((board.no, event.member.clone())).or_default();
        let rolls = self.rolls.get(&board.no).unwrap_or(&self.rolls_to);
        for (id, period) in self.periods.standings(board, &event.segments, at_ms, rolls)? {
            if !self.windows.is_empty() && !self.windows.contains(&id.window) {
                continue;
            }
            let skipped_ms = self.skips_before_ms.get(&(board.no, id.window));
            if skipped_ms.is_some_and(|&before_ms| period.present_from_ms < before_ms) {
                continue;
            }
            let (window, event) = (id.window, board.rules.first(id.window, score, at_ms));
            let index = self.standings.index(board, id, period);
            let before = states.get(&index).copied();
            states.insert(index, board.rules.fold(window, before, event));
        }
        Ok(())
    }

    /// Folds a score that a member is about to get, with its time in Unix milliseconds, unless an
    /// entry that it counts in would leave its range: then nothing changes, as where a batch
    /// refuses it. The replay leaves out nothing.
    ///
    /// # Errors
    /// `OutOfRange` or `AttemptsExhausted`, as for a submission.
    pub fn admit(
        &mut self,
        board: &Board,
        member: &MemberId,
        segments: &[String],
        (score, at_ms): (i64, i64),
    ) -> Result<()> {
        let states = self.states.entry((board.no, member.clone())).or_default();
        let rolls = self.rolls.get(&board.no).unwrap_or(&self.rolls_to);
        let mut moved = vec![];
        for (id, period) in self.periods.standings(board, segments, at_ms, rolls)? {
            let window = id.window;
            let index = self.standings.index(board, id, period);
            let period = &self.standings.list[index].period;
            let event = board.rules.first(window, score, at_ms);
            let folded = board.rules.fold(window, states.get(&index).copied(), event);
            board.check_attempts(window, period, member, folded.score)?;
            board.rules.key(window, period, folded)?;
            moved.push((index, folded));
        }
        states.extend(moved);
        Ok(())
    }

    /// The states in one window, with their segments; for one member's history in `all`, one for
    /// each segment.
    pub fn into_states(self, window: Window) -> Vec<(String, State)> {
        let Self { standings, states, .. } = self;
        let states = states.into_values().flatten();
        states
            .map(|(index, state)| (&standings.list[index].id, state))
            .filter(|(id, _)| id.window == window)
            .map(|(id, state)| (id.segment.clone(), state))
            .collect()
    }

    /// A member's state in these standings; `None` if it has no entry.
    pub fn state_of(&self, id: &StandingsId, member: &MemberId) -> Option<State> {
        let index = self.standings.indexes.get(id)?;
        let states = self.states.get(&(id.board, member.clone()))?;
        states.get(index).copied()
    }

    /// A member's states on a board, with their standings.
    pub fn states_of_member(
        &self,
        board: BoardNo,
        member: &MemberId,
    ) -> impl Iterator<Item = (&StandingsId, &Period, State)> {
        let states = self.states.get(&(board, member.clone()));
        states.into_iter().flatten().map(|(index, state)| {
            let Folded { id, period, .. } = &self.standings.list[*index];
            (id, period, *state)
        })
    }

    /// A member's key in these standings; `None` if it has no entry.
    ///
    /// # Errors
    /// `OutOfRange` if the state has no key, which no accepted history leads to.
    pub fn key_of(&self, id: &StandingsId, member: &MemberId) -> Result<Option<RankKey>> {
        let (Some(&index), Some(state)) =
            (self.standings.indexes.get(id), self.state_of(id, member))
        else {
            return Ok(None);
        };
        let Folded { board, period, .. } = &self.standings.list[index];
        board.rules.key(id.window, period, state).map(Some)
    }

    /// The standings that have entries, as changes that set those entries, in rank order.
    ///
    /// # Errors
    /// `OutOfRange` if a state has no key, which no accepted history leads to.
    pub fn changes(&self) -> Result<Vec<StandingsChange>> {
        let entries = self.standings.list.iter().zip(self.entries_by_index()?);
        let mut changes: Vec<StandingsChange> = entries
            .filter(|(_, entries)| !entries.is_empty())
            .map(|(Folded { id, period, .. }, entries)| StandingsChange {
                id: id.clone(),
                present_from_ms: period.present_from_ms,
                entries: entries.into_iter().map(|(key, member)| (member, Some(key))).collect(),
            })
            .collect();
        changes.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Ok(changes)
    }

    /// The entries of all standings that have any, in rank order.
    ///
    /// # Errors
    /// `OutOfRange` if a state has no key, which no accepted history leads to.
    pub fn entries(&self) -> Result<BTreeMap<StandingsId, Vec<(RankKey, MemberId)>>> {
        let entries = self.standings.list.iter().zip(self.entries_by_index()?);
        Ok(entries
            .filter(|(_, entries)| !entries.is_empty())
            .map(|(Folded { id, .. }, entries)| (id.clone(), entries))
            .collect())
    }

    /// The entries of each standings in rank order, by index; none of some.
    fn entries_by_index(&self) -> Result<Vec<Vec<(RankKey, MemberId)>>> {
        let mut entries = vec![vec![]; self.standings.list.len()];
        for ((_, member), states) in &self.states {
            for (&index, state) in states {
                let Folded { id, board, period } = &self.standings.list[index];
                let key = match board.rules.key(id.window, period, *state) {
                    // Admission does not check late events of a period that is being sealed.
                    Err(_)
                        if period.present_from_ms < board.sealed(id.window).sealing_before_ms =>
                    {
                        board.rules.nearest_key(id.window, period, *state)
                    }
                    Err(_) if self.skips_unfit => continue,
                    key => key?,
                };
                entries[index].push((key, member.clone()));
            }
        }
        entries.iter_mut().for_each(|entries| entries.sort_unstable());
        Ok(entries)
    }
}
