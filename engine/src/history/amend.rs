//! Amendments: removing members from a board, or voiding one of a member's events. Both are events
//! themselves.
//!
//! The members' entries are folded again from their history, up to exactly the head that the commit
//! builds on. Nothing is subtracted.

mod bans;
mod copies;
mod dead_letters;
mod entries;
mod known;
mod planned;
mod unarchived;
mod voids;

use std::ops::ControlFlow;

use ranking::board::Board;
use ranking::commit::{Event, EventPlace};
use ranking::id::{BoardNo, MemberId};
use ranking::merge::MemberMark;
use ranking::store::log::Tail;
use ranking::store::write::Writes;
use ranking::window::Window;
use ranking::window::roll::Rolls;
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::change::Proposal;
use crate::partition::follow::{Follower, Marks};
use crate::roll::mark_new;
use entity::board;
use entity::error::Result;
use entity::history::{log_cursor, score_event};

pub(crate) use bans::counting_ban_removals;
use copies::remember;
pub(crate) use copies::{copy_all, counting};
pub use dead_letters::void_dead_letters;
use entries::{Entries, changes, gather};
pub(crate) use entries::{replayed, seal_names};
use known::KnownHistory;
use planned::Planned;
pub(crate) use voids::Voids;

/// The kinds of amendment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amendment {
    /// Takes back all that the members have on the board.
    Removal,
    /// Takes back one event, a score or a removal, as if it had never been.
    Void(EventPlace),
}

/// The changes of histories in one commit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan<'a> {
    /// A removal of each of these members that has entries.
    Removal(&'a [MemberId]),
    /// Voids of events.
    Voids(Voids<'a>),
    /// Copies of a merged member's scores, as far as the target's history lacks them.
    Copies(Merge<'a>),
    /// As [`Self::Copies`], and writes nothing: checks that all of them fit.
    Check(Merge<'a>),
    /// The removal of a banned member that has entries, while its bans have this version.
    Ban { member: &'a MemberId, version: i64 },
    /// The void of such a removal.
    Lift { of: Voids<'a>, version: i64 },
}

impl<'a> Plan<'a> {
    /// The members whose histories it changes, all of one partition.
    fn members(self) -> &'a [MemberId] {
        match self {
            Self::Removal(members) => members,
            Self::Voids(of) | Self::Lift { of, .. } => of.members,
            Self::Ban { member, .. } => std::slice::from_ref(member),
            Self::Copies(of) | Self::Check(of) => std::slice::from_ref(of.target),
        }
    }

    /// True if a client did not choose one member or one event.
    fn is_of_many(self) -> bool {
        match self {
            Self::Removal(members) => members.len() > 1,
            Self::Voids(of) => of.is_of_many,
            _ => false,
        }
    }
}

/// The scores of a member that is being merged, on a board.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merge<'a> {
    /// The member.
    pub(crate) source: &'a MemberId,
    /// The member that it is merged into.
    pub(crate) target: &'a MemberId,
    /// The source's scores that count, in order.
    pub(crate) scores: &'a [(EventPlace, Event)],
}

/// The origin of an amendment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A client, who must wait while a member is being merged.
    Client,
    /// A merge, a ban, or the void of an event that SQL refused.
    Upkeep,
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
    /// The number of members, or of events to be voided, that were looked at, in the order given;
    /// another commit is needed for the others.
    pub(crate) looked_at: usize,
    /// The number of events of the amendment.
    pub(crate) events: usize,
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
    let plan = match amendment {
        Amendment::Removal => Plan::Removal(std::slice::from_ref(member)),
        Amendment::Void(target) => {
            let targets = [(member.clone(), target)];
            let plan = Plan::Voids(Voids::of_one(&targets));
            return amend_one((partition, board), plan, By::Client, deadline).await;
        }
    };
    amend_one((partition, board), plan, By::Client, deadline).await
}

/// As [`amend`].
async fn amend_one(
    (partition, board): (Partition<'_>, &Board),
    plan: Plan<'_>,
    by: By,
    deadline: Instant,
) -> Result<Amended> {
    let done = amend_members((partition, board), plan, by, deadline).await?;
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
    (partition, board): (Partition<'_>, &Board),
    plan: Plan<'_>,
    by: By,
    deadline: Instant,
) -> Result<AmendedMembers> {
    let mut amending = Amending::new(board, plan, by);
    Ok(partition.commit_with_retry(&mut amending, deadline).await?.outcome)
}

struct Amending<'a> {
    board: &'a Board,
    plan: Plan<'a>,
    by: By,
    known: Option<KnownHistory>,
    /// The instants before which periods of a window are sealed, by the partition's marks.
    sealing_before_ms: Vec<((BoardNo, Window), i64)>,
    /// The instant before which scores of the partition are archived or being archived.
    archived_before_ms: Option<i64>,
}

impl Follower for Amending<'_> {
    type Outcome = Proposal<AmendedMembers>;

    fn cursor(&self) -> Option<log_cursor::Model> {
        self.known.as_ref().map(|known| known.history.cursor.clone())
    }

    fn marks(&self, partition: Partition<'_>) -> Marks {
        let seen = self.known.iter().flat_map(|known| &known.seen);
        let seen = seen.map(|of| (of.bucket(partition.dedup), of.field.clone())).collect();
        let members = self.plan.members().to_vec();
        Marks { board: self.board.no, seals: seal_names(self.board), members, seen }
    }

    async fn read_sql(&mut self, partition: Partition<'_>) -> Result<ControlFlow<Self::Outcome>> {
        self.known = match self.known.take() {
            None => Some(self.read(partition).await?),
            Some(known) => {
                let keys = self.plan.members().iter().map(MemberId::as_str);
                let of_members = score_event::of_members(self.board, keys);
                let since = known.history.cursor.seq;
                let history = known.history.advance(partition, of_members).await?;
                match self.has_refused(partition, since).await? {
                    true => None,
                    false => history.map(|history| KnownHistory { history, ..known }),
                }
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
        match self.by {
            By::Client => tail.members.iter().try_for_each(|mark| match mark {
                // One of many that was merged has nothing to take back.
                MemberMark::Merged(_) if self.plan.is_of_many() => Ok(()),
                mark => mark.check(),
            })?,
            By::Upkeep => {
                self.check_step(partition).await?;
                self.check_ban(partition).await?;
            }
        }
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

impl<'a> Amending<'a> {
    fn new(board: &'a Board, plan: Plan<'a>, by: By) -> Self {
        let sealing_before_ms = vec![];
        Self { board, plan, by, known: None, sealing_before_ms, archived_before_ms: None }
    }

    /// Folds the amendment onto a history that ends at the head of `tail`.
    fn fold(
        &self,
        partition: Partition<'_>,
        tail: &Tail,
        known: &KnownHistory,
    ) -> Result<Proposal<AmendedMembers>> {
        let now_ms = partition.clock.now_ms();
        let rolls = Rolls { marks: tail.rolls.clone(), now_ms };
        let Planned { amended, events, before, looked_at } = match self.plan {
            Plan::Removal(members) => self.removals(known, members, &rolls)?,
            Plan::Voids(of) | Plan::Lift { of, .. } => {
                self.voids(known, of, &tail.members, &rolls)?
            }
            Plan::Ban { member, .. } => {
                self.removals(known, std::slice::from_ref(member), &rolls)?
            }
            Plan::Copies(merge) => self.copies(known, merge, &rolls)?,
            Plan::Check(merge) => self.check_copies(known, merge, &rolls)?,
        };
        let members = before.keys().cloned().collect();
        let outcome = AmendedMembers { amended, members, looked_at, events: events.len() };
        let nothing = Proposal::onto(tail, outcome);
        if events.is_empty() {
            return Ok(nothing);
        }
        let commit = tail.head.next(rand::random(), now_ms, events);
        let mut changed = Entries::new();
        for (member, before) in before {
            let new = commit.places(partition.no).filter(|(_, event)| event.member == member);
            let new: Vec<_> = new.map(|(place, event)| (place, event.clone())).collect();
            let history = known.history.of(member.as_str()).iter().chain(&new);
            let after = self.entries(known, &member, history, &rolls)?;
            gather(&mut changed, changes(before, after));
        }
        let mut writes = Writes::default();
        let keys = partition.store.keys();
        for change in changed.values() {
            writes.change(keys, partition.no, change);
            mark_new(&mut writes, partition, self.board, &change.id, &rolls)?;
        }
        if let Plan::Copies(_) = self.plan {
            remember(&mut writes, partition, &commit);
        }
        self.forget_seen(&mut writes, partition, tail, known, &commit)?;
        Ok(Proposal { commit: Some((commit, writes)), ..nothing })
    }

    /// The entries in Redis that follow from a member's history.
    fn entries<'e>(
        &self,
        known: &'e KnownHistory,
        member: &'e MemberId,
        events: impl IntoIterator<Item = &'e (EventPlace, Event)> + Clone,
        rolls: &Rolls,
    ) -> ranking::Result<Entries> {
        let sealed = self.sealing_before_ms.iter().copied();
        let archived = known.archived_of(member);
        let replay = replayed(self.board, member, archived, events, rolls, sealed)?;
        let changes = replay.changes()?.into_iter();
        Ok(changes.map(|change| (change.id.clone(), change)).collect())
    }
}
