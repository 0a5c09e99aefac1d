//! The history of members on a board, read up to a commit of a partition.

use std::collections::BTreeMap;

use ranking::board::Board;
use ranking::commit::{Commit, Event, EventPlace};
use sea_orm::{ColumnTrait, QueryFilter, Select};

use crate::partition::Partition;
use entity::error::Result;
use entity::history::{log_cursor, score_event};

/// The history of members on a board, up to a commit.
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

    /// Adds events that SQL has.
    pub(crate) fn add(&mut self, rows: &[score_event::Model]) -> Result<()> {
        for row in rows {
            let events = self.events.entry(row.member.clone()).or_default();
            events.push((row.place()?, row.to_ranking()?));
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
        let rows = events
            .filter(score_event::Column::Partition.eq(now.partition))
            .filter(score_event::Column::Seq.gt(self.cursor.seq))
            .filter(score_event::Column::Seq.lte(now.seq))
            .all(&partition.db)
            .await?;
        self.add(&rows)?;
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
                    events.push((place, event.clone()));
                    count += 1;
                }
            }
            self.cursor.seq = commit.seq as i64;
            self.cursor.commit_id = commit.id.clone();
        }
        count
    }
}
