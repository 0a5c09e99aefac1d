//! The history of members on a board, as an amendment reads it.

use std::collections::{BTreeMap, HashSet};

use ranking::board::Board;
use ranking::commit::{Event, EventPlace};
use ranking::id::{MemberId, PartitionNo};
use ranking::store::write::Dedup;
use ranking::submission::event_ids::{ELSEWHERE, seen_field, seen_is_of};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, QueryFilter};

use super::voids::Voids;
use super::{Amending, Plan};
use crate::partition::Partition;
use crate::partition::members_history::MembersHistory;
use entity::archive::{archive_mark, archived_entry};
use entity::error::Result;
use entity::history::{commit, dead_letter, score_event};

/// The history of members on a board, up to a commit.
pub(super) struct KnownHistory {
    /// The events after the archived ones.
    pub(super) history: MembersHistory,
    /// The archive mark of the partition's history.
    pub(super) mark: archive_mark::Model,
    /// The sums of the archived events in `all`, by member and segment.
    pub(super) archived: BTreeMap<(String, String), archived_entry::Model>,
    /// Those events that SQL refused.
    pub(super) refused: HashSet<EventPlace>,
    /// The origins of copies that SQL refused, voided or not; only for copies.
    pub(super) refused_origins: HashSet<EventPlace>,
    /// The event ids of the events to be voided.
    pub(super) seen: Vec<SeenEvent>,
}

/// The event id of an event to be voided.
pub(super) struct SeenEvent {
    /// The event.
    pub(super) target: EventPlace,
    /// The times of its commit.
    times: commit::Times,
    /// The field of its event id in the seen hashes.
    pub(super) field: String,
}

impl Amending<'_> {
    /// Reads the history that SQL has, with the cursor that it reaches to.
    pub(super) async fn read(&self, partition: Partition<'_>) -> Result<KnownHistory> {
        let db = &partition.db;
        let cursor = partition.settled_cursor().await?;
        let mark = partition.archive_mark(self.board.no).await?;
        let keys = || self.plan.members().iter().map(MemberId::as_str);
        let archived = archived_entry::of_members(db, &mark, keys()).await?;
        use score_event::Column::{Partition as In, Seq};
        let here = Condition::all()
            .add(In.eq(cursor.partition))
            .add(Seq.gt(mark.archived_seq))
            .add(Seq.lte(cursor.seq));
        // Events of former layouts are in SQL, and no more are added to them.
        let before = self.board.has_moved().then(|| In.ne(cursor.partition));
        let rows = score_event::of_members(self.board, keys())
            .filter(Condition::any().add(here).add_option(before));
        let events = keys().map(|member| (member.to_owned(), vec![])).collect();
        let mut history = MembersHistory { cursor, events };
        history.add(db, rows).await?;
        // Refused events count in Redis until they are voided.
        let mut refused = HashSet::new();
        for letter in dead_letter::pending(db, Some(partition.no)).await? {
            let (place, event) = letter.event()?;
            let is_known = place.seq <= history.cursor.seq as u64 && event.board == self.board.no;
            if let Some(events) = history.events.get_mut(event.member.as_str()).filter(|_| is_known)
            {
                events.push((place, event));
                refused.insert(place);
            }
        }
        let layout = |event: &Event| self.board.layout_of(event.generation);
        for events in history.events.values_mut() {
            events.sort_by_key(|(place, event)| (layout(event), place.seq, place.index));
        }
        let seen = match self.plan {
            Plan::Voids(of) => seen_events(db, self.board, of, &history).await?,
            _ => vec![],
        };
        let mut refused_origins = HashSet::new();
        if let Plan::Copies(of) = self.plan {
            let letters = dead_letter::of_board(db, partition.no, self.board.no).await?;
            let of_target = letters.iter().filter(|(_, event)| event.member == *of.target);
            refused_origins.extend(of_target.filter_map(|(_, event)| event.origin));
        }
        Ok(KnownHistory { history, mark, archived, refused, refused_origins, seen })
    }
}

/// The event ids of events to be voided. A SELECT for each partition that has some of their
/// commits: most have one.
async fn seen_events(
    db: &impl ConnectionTrait,
    board: &Board,
    of: Voids<'_>,
    history: &MembersHistory,
) -> Result<Vec<SeenEvent>> {
    let targets: HashSet<EventPlace> = of.targets.iter().map(|(_, target)| *target).collect();
    let events = of.members.iter().flat_map(|member| history.of(member.as_str()));
    let mut by_partition: BTreeMap<i32, Vec<(EventPlace, String)>> = BTreeMap::new();
    for (place, event) in events.filter(|(place, _)| targets.contains(place)) {
        if let Some(event_id) = &event.event_id {
            let field = seen_field(board.no, &event.member, event_id);
            by_partition.entry(place.partition.into()).or_default().push((*place, field));
        }
    }
    let mut seen = vec![];
    for (partition, fields) in by_partition {
        let seqs = fields.iter().map(|(place, _)| place.seq as i64).collect();
        let times = commit::times_of_seqs(db, partition, seqs).await?;
        seen.extend(fields.into_iter().filter_map(|(target, field)| {
            let times = *times.get(&(target.seq as i64))?;
            Some(SeenEvent { target, times, field })
        }));
    }
    Ok(seen)
}

impl KnownHistory {
    /// The sums of a member's archived events, by segment.
    pub(super) fn archived_of(
        &self,
        member: &MemberId,
    ) -> impl Iterator<Item = &archived_entry::Model> {
        self.archived.values().filter(|row| row.member == member.as_str())
    }
}

impl SeenEvent {
    /// The bucket of the event id.
    pub(super) fn bucket(&self, dedup: Dedup) -> i64 {
        dedup.bucket(self.times.clock_ms)
    }

    /// True if the event id that a partition remembers is that of the event.
    pub(super) fn is_seen_as(&self, value: &str, partition: PartitionNo) -> ranking::Result<bool> {
        let is_here = self.target.partition == partition;
        let seq = if is_here { self.target.seq } else { ELSEWHERE };
        seen_is_of(value, seq, self.times.accepted_at_ms)
    }
}
