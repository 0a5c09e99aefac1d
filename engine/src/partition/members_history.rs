//! The history of members on a board, read up to a commit of a partition.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use ranking::board::Board;
use ranking::commit::{Commit, Event, EventPlace};
use sea_orm::{ColumnTrait, DatabaseConnection, QueryFilter, Select};

use crate::partition::Partition;
use entity::error::Result;
use entity::history::{log_cursor, score_event};

/// The history of members on a board, up to a commit. Its events are to be folded, so they have no
/// metadata, which may be long.
pub(crate) struct MembersHistory {
    /// The commit.
    pub cursor: log_cursor::Model,
    /// The events of each member, in order.
    pub events: BTreeMap<String, Vec<(EventPlace, Event)>>,
}

impl MembersHistory {
    /// The events of a member.
    pub(crate) fn of(&self, member: &str) -> &[(EventPlace, Event)] {
        self.events.get(member).map_or(&[], Vec::as_slice)
    }

    /// Adds the selected events that SQL has, in the order of the selection. The rows are read one
    /// by one: a row takes ten times the memory of its event.
    pub(crate) async fn add(
        &mut self,
        db: &DatabaseConnection,
        events: Select<score_event::Entity>,
    ) -> Result<()> {
        let mut rows = events.stream(db).await?;
        while let Some(row) = rows.try_next().await? {
            let event = Event { metadata: None, ..row.to_ranking()? };
            self.events.entry(row.member.clone()).or_default().push((row.place()?, event));
        }
        Ok(())
    }

    /// Adds the selected events that SQL got since, in the order of the selection. `None` if the
    /// history does not lead on from the commit.
    pub(crate) async fn advance(
        mut self,
        partition: Partition<'_>,
        events: Select<score_event::Entity>,
    ) -> Result<Option<Self>> {
        let Some(now) = partition.advance_cursor(&self.cursor).await? else {
            return Ok(None);
        };
        let since = events
            .filter(score_event::Column::Partition.eq(now.partition))
            .filter(score_event::Column::Seq.gt(self.cursor.seq))
            .filter(score_event::Column::Seq.lte(now.seq));
        self.add(&partition.db, since).await?;
        self.cursor = now;
        Ok(Some(self))
    }

    /// Adds the members' events in commits of the log. Returns their number.
    pub(crate) fn extend(
        &mut self,
        partition: Partition<'_>,
        board: &Board,
        commits: &[Commit],
    ) -> usize {
        let mut count = 0;
        for commit in commits {
            for (place, event) in commit.places(partition.no).filter(|(_, of)| of.board == board.no)
            {
                if let Some(events) = self.events.get_mut(event.member.as_str()) {
                    events.push((place, Event { metadata: None, ..event.clone() }));
                    count += 1;
                }
            }
            self.cursor.seq = commit.seq as i64;
            self.cursor.commit_id = commit.id.clone();
        }
        count
    }
}
