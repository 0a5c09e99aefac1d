//! The history of one member on a board, as an amendment reads it.

use std::collections::{BTreeMap, HashSet};

use ranking::commit::{Event, EventPlace};
use ranking::id::PartitionNo;
use ranking::store::write::Dedup;
use ranking::submission::event_ids::{ELSEWHERE, seen_field, seen_is_of};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter};

use super::{Amending, Amendment};
use crate::partition::Partition;
use crate::partition::members_history::MembersHistory;
use entity::archive::{archive_mark, archived_entry};
use entity::error::Result;
use entity::history::{commit, dead_letter, score_event};

/// A member's history on a board, up to a commit.
pub(super) struct MemberHistory {
    /// The events after the archived ones.
    pub(super) history: MembersHistory,
    /// The archive mark of the partition's history.
    pub(super) mark: archive_mark::Model,
    /// The sums of the archived events in `all`.
    pub(super) archived: Vec<archived_entry::Model>,
    /// Those events that SQL refused.
    pub(super) refused: HashSet<EventPlace>,
    /// The times of the event to be voided, and the field of its event id in the seen hashes.
    pub(super) seen: Option<(commit::Times, String)>,
}

impl Amending {
    /// Reads the history that SQL has, with the cursor that it reaches to.
    pub(super) async fn read(&self, partition: Partition<'_>) -> Result<MemberHistory> {
        let db = &partition.db;
        let cursor = partition.settled_cursor().await?;
        let mark = partition.archive_mark(self.board.no).await?;
        let archived = archived_entry::of_members(db, &mark, [self.member.as_str()]).await?;
        use score_event::Column::{Partition as In, Seq};
        let here = Condition::all()
            .add(In.eq(cursor.partition))
            .add(Seq.gt(mark.archived_seq))
            .add(Seq.lte(cursor.seq));
        // Events of former layouts are in SQL, and no more are added to them.
        let before = self.board.has_moved().then(|| In.ne(cursor.partition));
        let rows = score_event::history_of(&self.board, self.member.as_str())
            .filter(Condition::any().add(here).add_option(before))
            .all(db)
            .await?;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            events.push((row.place()?, row.to_ranking()?));
        }
        // Refused events count in Redis until they are voided.
        let mut refused = HashSet::new();
        for letter in dead_letter::pending(db, Some(partition.no)).await? {
            let (place, event) = letter.event()?;
            let is_known = place.seq <= cursor.seq as u64;
            if is_known && (event.board, &event.member) == (self.board.no, &self.member) {
                events.push((place, event));
                refused.insert(place);
            }
        }
        let layout = |event: &Event| self.board.layout_of(event.generation);
        events.sort_by_key(|(place, event)| (layout(event), place.seq, place.index));
        let mut seen = None;
        if let Amendment::Void(target) = self.amendment
            && let Some((_, event)) = events.iter().find(|(place, _)| *place == target)
            && let Some(event_id) = &event.event_id
        {
            let of_target = (i32::from(target.partition), target.seq as i64);
            let row = commit::Entity::find_by_id(of_target).one(db).await?;
            let field = seen_field(self.board.no, &self.member, event_id);
            seen = row.map(|row| (row.times(), field));
        }
        let events = BTreeMap::from([(self.member.to_string(), events)]);
        let history = MembersHistory { cursor, events };
        let archived = archived.into_values().collect();
        Ok(MemberHistory { history, mark, archived, refused, seen })
    }
}

impl MemberHistory {
    /// The bucket and field of the event id of the event to be voided.
    pub(super) fn seen_in(&self, dedup: Dedup) -> Option<(i64, String)> {
        let (times, field) = self.seen.as_ref()?;
        Some((dedup.bucket(times.clock_ms), field.clone()))
    }

    /// True if the event id that a partition remembers is that of the event to be voided.
    pub(super) fn is_seen_as(
        &self,
        value: &str,
        partition: PartitionNo,
        target: EventPlace,
    ) -> ranking::Result<bool> {
        let accepted_at_ms = self.seen.as_ref().map_or(0, |(times, _)| times.accepted_at_ms);
        let is_here = target.partition == partition;
        let seq = if is_here { target.seq } else { ELSEWHERE };
        seen_is_of(value, seq, accepted_at_ms)
    }
}
