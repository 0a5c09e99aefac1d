//! Standings from history: events in their order, folded one by one. What recovery rebuilds from, and an oracle in tests.

use std::collections::{BTreeMap, HashMap};

use crate::board::Board;
use crate::commit::{Event, EventKind};
use crate::error::Result;
use crate::fold::State;
use crate::id::{BoardNo, MemberId};
use crate::key::StandingsId;
use crate::rank_key::RankKey;
use crate::submission::Periods;
use crate::window::Period;

/// The standings that some events add up to. Holds a state for every entry.
#[derive(Debug, Default)]
pub struct Replay {
    periods: Periods,
    /// The board and period of every standings.
    standings: HashMap<StandingsId, (Board, Period)>,
    states: HashMap<(BoardNo, MemberId), HashMap<StandingsId, State>>,
}

impl Replay {
    /// Folds one event. Events of a member come in the order of their partition's history.
    ///
    /// # Errors
    /// `Invalid` where an event's time is in no period; an accepted one's always is.
    pub fn apply(&mut self, board: &Board, event: &Event) -> Result<()> {
        let EventKind::Score { score, at_ms, .. } = event.kind else {
            self.states.remove(&(board.no, event.member.clone()));
            return Ok(());
        };
        let step = State {
            score,
            tick: board.rules.tick(at_ms),
        };
        let states = self
            .states
            .entry((board.no, event.member.clone()))
            .or_default();
        for (id, period) in self.periods.standings(board, &event.segments, at_ms)? {
            let state = board.rules.fold(states.get(&id).copied(), step);
            if let Some(known) = states.get_mut(&id) {
                *known = state;
                continue;
            }
            self.standings
                .entry(id.clone())
                .or_insert_with(|| (board.clone(), period));
            states.insert(id, state);
        }
        Ok(())
    }

    /// The entries of every standings that has some, by member.
    ///
    /// # Errors
    /// `OutOfRange` where a state has no key: no accepted history has such a one.
    pub fn into_entries(self) -> Result<BTreeMap<StandingsId, Vec<(MemberId, RankKey)>>> {
        let mut entries: BTreeMap<StandingsId, Vec<(MemberId, RankKey)>> = BTreeMap::new();
        for ((_, member), states) in self.states {
            for (id, state) in states {
                let (board, period) = &self.standings[&id];
                let key = board.rules.key(id.window, period, state)?;
                entries.entry(id).or_default().push((member.clone(), key));
            }
        }
        for members in entries.values_mut() {
            members.sort_unstable();
        }
        Ok(entries)
    }
}
