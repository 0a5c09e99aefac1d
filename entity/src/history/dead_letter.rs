//! Events that SQL refused, kept with the reason.

use ranking::commit::{Event, EventPlace};
use ranking::id::{BoardNo, PartitionNo};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, QuerySelect};

/// The state of a refused event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// Redis may still count it.
    #[sea_orm(string_value = "PENDING")]
    Pending,
    /// It is voided: it counts nowhere.
    #[sea_orm(string_value = "VOIDED")]
    Voided,
}

/// A row of `dead_letter`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "dead_letter")]
pub struct Model {
    /// The partition of the commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq of the commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// The event's index in the commit.
    #[sea_orm(primary_key, auto_increment = false)]
    pub event_index: i32,
    /// The event as the log has it.
    pub payload: String,
    /// The error with which SQL refused it.
    pub reason: String,
    /// The state.
    pub state: State,
    /// Creation time by SQL's clock, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

impl Model {
    /// True if its content is gone: it is old, or its member was erased.
    pub fn is_blank(&self) -> bool {
        self.payload.is_empty()
    }

    /// The event, and its place in history.
    ///
    /// # Errors
    /// `Corrupt` if the row holds a value that the persister never writes.
    pub fn event(&self) -> ranking::Result<(EventPlace, Event)> {
        let broken = || ranking::Error::Corrupt("a dead letter is invalid".into());
        let place = EventPlace {
            partition: PartitionNo(self.partition.try_into().map_err(|_| broken())?),
            seq: self.seq.unsigned_abs(),
            index: self.event_index.unsigned_abs(),
        };
        Ok((place, Event::from_text(&self.payload)?))
    }
}

/// Refused events, of one partition or of all, that are not voided yet.
pub async fn pending(
    db: &impl ConnectionTrait,
    partition: Option<PartitionNo>,
) -> Result<Vec<Model>, DbErr> {
    let mut pending = Entity::find().filter(Column::State.eq(State::Pending));
    if let Some(partition) = partition {
        pending = pending.filter(Column::Partition.eq(i32::from(partition)));
    }
    pending.all(db).await
}

/// The numbers of the events that were refused since an instant in Unix milliseconds, by state.
pub async fn counts(db: &impl ConnectionTrait, since_ms: i64) -> Result<Vec<(State, i64)>, DbErr> {
    Entity::find()
        .select_only()
        .column(Column::State)
        .column_as(Column::Seq.count(), "count")
        .filter(Column::CreatedAtMs.gte(since_ms))
        .group_by(Column::State)
        .into_tuple()
        .all(db)
        .await
}

/// The refused events of some commits, voided or not. The call takes at most some thousand.
pub async fn of_commits(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seqs: &[u64],
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::Seq.is_in(seqs.iter().map(|seq| *seq as i64)))
        .all(db)
        .await
}

/// All refused events of a board in one partition, voided or not. History has none of them, but
/// Redis may have counted them.
pub async fn of_board(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    board: BoardNo,
) -> crate::error::Result<Vec<(EventPlace, Event)>> {
    let of_partition = Entity::find().filter(Column::Partition.eq(i32::from(partition)));
    let mut events = vec![];
    for letter in of_partition.all(db).await? {
        if letter.is_blank() {
            continue;
        }
        let (place, event) = letter.event()?;
        if event.board == board {
            events.push((place, event));
        }
    }
    Ok(events)
}

/// Takes the content from refused events of a commit that count nowhere. The rows stay, as they say
/// why the events of their commits, and of the commits that voided them, are gone.
pub async fn blank(db: &impl ConnectionTrait, of: Condition) -> Result<u64, DbErr> {
    let blanked = Entity::update_many()
        .col_expr(Column::Payload, Expr::value(""))
        .col_expr(Column::Reason, Expr::value(""))
        .filter(Column::State.eq(State::Voided))
        .filter(Column::Payload.ne(""))
        .filter(of)
        .exec(db)
        .await?;
    Ok(blanked.rows_affected)
}

/// Marks a refused event as voided. Returns false if SQL had not refused the event.
pub async fn void(db: &impl ConnectionTrait, place: EventPlace) -> Result<bool, DbErr> {
    let voided = Entity::update_many()
        .col_expr(Column::State, Expr::value(State::Voided))
        .filter(Column::Partition.eq(i32::from(place.partition)))
        .filter(Column::Seq.eq(place.seq as i64))
        .filter(Column::EventIndex.eq(place.index as i32))
        .exec(db)
        .await?;
    Ok(voided.rows_affected > 0)
}
