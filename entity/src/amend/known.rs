//! What is known of a member's history on a board while it is amended.

use std::collections::HashSet;

use ranking::board::Board;
use ranking::commit::{Commit, Event, EventPlace};
use ranking::id::{MemberId, Partition};
use ranking::seen::seen_field;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::{Amending, Amendment};
use crate::deployment::Deployment;
use crate::error::Result;
use crate::{archive_mark, archived_entry, commit, dead_letter, follow, log_cursor, score_event};

/// A member's history on a board, up to a commit.
pub(super) struct Known {
    pub(super) cursor: log_cursor::Model,
    /// How far the partition's history is archived.
    pub(super) mark: archive_mark::Model,
    /// What the archived part adds up to in `all`.
    pub(super) archived: Vec<archived_entry::Model>,
    /// What comes after it.
    pub(super) events: Vec<(EventPlace, Event)>,
    /// Those of them that SQL refused.
    pub(super) refused: HashSet<EventPlace>,
    /// The event id of what is voided: when it was accepted, and its field in the seen hashes.
    pub(super) seen: Option<(i64, String)>,
}

impl Amending {
    /// The history that SQL has, and the cursor that it reaches to.
    pub(super) async fn read(
        &self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Known> {
        let db = &deployment.db;
        let cursor = follow::present(deployment, partition).await?;
        let mark = archive_mark::of(db, self.board.no, partition).await?;
        let archived = archived_entry::of_members(db, &mark, [self.member.as_str()]).await?;
        let rows = score_event::of_member(self.board.no, self.member.as_str())
            .filter(score_event::Column::Partition.eq(cursor.partition))
            .filter(score_event::Column::Seq.gt(mark.archived_seq))
            .filter(score_event::Column::Seq.lte(cursor.seq))
            .all(db)
            .await?;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            events.push((row.place()?, row.to_ranking()?));
        }
        // What SQL refused counts in Redis until it is voided.
        let mut refused = HashSet::new();
        for letter in dead_letter::pending(db, Some(partition)).await? {
            let (place, event) = letter.event()?;
            let is_known = place.seq <= cursor.seq as u64;
            if is_known && (event.board, &event.member) == (self.board.no, &self.member) {
                events.push((place, event));
                refused.insert(place);
            }
        }
        events.sort_by_key(|(place, _)| (place.seq, place.index));
        let mut seen = None;
        if let Amendment::Void(target) = self.amendment
            && let Some((_, event)) = events.iter().find(|(place, _)| *place == target)
            && let Some(event_id) = &event.event_id
        {
            let of_target = (i32::from(target.partition.0), target.seq as i64);
            let row = commit::Entity::find_by_id(of_target).one(db).await?;
            let field = seen_field(self.board.no, &self.member, event_id);
            seen = row.map(|row| (row.accepted_at_ms, field));
        }
        Ok(Known {
            cursor,
            mark,
            archived: archived.into_values().collect(),
            events,
            refused,
            seen,
        })
    }
}

impl Known {
    pub(super) fn extend(
        &mut self,
        board: &Board,
        member: &MemberId,
        partition: Partition,
        commit: &Commit,
    ) {
        for (place, event) in commit.places(partition) {
            if (event.board, &event.member) == (board.no, member) {
                self.events.push((place, event.clone()));
            }
        }
        self.cursor.seq = commit.seq as i64;
        self.cursor.commit_id = commit.id.clone();
    }
}
