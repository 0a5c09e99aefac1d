//! The events of an amendment, planned on a history: those of removals.

use std::collections::BTreeMap;

use ranking::commit::{Event, EventKind};
use ranking::id::{EventId, MemberId};
use ranking::window::roll::Rolls;

use super::entries::Entries;
use super::known::KnownHistory;
use super::{Amended, Amending, Plan};
use entity::member::ban::REMOVAL_ID;

/// The most entries that one commit takes away, unless a single member has more.
pub(super) const ENTRIES_MAX: usize = 20_000;

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

    /// An event of a member without an id.
    pub(super) fn event(&self, member: &MemberId, kind: EventKind) -> Event {
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
