//! The history: every accepted event, for good.

use ranking::commit::{Event, EventKind};
use ranking::id::{BoardNo, EventId, MemberId, Partition};
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

/// A row of `score_event`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "score_event")]
pub struct Model {
    /// The partition of its commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq of its commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// Its place in the commit, from 0.
    #[sea_orm(primary_key, auto_increment = false)]
    pub event_index: i32,
    /// The board.
    pub board_no: i64,
    /// The board's generation then.
    pub generation: i32,
    /// Who.
    pub member: String,
    /// SCORE or REMOVAL.
    pub kind: String,
    /// The raw score; none for a removal.
    pub score: Option<i64>,
    /// When it was earned, in Unix milliseconds; none for a removal.
    pub at_ms: Option<i64>,
    /// Whether the client said when.
    pub at_sent: bool,
    /// The client's name for it.
    pub event_id: Option<String>,
    /// The segments it counted in besides everyone, as a JSON array.
    pub segments: String,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// The event, as ranking has it.
    ///
    /// # Errors
    /// `Corrupt` where the row holds what the persister does not write.
    pub fn to_ranking(&self) -> ranking::Result<Event> {
        let broken = |what: &str| {
            ranking::Error::Corrupt(format!(
                "event {}/{}/{} has a broken {what}",
                self.partition, self.seq, self.event_index
            ))
        };
        let kind = match (self.kind.as_str(), self.score, self.at_ms) {
            ("SCORE", Some(score), Some(at_ms)) => EventKind::Score {
                score,
                at_ms,
                at_sent: self.at_sent,
            },
            ("REMOVAL", None, None) => EventKind::Removal,
            _ => return Err(broken("kind")),
        };
        Ok(Event {
            board: BoardNo(self.board_no),
            generation: self
                .generation
                .try_into()
                .map_err(|_| broken("generation"))?,
            member: MemberId::new(&self.member)?,
            kind,
            event_id: self.event_id.as_deref().map(EventId::new).transpose()?,
            segments: self.segments()?,
        })
    }

    /// The segments it counted in besides everyone.
    ///
    /// # Errors
    /// `Corrupt` where they are no JSON array of texts.
    pub fn segments(&self) -> ranking::Result<Vec<String>> {
        if self.segments == "[]" {
            return Ok(vec![]);
        }
        serde_json::from_str(&self.segments)
            .map_err(|error| ranking::Error::Corrupt(format!("segments of an event: {error}")))
    }

    /// The row of an event of a commit.
    #[must_use]
    pub fn of_event(partition: Partition, seq: u64, event_index: usize, event: &Event) -> Self {
        let (kind, score, at_ms, at_sent) = match event.kind {
            EventKind::Score {
                score,
                at_ms,
                at_sent,
            } => ("SCORE", Some(score), Some(at_ms), at_sent),
            EventKind::Removal => ("REMOVAL", None, None, false),
        };
        Self {
            partition: partition.0.into(),
            seq: seq as i64,
            event_index: event_index as i32,
            board_no: event.board.0,
            generation: event.generation as i32,
            member: event.member.to_string(),
            kind: kind.to_owned(),
            score,
            at_ms,
            at_sent,
            event_id: event.event_id.as_ref().map(ToString::to_string),
            segments: serde_json::to_string(&event.segments).expect("texts have a JSON form"),
        }
    }
}

/// A page of a partition's history, in its order: at most `limit` events after the place (seq, index).
#[must_use]
pub fn page_after(partition: Partition, (seq, index): (i64, i32), limit: u64) -> Select<Entity> {
    use Column::{EventIndex, Partition as In, Seq};
    let later = Condition::any()
        .add(Seq.gt(seq))
        .add(Condition::all().add(Seq.eq(seq)).add(EventIndex.gt(index)));
    let of_partition = Entity::find()
        .filter(In.eq(i32::from(partition.0)))
        .filter(later);
    of_partition
        .order_by_asc(Seq)
        .order_by_asc(EventIndex)
        .limit(limit)
}
