//! Amendments: removing a member from a board, or voiding one of its events. Both are events
//! themselves.
//!
//! The member's entries are folded again from its history, up to exactly the head that the commit
//! builds on. Nothing is subtracted.

mod known;
mod unarchived;

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
use tokio::time::{Duration, Instant};

use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::change::Proposal;
use crate::partition::follow::{Follower, Marks};
use crate::roll::mark_new;
use entity::archive::archived_entry;
use entity::board;
use entity::error::Result;
use entity::history::{dead_letter, log_cursor, score_event};
use known::MemberHistory;

/// The time limit for the void of an event that SQL refused; the next round tries again.
const VOID_TIMEOUT: Duration = Duration::from_secs(5);

/// The kinds of amendment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amendment {
    /// Takes back all that the member has on the board.
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
    let mut amending = Amending {
        board: board.clone(),
        member: member.clone(),
        amendment,
        known: None,
        sealing_before_ms: vec![],
        archived_before_ms: None,
    };
    let done = partition.commit_with_retry(&mut amending, deadline).await?;
    if done.commit.is_some()
        && let Err(error) = partition.settle().await
    {
        // The amendment stands; readers of the history may just not see it yet.
        tracing::debug!(%partition, %error, "an amendment waits for the database");
    }
    Ok(done.outcome)
}

/// Voids the events that SQL refused, so that they no longer count. Their clients were told of the
/// refusal. A partition that takes no commit is tried once, and holds up no other.
pub async fn void_dead_letters(deployment: &Deployment) -> Result<()> {
    let mut waiting = HashSet::new();
    for letter in dead_letter::pending(&deployment.db, None).await? {
        if waiting.contains(&letter.partition) {
            continue;
        }
        if let Err(error) = void_dead_letter(deployment, &letter).await {
            if error.is_transient() {
                waiting.insert(letter.partition);
            }
            tracing::debug!(partition = letter.partition, seq = letter.seq, %error, "a dead letter cannot be voided yet");
        }
    }
    Ok(())
}

async fn void_dead_letter(deployment: &Deployment, letter: &dead_letter::Model) -> Result<()> {
    let (place, event) = letter.event()?;
    let boards = board::some(&deployment.db, [event.board].into()).await?;
    if let Some(board) = boards.get(&event.board) {
        let deadline = Instant::now() + VOID_TIMEOUT;
        let void = Amendment::Void(place);
        amend(deployment, board, &event.member, void, deadline).await?;
    }
    Ok(())
}

struct Amending {
    board: Board,
    member: MemberId,
    amendment: Amendment,
    known: Option<MemberHistory>,
    /// The instants before which periods of a window are sealed, by the partition's marks.
    sealing_before_ms: Vec<((BoardNo, Window), i64)>,
    /// The instant before which scores of the partition are archived or being archived.
    archived_before_ms: Option<i64>,
}

impl Follower for Amending {
    type Outcome = Proposal<Amended>;

    fn cursor(&self) -> Option<log_cursor::Model> {
        self.known.as_ref().map(|known| known.history.cursor.clone())
    }

    fn marks(&self, partition: Partition<'_>) -> Marks {
        let seen = self.known.as_ref().and_then(|known| known.seen_in(partition.dedup));
        Marks { board: self.board.no, seals: seal_names(&self.board), seen }
    }

    async fn read_sql(
        &mut self,
        partition: Partition<'_>,
    ) -> Result<ControlFlow<Proposal<Amended>>> {
        self.known = match self.known.take() {
            None => Some(self.read(partition).await?),
            Some(known) => {
                let of_member = score_event::of_member(self.board.no, self.member.as_str());
                let history = known.history.advance(partition, of_member).await?;
                history.map(|history| MemberHistory { history, ..known })
            }
        };
        Ok(ControlFlow::Continue(()))
    }

    async fn take_tail(
        &mut self,
        partition: Partition<'_>,
        tail: Tail,
        _: usize,
    ) -> Result<ControlFlow<Proposal<Amended>>> {
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
        tail.board.check(&self.board)?;
        known.history.extend(partition, &self.board, &tail.commits);
        let seen = known.seen_in(partition.dedup);
        let forget = match (&seen, &tail.seen, self.amendment) {
            (Some(seen), Some(value), Amendment::Void(target))
                if known.is_seen_as(value, partition.no, target)? =>
            {
                Some(seen)
            }
            _ => None,
        };
        // The persister corrects sealed entries.
        let seals = seal_names(&self.board);
        let marks = seals.iter().zip(&tail.seals);
        self.sealing_before_ms =
            marks.map(|(name, mark)| ((name.board, name.window), mark.sealing_before_ms)).collect();
        let proposal = self.fold(partition, &tail, &known, forget)?;
        self.known = Some(known);
        Ok(ControlFlow::Break(proposal))
    }
}

impl Amending {
    /// Folds the amendment onto a history that ends at the head of `tail`.
    fn fold(
        &self,
        partition: Partition<'_>,
        tail: &Tail,
        known: &MemberHistory,
        forget: Option<&(i64, String)>,
    ) -> Result<Proposal<Amended>> {
        let now_ms = partition.clock.now_ms();
        let rolls = Rolls { marks: tail.rolls.clone(), now_ms };
        let nothing = |outcome: Amended| Proposal::onto(tail, outcome);
        let events = known.history.of(self.member.as_str());
        let before = self.entries(&known.archived, events, &rolls)?;
        let kind = match self.amendment {
            Amendment::Removal if before.is_empty() => return Ok(nothing(Amended::Nothing)),
            Amendment::Removal => EventKind::Removal,
            Amendment::Void(target) => {
                let event = events.iter().find(|(place, _)| *place == target);
                if event.is_none_or(|(_, event)| matches!(event.kind, EventKind::Void { .. })) {
                    return Ok(nothing(Amended::NoSuchEvent));
                }
                if voided(events).contains(&target) {
                    return Ok(nothing(Amended::Nothing));
                }
                if !known.refused.contains(&target) {
                    self.check_unarchived(known, target)?;
                }
                EventKind::Void { target }
            }
        };
        let event = Event {
            board: self.board.no,
            generation: self.board.generation,
            member: self.member.clone(),
            kind,
            event_id: None,
            segments: vec![],
            metadata: None,
        };
        let commit = tail.head.next(rand::random(), now_ms, vec![event.clone()]);
        let place = EventPlace { partition: partition.no, seq: commit.seq, index: 0 };
        let events: Vec<_> = events.iter().cloned().chain([(place, event)]).collect();
        let after = self.entries(&known.archived, &events, &rolls)?;
        let mut writes = Writes::default();
        let keys = partition.store.keys();
        for change in changes(before, after) {
            writes.change(keys, partition.no, &change);
            mark_new(&mut writes, partition, &self.board, &change.id, &rolls)?;
        }
        if let Some((bucket, field)) = forget {
            writes.forget_seen(&keys.seen(partition.no, *bucket), field);
        }
        Ok(Proposal { commit: Some((commit, writes)), ..nothing(Amended::Done) })
    }
}

impl Amending {
    /// The entries in Redis that follow from a member's history, by standings.
    fn entries(
        &self,
        archived: &[archived_entry::Model],
        events: &[(EventPlace, Event)],
        rolls: &Rolls,
    ) -> ranking::Result<BTreeMap<StandingsId, StandingsChange>> {
        let sealed = self.sealing_before_ms.iter().copied();
        let replay = replayed(&self.board, &self.member, archived, events, rolls, sealed)?;
        let changes = replay.changes()?.into_iter();
        Ok(changes.map(|change| (change.id.clone(), change)).collect())
    }
}

/// Folds a member's history: the sums of its archived events in `all`, then its events. Periods
/// that are being sealed are skipped.
pub(crate) fn replayed(
    board: &Board,
    member: &MemberId,
    archived: &[archived_entry::Model],
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
fn changes(
    mut before: BTreeMap<StandingsId, StandingsChange>,
    after: BTreeMap<StandingsId, StandingsChange>,
) -> Vec<StandingsChange> {
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
