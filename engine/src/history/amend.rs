//! Amendments: removing members from a board, or voiding one of a member's events. Both are events
//! themselves.
//!
//! The members' entries are folded again from their history, up to exactly the head that the commit
//! builds on. Nothing is subtracted.

mod dead_letters;
mod known;
mod unarchived;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use ranking::board::Board;
use ranking::commit::{Event, EventKind, EventPlace};
use ranking::fold::replay::Replay;
use ranking::id::{BoardNo, MemberId};
use ranking::standings_id::StandingsId;
use ranking::store::log::Tail;
use ranking::store::write::Writes;
use ranking::submission::StandingsChange;
use ranking::window::Window;
use ranking::window::roll::Rolls;
use ranking::window::seal::SealName;
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::change::Proposal;
use crate::partition::follow::{Follower, Marks};
use crate::roll::mark_new;
use entity::archive::archived_entry;
use entity::board;
use entity::error::Result;
use entity::history::{log_cursor, score_event};

pub use dead_letters::void_dead_letters;
use known::KnownHistory;

/// The most entries that one commit takes away, unless a single member has more.
const ENTRIES_MAX: usize = 20_000;

/// The kinds of amendment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amendment {
    /// Takes back all that the members have on the board.
    Removal,
    /// Takes back one event, a score or a removal, as if it had never been.
    Void(EventPlace),
}

/// The result of an amendment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amended {
    /// The amendment is in the history.
    Done,
    /// There was nothing to take back: no entry, or the event is voided already.
    Nothing,
    /// The history has no such event of this member on this board, or the event is a void; a void
    /// cannot be voided.
    NoSuchEvent,
}

/// An amendment of several members' histories in one commit.
#[derive(Debug, Clone)]
pub(crate) struct AmendedMembers {
    /// The result.
    pub(crate) amended: Amended,
    /// The members whose histories have an event more.
    pub(crate) members: Vec<MemberId>,
    /// The number of members that were looked at, in the order given; another commit is needed for
    /// the others.
    pub(crate) looked_at: usize,
}

/// Amends a member's history on a board, and persists it. Tries until `deadline`. Needs SQL.
///
/// # Errors
/// `OutOfRange` if the remaining score would leave a range; `BoardGone`; otherwise as
/// [`Partition::submit`].
pub async fn amend(
    deployment: &Deployment,
    board: &Board,
    member: &MemberId,
    amendment: Amendment,
    deadline: Instant,
) -> Result<Amended> {
    let partition = deployment.partition(deployment.store.partitions().of_member(board, member));
    let members = std::slice::from_ref(member);
    let done = amend_members(partition, board, members, amendment, deadline).await?;
    if done.amended == Amended::Done
        && let Err(error) = partition.settle().await
    {
        // The amendment stands; readers of the history may just not see it yet.
        tracing::debug!(%partition, %error, "an amendment waits for the database");
    }
    Ok(done.amended)
}

/// Amends the histories of members of a partition on a board, in one commit.
///
/// # Errors
/// As [`amend`].
pub(crate) async fn amend_members(
    partition: Partition<'_>,
    board: &Board,
    members: &[MemberId],
    amendment: Amendment,
    deadline: Instant,
) -> Result<AmendedMembers> {
    let mut amending = Amending {
        board,
        members,
        amendment,
        known: None,
        sealing_before_ms: vec![],
        archived_before_ms: None,
    };
    Ok(partition.commit_with_retry(&mut amending, deadline).await?.outcome)
}

struct Amending<'a> {
    board: &'a Board,
    members: &'a [MemberId],
    amendment: Amendment,
    known: Option<KnownHistory>,
    /// The instants before which periods of a window are sealed, by the partition's marks.
    sealing_before_ms: Vec<((BoardNo, Window), i64)>,
    /// The instant before which scores of the partition are archived or being archived.
    archived_before_ms: Option<i64>,
}

/// A member's entries in Redis, by standings.
type Entries = BTreeMap<StandingsId, StandingsChange>;

/// The events of an amendment.
struct Planned {
    amended: Amended,
    /// Each with the entries of its member before it.
    events: Vec<(Event, Entries)>,
    looked_at: usize,
}

impl Planned {
    fn nothing(amended: Amended) -> Self {
        Self { amended, events: vec![], looked_at: 1 }
    }
}

impl Follower for Amending<'_> {
    type Outcome = Proposal<AmendedMembers>;

    fn cursor(&self) -> Option<log_cursor::Model> {
        self.known.as_ref().map(|known| known.history.cursor.clone())
    }

    fn marks(&self, partition: Partition<'_>) -> Marks {
        let seen = self.known.as_ref().and_then(|known| known.seen_in(partition.dedup));
        Marks { board: self.board.no, seals: seal_names(self.board), seen }
    }

    async fn read_sql(&mut self, partition: Partition<'_>) -> Result<ControlFlow<Self::Outcome>> {
        self.known = match self.known.take() {
            None => Some(self.read(partition).await?),
            Some(known) => {
                let keys = self.members.iter().map(MemberId::as_str);
                let of_members = score_event::of_members(self.board, keys);
                let history = known.history.advance(partition, of_members).await?;
                history.map(|history| KnownHistory { history, ..known })
            }
        };
        Ok(ControlFlow::Continue(()))
    }

    async fn take_tail(
        &mut self,
        partition: Partition<'_>,
        tail: Tail,
        _: usize,
    ) -> Result<ControlFlow<Self::Outcome>> {
        // Read after the head: an archive job writes its mark first and moves the head afterwards.
        let mark = partition.archive_mark(self.board.no).await?;
        let known = self.known.take().filter(|known| known.mark == mark);
        let Some(mut known) = known else {
            return Ok(ControlFlow::Continue(()));
        };
        self.archived_before_ms = match mark.closing_seq > mark.archived_seq {
            true => board::archived_before_ms(&partition.db, self.board.no).await?,
            false => mark.archived_before_ms,
        };
        tail.board.check(self.board)?;
        known.history.extend(partition, self.board, &tail.commits);
        // The persister corrects sealed entries.
        let seals = seal_names(self.board);
        let marks = seals.iter().zip(&tail.seals);
        self.sealing_before_ms =
            marks.map(|(name, mark)| ((name.board, name.window), mark.sealing_before_ms)).collect();
        let proposal = self.fold(partition, &tail, &known)?;
        self.known = Some(known);
        Ok(ControlFlow::Break(proposal))
    }
}

impl Amending<'_> {
    /// Folds the amendment onto a history that ends at the head of `tail`.
    fn fold(
        &self,
        partition: Partition<'_>,
        tail: &Tail,
        known: &KnownHistory,
    ) -> Result<Proposal<AmendedMembers>> {
        let now_ms = partition.clock.now_ms();
        let rolls = Rolls { marks: tail.rolls.clone(), now_ms };
        let Planned { amended, events, looked_at } = match self.amendment {
            Amendment::Removal => self.removals(known, &rolls)?,
            Amendment::Void(target) => self.void(known, target, &rolls)?,
        };
        let members = events.iter().map(|(event, _)| event.member.clone()).collect();
        let outcome = AmendedMembers { amended, members, looked_at };
        let nothing = Proposal::onto(tail, outcome);
        if events.is_empty() {
            return Ok(nothing);
        }
        let (events, before): (Vec<Event>, Vec<Entries>) = events.into_iter().unzip();
        let commit = tail.head.next(rand::random(), now_ms, events);
        let mut changed = Entries::new();
        for ((place, event), before) in commit.places(partition.no).zip(before) {
            let history = known.history.of(event.member.as_str()).iter().cloned();
            let history: Vec<_> = history.chain([(place, event.clone())]).collect();
            let after = self.entries(known, &event.member, &history, &rolls)?;
            gather(&mut changed, changes(before, after));
        }
        let mut writes = Writes::default();
        let keys = partition.store.keys();
        for change in changed.values() {
            writes.change(keys, partition.no, change);
            mark_new(&mut writes, partition, self.board, &change.id, &rolls)?;
        }
        if let (Some((bucket, field)), Some(value), Amendment::Void(target)) =
            (known.seen_in(partition.dedup), &tail.seen, self.amendment)
            && known.is_seen_as(value, partition.no, target)?
        {
            writes.forget_seen(&keys.seen(partition.no, bucket), &field);
        }
        Ok(Proposal { commit: Some((commit, writes)), ..nothing })
    }

    /// A removal of each member that has entries.
    fn removals(&self, known: &KnownHistory, rolls: &Rolls) -> ranking::Result<Planned> {
        let (mut events, mut count, mut looked_at) = (vec![], 0, 0);
        for member in self.members {
            let entries = self.entries(known, member, known.history.of(member.as_str()), rolls)?;
            count += entries.len();
            if count > ENTRIES_MAX && looked_at > 0 {
                break;
            }
            looked_at += 1;
            if !entries.is_empty() {
                events.push((self.event(member, EventKind::Removal), entries));
            }
        }
        let amended = if events.is_empty() { Amended::Nothing } else { Amended::Done };
        Ok(Planned { amended, events, looked_at })
    }

    /// The void of an event of the only member.
    fn void(
        &self,
        known: &KnownHistory,
        target: EventPlace,
        rolls: &Rolls,
    ) -> ranking::Result<Planned> {
        let [member] = self.members else {
            return Ok(Planned::nothing(Amended::NoSuchEvent));
        };
        let events = known.history.of(member.as_str());
        let event = events.iter().find(|(place, _)| *place == target);
        if event.is_none_or(|(_, event)| matches!(event.kind, EventKind::Void { .. })) {
            return Ok(Planned::nothing(Amended::NoSuchEvent));
        }
        if voided(events).contains(&target) {
            return Ok(Planned::nothing(Amended::Nothing));
        }
        if !known.refused.contains(&target) {
            self.check_unarchived(known, member, target)?;
        }
        let before = self.entries(known, member, events, rolls)?;
        let event = self.event(member, EventKind::Void { target });
        Ok(Planned { amended: Amended::Done, events: vec![(event, before)], looked_at: 1 })
    }

    fn event(&self, member: &MemberId, kind: EventKind) -> Event {
        Event {
            board: self.board.no,
            generation: self.board.generation,
            member: member.clone(),
            kind,
            event_id: None,
            segments: vec![],
            metadata: None,
        }
    }

    /// The entries in Redis that follow from a member's history.
    fn entries(
        &self,
        known: &KnownHistory,
        member: &MemberId,
        events: &[(EventPlace, Event)],
        rolls: &Rolls,
    ) -> ranking::Result<Entries> {
        let sealed = self.sealing_before_ms.iter().copied();
        let archived = known.archived_of(member);
        let replay = replayed(self.board, member, archived, events, rolls, sealed)?;
        let changes = replay.changes()?.into_iter();
        Ok(changes.map(|change| (change.id.clone(), change)).collect())
    }
}

/// Folds a member's history: the sums of its archived events in `all`, then its events. Periods
/// that are being sealed are skipped.
pub(crate) fn replayed<'a>(
    board: &Board,
    member: &MemberId,
    archived: impl IntoIterator<Item = &'a archived_entry::Model>,
    events: &[(EventPlace, Event)],
    rolls: &Rolls,
    sealing_before_ms: impl IntoIterator<Item = ((BoardNo, Window), i64)>,
) -> ranking::Result<Replay> {
    let replay = Replay::without(voided(events), rolls.now_ms).rolled(board.no, rolls.clone());
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

/// The events that a history voids.
fn voided(events: &[(EventPlace, Event)]) -> HashSet<EventPlace> {
    let target = |(_, event): &(EventPlace, Event)| match event.kind {
        EventKind::Void { target } => Some(target),
        _ => None,
    };
    events.iter().filter_map(target).collect()
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
fn changes(mut before: Entries, after: Entries) -> Vec<StandingsChange> {
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
fn gather(changed: &mut Entries, changes: Vec<StandingsChange>) {
    for mut change in changes {
        match changed.entry(change.id.clone()) {
            Entry::Vacant(first) => {
                first.insert(change);
            }
            Entry::Occupied(known) => known.into_mut().entries.append(&mut change.entries),
        }
    }
}
