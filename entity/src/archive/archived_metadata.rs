//! The parts of archived events that SQL keeps so that entries still show their metadata: the
//! scores with metadata, the removals and the voids, of boards whose events may have some.

use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::{BoardNo, MemberId};
use ranking::metadata::Metadata;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

use crate::history::score_event::{self, Kind};
use crate::history::segments;

/// A row of `archived_metadata`: a part of an event that is archived, or about to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, DeriveEntityModel)]
#[sea_orm(table_name = "archived_metadata")]
pub struct Model {
    /// The partition of the commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq of the commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// The event's index in the commit, from 0.
    #[sea_orm(primary_key, auto_increment = false)]
    pub event_index: i32,
    /// The board.
    pub board_no: i64,
    /// The board's generation at the time of the commit.
    pub generation: i32,
    /// The member.
    pub member: String,
    /// The raw score; none of a removal or a void.
    pub score: Option<i64>,
    /// The time at which it was earned, in Unix milliseconds; none of a removal or a void.
    pub at_ms: Option<i64>,
    /// The segments that it counted in besides everyone, as a JSON array.
    pub segments: String,
    /// The metadata, as JSON; none of a removal or a void.
    pub metadata: Option<String>,
    /// The partition of the event that a void voids.
    pub void_partition: Option<i32>,
    /// The seq of that event's commit.
    pub void_seq: Option<i64>,
    /// That event's index in its commit.
    pub void_index: Option<i32>,
}

no_relations!();

impl Model {
    /// The row that SQL keeps of an event; `None` if it keeps none.
    pub fn of_event(row: &score_event::Model) -> Option<Self> {
        let is_kept = match row.kind {
            Kind::Score => row.metadata.is_some(),
            Kind::Removal | Kind::Void => true,
        };
        is_kept.then(|| Self {
            partition: row.partition,
            seq: row.seq,
            event_index: row.event_index,
            board_no: row.board_no,
            generation: row.generation,
            member: row.member.clone(),
            score: row.score,
            at_ms: row.at_ms,
            segments: row.segments.clone(),
            metadata: row.metadata.clone(),
            void_partition: row.void_partition,
            void_seq: row.void_seq,
            void_index: row.void_index,
        })
    }

    /// The event, without its id, and its place in history.
    ///
    /// # Errors
    /// `Corrupt` if the row holds a value that no archive writes.
    pub fn to_ranking(&self) -> ranking::Result<(EventPlace, Event)> {
        let broken = || ranking::Error::Corrupt("a row of archived_metadata is invalid".into());
        let place = |partition, seq, index| score_event::place(partition, seq, index);
        let target = self.void_partition.zip(self.void_seq).zip(self.void_index);
        let kind = match (self.score, self.at_ms, target) {
            (Some(score), Some(at_ms), None) => EventKind::Score { score, at_ms, at_sent: false },
            (None, None, None) => EventKind::Removal,
            (None, None, Some(((partition, seq), index))) => {
                EventKind::Void { target: place(partition, seq, index).ok_or_else(broken)? }
            }
            _ => return Err(broken()),
        };
        let place = place(self.partition, self.seq, self.event_index).ok_or_else(broken)?;
        let event = Event {
            board: BoardNo(self.board_no),
            generation: self.generation.try_into().map_err(|_| broken())?,
            member: MemberId::new(&self.member)?,
            kind,
            event_id: None,
            segments: segments::of(&self.segments)?,
            metadata: self.metadata.as_deref().map(Metadata::stored),
            origin: None,
        };
        Ok((place, event))
    }
}

/// Replaces an existing row of the same event.
pub fn replace() -> OnConflict {
    use Column::{
        AtMs, BoardNo, EventIndex, Generation, Member, Metadata, Partition, Score, Segments, Seq,
        VoidIndex, VoidPartition, VoidSeq,
    };
    OnConflict::columns([Partition, Seq, EventIndex])
        .update_columns([BoardNo, Generation, Member, Score, AtMs, Segments, Metadata])
        .update_columns([VoidPartition, VoidSeq, VoidIndex])
        .to_owned()
}
