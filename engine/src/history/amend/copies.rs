//! Copies of a merged member's scores in the history of the member that it is merged into.
//!
//! A copy is an event of its own that names its origin. So a copy is made once, however often a
//! merge is continued, and the fold of the target's history alone gives its standings.

use std::collections::{BTreeMap, HashSet};

use ranking::board::Board;
use ranking::commit::{Commit, Event, EventKind, EventPlace, voided};
use ranking::id::{EventId, PartitionNo};
use ranking::store::write::Writes;
use ranking::submission::event_ids::seen_entry;
use ranking::window::roll::Rolls;
use tokio::time::Instant;

use super::known::KnownHistory;
use super::{Amended, Amending, By, Merge, Plan, Planned, replayed};
use crate::failpoint;
use crate::partition::Partition;
use entity::error::Result;
use entity::history::dead_letter;
use entity::member::merge::{self, Step};

/// The most copies in one commit.
const COPIES_MAX: usize = 500;

/// Copies the scores that a target's history lacks, commit by commit. The history is read once,
/// however many commits follow.
///
/// # Errors
/// `Overtaken` if scores are left at the deadline; otherwise as
/// [`amend_members`](super::amend_members).
pub(crate) async fn copy_all(
    (partition, board): (Partition<'_>, &Board),
    of: Merge<'_>,
    deadline: Instant,
) -> Result<()> {
    let mut amending = Amending::new(board, Plan::Copies(of), By::Upkeep);
    loop {
        let done = partition.commit_with_retry(&mut amending, deadline).await?;
        if done.outcome.amended != Amended::Done {
            return Ok(());
        }
        failpoint::hit("copied");
        if Instant::now() >= deadline {
            return Err(entity::Error::Overtaken("a merge takes long".into()));
        }
    }
}

impl Amending<'_> {
    /// True if SQL refused a copy behind a seq. A history that is read on would lack it, and it
    /// would be made again.
    pub(super) async fn has_refused(&self, partition: Partition<'_>, since: i64) -> Result<bool> {
        let Plan::Copies(_) = self.plan else {
            return Ok(false);
        };
        let letters = dead_letter::of_board(&partition.db, partition.no, self.board.no).await?;
        Ok(letters.iter().any(|(place, _)| place.seq as i64 > since))
    }

    /// Checks that a merge is still at the step of its copies. This is read after the head: who
    /// ends that step moves the head afterwards.
    pub(super) async fn check_step(&self, partition: Partition<'_>) -> Result<()> {
        let Plan::Copies(of) = self.plan else {
            return Ok(());
        };
        let row = merge::of(&partition.db, of.source.as_str()).await?;
        if row.is_some_and(|row| row.step == Step::Decided) {
            return Ok(());
        }
        Err(entity::Error::Overtaken("another process went on with the merge".into()))
    }

    /// The next copies that the target's history lacks.
    pub(super) fn copies(
        &self,
        known: &KnownHistory,
        of: Merge<'_>,
        rolls: &Rolls,
    ) -> ranking::Result<Planned> {
        let mut events = self.lacking(known, of);
        events.truncate(failpoint::batch_size(COPIES_MAX));
        if events.is_empty() {
            return Ok(Planned::nothing(Amended::Nothing));
        }
        let history = known.history.of(of.target.as_str());
        let entries = self.entries(known, of.target, history, rolls)?;
        let before = BTreeMap::from([(of.target.clone(), entries)]);
        Ok(Planned { events, before, ..Planned::nothing(Amended::Done) })
    }

    /// Checks that the board's ranges hold the target's entries after each commit of copies.
    pub(super) fn check_copies(
        &self,
        known: &KnownHistory,
        of: Merge<'_>,
        rolls: &Rolls,
    ) -> ranking::Result<Planned> {
        let target = of.target;
        let (archived, events) = (known.archived_of(target), known.history.of(target.as_str()));
        let sealed = self.sealing_before_ms.iter().copied();
        let mut replay = replayed(self.board, target, archived, events, rolls, sealed)?;
        // No void names this place.
        let place = EventPlace { partition: PartitionNo(u16::MAX), seq: u64::MAX, index: 0 };
        for commit in self.lacking(known, of).chunks(COPIES_MAX) {
            for copy in commit {
                replay.apply(self.board, place, copy)?;
            }
            replay.changes()?;
        }
        Ok(Planned::nothing(Amended::Nothing))
    }

    /// The copies that the target's history lacks, in the order of their origins. One whose
    /// event id is taken has none.
    fn lacking(&self, known: &KnownHistory, of: Merge<'_>) -> Vec<Event> {
        let events = known.history.of(of.target.as_str());
        let mut origins: HashSet<EventPlace> = known.refused_origins.clone();
        origins.extend(events.iter().filter_map(|(_, event)| event.origin));
        let voided = voided(events);
        let counting = events.iter().filter(|(place, _)| !voided.contains(place));
        let mut ids: HashSet<EventId> =
            counting.filter_map(|(_, event)| event.event_id.clone()).collect();
        let lacking = of.scores.iter().filter(|(place, _)| !origins.contains(place));
        let copy = |(place, event): &(EventPlace, Event)| Event {
            generation: self.board.generation,
            member: of.target.clone(),
            event_id: event.event_id.clone().filter(|id| ids.insert(id.clone())),
            origin: Some(*place),
            ..event.clone()
        };
        lacking.map(copy).collect()
    }
}

/// Remembers the event ids of a commit of copies.
pub(super) fn remember(writes: &mut Writes, partition: Partition<'_>, commit: &Commit) {
    let events = commit.events.iter();
    let seen = events.filter_map(|event| seen_entry(event, commit.accepted_at_ms, commit.seq));
    let bucket = (partition.no, partition.dedup.bucket(commit.clock_ms));
    let seen: Vec<_> = seen.collect();
    writes.set_seen(partition.store.keys(), bucket, &seen, partition.dedup);
}

/// The scores of a history that count at its end, in order; and true if none of its archived events
/// does, as a removal took them away.
pub(crate) fn counting(events: Vec<(EventPlace, Event)>) -> (Vec<(EventPlace, Event)>, bool) {
    let voided = voided(&events);
    let (mut counting, mut begins_anew) = (vec![], false);
    for (place, event) in events.into_iter().filter(|(place, _)| !voided.contains(place)) {
        match event.kind {
            EventKind::Score { .. } => counting.push((place, event)),
            EventKind::Removal => {
                counting.clear();
                begins_anew = true;
            }
            EventKind::Void { .. } => {}
        }
    }
    (counting, begins_anew)
}
