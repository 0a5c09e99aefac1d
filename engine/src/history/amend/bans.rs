//! Removals by bans, and their voids.

use ranking::board::Board;
use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::MemberId;
use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter};

use super::{Amending, Plan};
use crate::partition::Partition;
use entity::error::Result;
use entity::history::score_event::{self, Column, Kind};
use entity::member::ban::{self, REMOVAL_ID, Step};

impl Amending<'_> {
    /// Checks that the member's bans are still at the step of a plan. This is read after the head:
    /// who ends that step moves the head afterwards.
    pub(super) async fn check_ban(&self, partition: Partition<'_>) -> Result<()> {
        let (Plan::Ban { version, .. } | Plan::Lift { version, .. }) = self.plan else {
            return Ok(());
        };
        let [member] = self.plan.members() else { return Ok(()) };
        let row = ban::of(&partition.db, member.as_str()).await?;
        if row.is_some_and(|row| row.version == version && row.step == Step::Changing) {
            return Ok(());
        }
        Err(entity::Error::Overtaken("another process went on with the ban".into()))
    }
}

/// True for a removal by a ban.
pub(super) fn is_of_ban(event: &Event) -> bool {
    let id = event.event_id.as_ref().map(|id| id.as_str());
    event.kind == EventKind::Removal && id == Some(REMOVAL_ID)
}

/// The removals of a member from a board by bans that count, as far as SQL has them.
pub(crate) async fn counting_ban_removals(
    db: &impl ConnectionTrait,
    board: &Board,
    member: &MemberId,
) -> Result<Vec<EventPlace>> {
    // An index serves the redundant condition on the time.
    let removals = score_event::history_of(board, member.as_str())
        .filter(Column::AtMs.is_null())
        .filter(Column::Kind.eq(Kind::Removal))
        .filter(Column::EventId.eq(REMOVAL_ID))
        .all(db)
        .await?;
    let seqs = removals.iter().map(|row| row.seq).collect();
    let voided = score_event::voided_of_members(db, board.no, [member.as_str()], seqs).await?;
    let mut places = vec![];
    for row in &removals {
        places.push(row.place()?);
    }
    places.retain(|place| !voided.contains(place));
    Ok(places)
}
