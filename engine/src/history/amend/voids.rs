//! Voids of events in one commit.

use std::collections::HashMap;
use std::collections::btree_map::Entry;

use ranking::commit::{Commit, Event, EventKind, EventPlace, voided};
use ranking::id::MemberId;
use ranking::merge::MemberMark;
use ranking::store::log::Tail;
use ranking::store::write::Writes;
use ranking::window::roll::Rolls;

use super::bans::is_of_ban;
use super::known::KnownHistory;
use super::planned::{ENTRIES_MAX, Planned};
use super::{Amended, Amending, By};
use crate::partition::Partition;

/// Events to be voided, of members of one partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voids<'a> {
    /// The members, each once.
    pub(super) members: &'a [MemberId],
    /// The members' events.
    pub(super) targets: &'a [(MemberId, EventPlace)],
    /// True unless a client chose one event.
    pub(super) is_of_many: bool,
}

impl<'a> Voids<'a> {
    /// One event.
    pub(crate) fn of_one(target: &'a [(MemberId, EventPlace); 1]) -> Self {
        Self { members: std::slice::from_ref(&target[0].0), targets: target, is_of_many: false }
    }

    /// Several events; `members` has their members, each once.
    pub(crate) fn of(members: &'a [MemberId], targets: &'a [(MemberId, EventPlace)]) -> Self {
        Self { members, targets, is_of_many: true }
    }
}

impl Amending<'_> {
    /// Voids of events. Those are left out that are voided or voids themselves, that the history
    /// does not have, and those of a member that was merged into another one. The result is that of
    /// the last event.
    pub(super) fn voids(
        &self,
        known: &KnownHistory,
        of: Voids<'_>,
        marks: &[MemberMark],
        rolls: &Rolls,
    ) -> ranking::Result<Planned> {
        let histories = || of.members.iter().flat_map(|member| known.history.of(member.as_str()));
        let events: HashMap<EventPlace, &Event> =
            histories().map(|(place, event)| (*place, event)).collect();
        let mut gone = voided(histories());
        let marked = of.members.iter().zip(marks);
        for (member, _) in marked.filter(|(_, mark)| matches!(mark, MemberMark::Merged(_))) {
            gone.extend(known.history.of(member.as_str()).iter().map(|(place, _)| *place));
        }
        let mut planned = Planned { looked_at: 0, ..Planned::nothing(Amended::Nothing) };
        let mut count = 0;
        for (member, target) in of.targets {
            let event = events.get(target).filter(|event| event.member == *member);
            planned.amended = match event {
                None => Amended::NoSuchEvent,
                Some(event) if matches!(event.kind, EventKind::Void { .. }) => Amended::NoSuchEvent,
                Some(_) if gone.contains(target) => Amended::Nothing,
                Some(event) => {
                    self.check_voidable(known, event, *target).map(|()| Amended::Done)?
                }
            };
            if planned.amended == Amended::Done {
                if let Entry::Vacant(place) = planned.before.entry(member.clone()) {
                    let history = known.history.of(member.as_str());
                    let before = self.entries(known, member, history, rolls)?;
                    count += before.len();
                    if count > ENTRIES_MAX && planned.looked_at > 0 {
                        break;
                    }
                    place.insert(before);
                }
                planned.events.push(self.event(member, EventKind::Void { target: *target }));
            }
            planned.looked_at += 1;
        }
        Ok(planned)
    }

    /// Checks that an event that counts can be voided.
    fn check_voidable(
        &self,
        known: &KnownHistory,
        event: &Event,
        target: EventPlace,
    ) -> ranking::Result<()> {
        if self.by == By::Client && is_of_ban(event) {
            return Err(ranking::Error::Invalid(
                "this removal is part of a ban: expected liftBan, or another event".to_owned(),
            ));
        }
        if known.refused.contains(&target) {
            return Ok(());
        }
        self.check_unarchived(known, &event.member, target)
    }

    /// Forgets the event ids of the events that a commit voids, so that they may be sent again.
    pub(super) fn forget_seen(
        &self,
        writes: &mut Writes,
        partition: Partition<'_>,
        tail: &Tail,
        known: &KnownHistory,
        commit: &Commit,
    ) -> ranking::Result<()> {
        for (seen, value) in known.seen.iter().zip(&tail.seen) {
            let kind = EventKind::Void { target: seen.target };
            let is_voided = commit.events.iter().any(|event| event.kind == kind);
            let Some(value) = value.as_ref().filter(|_| is_voided) else { continue };
            if seen.is_seen_as(value, partition.no)? {
                let key = partition.store.keys().seen(partition.no, seen.bucket(partition.dedup));
                writes.forget_seen(&key, &seen.field);
            }
        }
        Ok(())
    }
}
