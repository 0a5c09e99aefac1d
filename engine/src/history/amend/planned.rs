//! The events of removals and voids, planned on a history.

use std::collections::BTreeMap;

use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::{EventId, MemberId};
use ranking::window::roll::Rolls;

use super::bans::is_of_ban;
use super::entries::{Entries, voided};
use super::known::KnownHistory;
use super::{Amended, Amending, By, Plan};
use entity::member::ban::REMOVAL_ID;

/// The most entries that one commit takes away, unless a single member has more.
const ENTRIES_MAX: usize = 20_000;

/// The events of an amendment.
pub(super) struct Planned {
    pub(super) amended: Amended,
    pub(super) events: Vec<Event>,
    /// The entries of their members before them.
    pub(super) before: BTreeMap<MemberId, Entries>,
    pub(super) looked_at: usize,
}

impl Planned {
    pub(super) fn nothing(amended: Amended) -> Self {
        Self { amended, events: vec![], before: BTreeMap::new(), looked_at: 1 }
    }
}

impl Amending<'_> {
    /// A removal of each member that has entries.
    pub(super) fn removals(
        &self,
        known: &KnownHistory,
        members: &[MemberId],
        rolls: &Rolls,
    ) -> ranking::Result<Planned> {
        let (mut events, mut before) = (vec![], BTreeMap::new());
        let (mut count, mut looked_at) = (0, 0);
        for member in members {
            let entries = self.entries(known, member, known.history.of(member.as_str()), rolls)?;
            count += entries.len();
            if count > ENTRIES_MAX && looked_at > 0 {
                break;
            }
            looked_at += 1;
            if !entries.is_empty() {
                let event_id = match self.plan {
                    Plan::Ban { .. } => Some(EventId::new(REMOVAL_ID)?),
                    _ => None,
                };
                events.push(Event { event_id, ..self.event(member, EventKind::Removal) });
                before.insert(member.clone(), entries);
            }
        }
        let amended = if events.is_empty() { Amended::Nothing } else { Amended::Done };
        Ok(Planned { amended, events, before, looked_at })
    }

    /// The void of an event of a member.
    pub(super) fn void(
        &self,
        known: &KnownHistory,
        member: &MemberId,
        target: EventPlace,
        rolls: &Rolls,
    ) -> ranking::Result<Planned> {
        let events = known.history.of(member.as_str());
        let event = events.iter().find(|(place, _)| *place == target);
        if event.is_none_or(|(_, event)| matches!(event.kind, EventKind::Void { .. })) {
            return Ok(Planned::nothing(Amended::NoSuchEvent));
        }
        if voided(events).contains(&target) {
            return Ok(Planned::nothing(Amended::Nothing));
        }
        if self.by == By::Client && event.is_some_and(|(_, event)| is_of_ban(event)) {
            return Err(ranking::Error::Invalid(
                "this removal is part of a ban: expected liftBan, or another event".to_owned(),
            ));
        }
        if !known.refused.contains(&target) {
            self.check_unarchived(known, member, target)?;
        }
        let before =
            BTreeMap::from([(member.clone(), self.entries(known, member, events, rolls)?)]);
        let events = vec![self.event(member, EventKind::Void { target })];
        Ok(Planned { events, before, ..Planned::nothing(Amended::Done) })
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
            origin: None,
        }
    }
}
