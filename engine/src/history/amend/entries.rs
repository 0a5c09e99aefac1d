//! A member's entries in Redis, as its history gives them, and what changes between two histories.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ranking::board::Board;
use ranking::commit::{Event, EventPlace, voided};
use ranking::fold::replay::Replay;
use ranking::id::{BoardNo, MemberId};
use ranking::standings_id::StandingsId;
use ranking::submission::StandingsChange;
use ranking::window::Window;
use ranking::window::roll::Rolls;
use ranking::window::seal::SealName;

use entity::archive::archived_entry;

/// A member's entries in Redis, by standings.
pub(super) type Entries = BTreeMap<StandingsId, StandingsChange>;

/// Folds a member's history: the sums of its archived events in `all`, then its events. Periods
/// that are being sealed are skipped.
pub(crate) fn replayed<'a>(
    board: &Board,
    member: &MemberId,
    archived: impl IntoIterator<Item = &'a archived_entry::Model>,
    events: impl IntoIterator<Item = &'a (EventPlace, Event)> + Clone,
    rolls: &Rolls,
    sealing_before_ms: impl IntoIterator<Item = ((BoardNo, Window), i64)>,
) -> ranking::Result<Replay> {
    let replay =
        Replay::without(voided(events.clone()), rolls.now_ms).rolled(board.no, rolls.clone());
    let mut replay = replay.skipping_before(sealing_before_ms);
    for row in archived {
        if let Some(state) = row.state() {
            replay.begin_with(board, member, &row.segment, state);
        }
    }
    for (place, event) in events {
        replay.apply(board, *place, event)?;
    }
    Ok(replay)
}

/// The seals of a board's windows that have periods.
pub(crate) fn seal_names(board: &Board) -> Vec<SealName> {
    let name = |(&window, added): (&Window, &ranking::board::Added)| {
        let name = SealName { board: board.no, generation: added.generation, window };
        window.has_periods().then_some(name)
    };
    board.added.iter().filter_map(name).collect()
}

/// The changes that lead from one state to the other.
pub(super) fn changes(mut before: Entries, after: Entries) -> Vec<StandingsChange> {
    let mut changes = vec![];
    for (id, change) in after {
        if before.remove(&id).as_ref() != Some(&change) {
            changes.push(change);
        }
    }
    for mut change in before.into_values() {
        for (_, key) in &mut change.entries {
            *key = None;
        }
        changes.push(change);
    }
    changes
}

/// Adds a member's changes to those of others.
pub(super) fn gather(changed: &mut Entries, changes: Vec<StandingsChange>) {
    for mut change in changes {
        match changed.entry(change.id.clone()) {
            Entry::Vacant(first) => {
                first.insert(change);
            }
            Entry::Occupied(known) => known.into_mut().entries.append(&mut change.entries),
        }
    }
}
