//! The history: every accepted event, kept for good.

use std::collections::HashSet;

use ranking::board::Board;
use ranking::commit::content::{Leaf, leaf};
use ranking::commit::{Commit, Event, EventKind, EventPlace};
use ranking::id::{BoardNo, EventId, MemberId, PartitionNo};
use ranking::metadata::Metadata;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, SimpleExpr};
use sea_orm::{Condition, Order, QueryOrder, QuerySelect};

use crate::history::segments;
use crate::sql::first_rows;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Kind {
    /// A submitted score.
    #[sea_orm(string_value = "SCORE")]
    Score,
    /// The removal of the member: its earlier events no longer count.
    #[sea_orm(string_value = "REMOVAL")]
    Removal,
    /// The void of an earlier event: it no longer counts.
    #[sea_orm(string_value = "VOID")]
    Void,
}

/// A row of `score_event`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "score_event")]
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
    /// The kind.
    pub kind: Kind,
    /// The raw score; none unless the kind is [`Kind::Score`].
    pub score: Option<i64>,
    /// The time at which it was earned, in Unix milliseconds; none unless it is a score.
    pub at_ms: Option<i64>,
    /// True if the client sent the time.
    pub at_sent: bool,
    /// The client's id for the event.
    pub event_id: Option<String>,
    /// The segments that it counted in besides everyone, as a JSON array.
    pub segments: String,
    /// The partition of the event that it voids; none unless the kind is [`Kind::Void`].
    pub void_partition: Option<i32>,
    /// The seq of that event's commit.
    pub void_seq: Option<i64>,
    /// That event's index in its commit.
    pub void_index: Option<i32>,
    /// The salt of its leaf.
    pub salt: Vec<u8>,
    /// The metadata of a score, as JSON.
    pub metadata: Option<String>,
    /// The place of the event that a score is a copy of, of a member that was merged into this one:
    /// `partition/seq/index`.
    pub origin: Option<String>,
}

no_relations!();

impl Model {
    /// The event.
    ///
    /// # Errors
    /// `Corrupt` if the row holds a value that the persister never writes.
    pub fn to_ranking(&self) -> ranking::Result<Event> {
        let broken = |what: &str| {
            ranking::Error::Corrupt(format!(
                "event {}/{}/{} has an invalid {what}",
                self.partition, self.seq, self.event_index
            ))
        };
        let kind = match (self.kind, self.score, self.at_ms) {
            (Kind::Score, Some(score), Some(at_ms)) => {
                EventKind::Score { score, at_ms, at_sent: self.at_sent }
            }
            (Kind::Removal, None, None) => EventKind::Removal,
            (Kind::Void, None, None) => {
                EventKind::Void { target: self.voids().ok_or_else(|| broken("target"))? }
            }
            _ => return Err(broken("kind")),
        };
        Ok(Event {
            board: BoardNo(self.board_no),
            generation: self.generation.try_into().map_err(|_| broken("generation"))?,
            member: MemberId::new(&self.member)?,
            kind,
            event_id: self.event_id.as_deref().map(EventId::new).transpose()?,
            segments: self.segments()?,
            metadata: self.metadata.as_deref().map(Metadata::stored),
            origin: self.origin.as_deref().map(str::parse).transpose()?,
        })
    }

    /// The event's place in history.
    ///
    /// # Errors
    /// `Corrupt` if the row holds a value that the persister never writes.
    pub fn place(&self) -> ranking::Result<EventPlace> {
        place(self.partition, self.seq, self.event_index)
            .ok_or_else(|| ranking::Error::Corrupt("an event has an invalid place".into()))
    }

    /// The place of the event that it voids; `None` unless it is a void.
    pub fn voids(&self) -> Option<EventPlace> {
        place(self.void_partition?, self.void_seq?, self.void_index?)
    }

    /// The segments that it counted in besides everyone.
    ///
    /// # Errors
    /// `Corrupt` if they are not a JSON array of texts.
    pub fn segments(&self) -> ranking::Result<Vec<String>> {
        segments::of(&self.segments)
    }

    /// Its leaf in a commit whose content has this version.
    ///
    /// # Errors
    /// `Corrupt` if the row holds a value that the persister never writes, or for a version that
    /// this program does not know.
    pub fn leaf(&self, version: i32) -> ranking::Result<Leaf> {
        leaf(version.try_into().unwrap_or_default(), &self.salt, &self.to_ranking()?)
    }

    /// The row of the event of an index in a commit.
    pub fn of_event(partition: PartitionNo, commit: &Commit, index: usize) -> Self {
        let event = &commit.events[index];
        let (kind, score, at_ms, at_sent, target) = match event.kind {
            EventKind::Score { score, at_ms, at_sent } => {
                (Kind::Score, Some(score), Some(at_ms), at_sent, None)
            }
            EventKind::Removal => (Kind::Removal, None, None, false, None),
            EventKind::Void { target } => (Kind::Void, None, None, false, Some(target)),
        };
        Self {
            partition: partition.into(),
            seq: commit.seq as i64,
            event_index: index as i32,
            board_no: event.board.0,
            generation: event.generation as i32,
            member: event.member.to_string(),
            kind,
            score,
            at_ms,
            at_sent,
            event_id: event.event_id.as_ref().map(ToString::to_string),
            segments: segments::text(&event.segments),
            void_partition: target.map(|target| target.partition.into()),
            void_seq: target.map(|target| target.seq as i64),
            void_index: target.map(|target| target.index as i32),
            salt: commit.salt(index).to_vec(),
            metadata: event.metadata.as_ref().map(ToString::to_string),
            origin: event.origin.as_ref().map(ToString::to_string),
        }
    }
}

/// The place in history that columns hold.
pub(crate) fn place(partition: i32, seq: i64, index: i32) -> Option<EventPlace> {
    Some(EventPlace {
        partition: PartitionNo(partition.try_into().ok()?),
        seq: seq.try_into().ok()?,
        index: index.try_into().ok()?,
    })
}

/// The events that a partition's history voids, up to a seq.
pub async fn voided(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seq: u64,
) -> Result<HashSet<EventPlace>, DbErr> {
    let voids = Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        // The partial index of voids has this condition.
        .filter(Column::VoidSeq.is_not_null())
        .filter(Column::Seq.lte(seq as i64))
        .all(db)
        .await?;
    Ok(voids.iter().filter_map(Model::voids).collect())
}

/// The events that a board's history voids, in all partitions.
pub async fn voided_on(
    db: &impl ConnectionTrait,
    board: BoardNo,
) -> Result<HashSet<EventPlace>, DbErr> {
    let voids = Entity::find()
        .filter(Column::BoardNo.eq(board.0))
        // Redundant, but an index serves this condition.
        .filter(Column::AtMs.is_null())
        .filter(Column::VoidSeq.is_not_null())
        .all(db)
        .await?;
    Ok(voids.iter().filter_map(Model::voids).collect())
}

/// The layout of an event as a number to sort by, if the board had several. Seqs are in order only
/// within one layout.
pub fn layout_order(board: &Board) -> Option<SimpleExpr> {
    let former = board.layouts.former.iter();
    let since = former.map(|former| {
        let before = former.before;
        format!(r#"CASE WHEN "generation" >= {before} THEN 1 ELSE 0 END"#)
    });
    let sum: Vec<String> = since.collect();
    (!sum.is_empty()).then(|| Expr::cust(format!("({})", sum.join(" + "))))
}

/// Sorts events of a board in the order of their members' histories.
pub fn in_order(events: Select<Entity>, board: &Board) -> Select<Entity> {
    let events = match layout_order(board) {
        Some(layout) => events.order_by_asc(layout),
        None => events,
    };
    events.order_by_asc(Column::Seq).order_by_asc(Column::EventIndex)
}

/// A member's history on a board, in order, across all layouts of the board.
pub fn history_of(board: &Board, member: &str) -> Select<Entity> {
    in_order(events_of(board.no, member), board)
}

fn events_of(board: BoardNo, member: &str) -> Select<Entity> {
    Entity::find().filter(Column::BoardNo.eq(board.0)).filter(Column::Member.eq(member))
}

/// The histories of members on a board, each in order, across all layouts of the board. The call
/// takes at most some thousand members.
pub fn of_members<'a>(board: &Board, members: impl IntoIterator<Item = &'a str>) -> Select<Entity> {
    let of_members =
        Entity::find().filter(Column::BoardNo.eq(board.no.0)).filter(Column::Member.is_in(members));
    in_order(of_members, board)
}

/// The origins of the copies among a member's events on a board.
pub async fn origins(
    db: &impl ConnectionTrait,
    board: BoardNo,
    member: &str,
) -> Result<Vec<String>, DbErr> {
    let copies = events_of(board, member).filter(Column::Origin.is_not_null());
    copies.select_only().column(Column::Origin).into_tuple().all(db).await
}

/// A member's events on a board, by seq. That is the order of the history only if they all lie in
/// one partition; see [`history_of`].
pub fn of_member(board: BoardNo, member: &str) -> Select<Entity> {
    events_of(board, member).order_by_asc(Column::Seq).order_by_asc(Column::EventIndex)
}

/// A page of a partition's history, in order: at most `limit` events after (seq, index).
pub fn page_after(partition: PartitionNo, (seq, index): (i64, i32), limit: u64) -> Select<Entity> {
    use Column::{EventIndex, Partition as In, Seq};
    let later = Condition::any()
        .add(Seq.gt(seq))
        .add(Condition::all().add(Seq.eq(seq)).add(EventIndex.gt(index)));
    let of_partition = Entity::find()
        .filter(In.eq(i32::from(partition)))
        // Redundant, but an index serves this condition.
        .filter(Seq.gte(seq))
        .filter(later);
    of_partition.order_by_asc(Seq).order_by_asc(EventIndex).limit(limit)
}

/// The event at a place in the history.
pub async fn find(db: &impl ConnectionTrait, place: EventPlace) -> Result<Option<Model>, DbErr> {
    let key = (place.partition.into(), place.seq as i64, place.index as i32);
    Entity::find_by_id(key).one(db).await
}

/// A page of a member's history on a board, newest first: at most `limit` events that are older
/// than one at a layout, seq and index; and true if there are more. Events up to `archived_seq` are
/// not in it.
pub async fn page_of_older(
    db: &impl ConnectionTrait,
    (board, member): (&Board, &str),
    archived_seq: i64,
    before: Option<[i64; 3]>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    page_of_member(db, (board, member), archived_seq, before, Order::Desc, limit).await
}

/// The page of a member's history on a board that ends just after an event, or with its oldest
/// event; otherwise as [`page_of_older`], newest first too.
pub async fn page_of_newer(
    db: &impl ConnectionTrait,
    (board, member): (&Board, &str),
    archived_seq: i64,
    after: Option<[i64; 3]>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let page = page_of_member(db, (board, member), archived_seq, after, Order::Asc, limit);
    let (mut rows, more) = page.await?;
    rows.reverse();
    Ok((rows, more))
}

/// At most `limit` events of a member beyond a place, in an order of the history.
async fn page_of_member(
    db: &impl ConnectionTrait,
    (board, member): (&Board, &str),
    archived_seq: i64,
    from: Option<[i64; 3]>,
    order: Order,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let mut select = events_of(board.no, member).filter(Column::Seq.gt(archived_seq));
    if let Some(from) = from {
        select = select.filter(beyond(board, from, &order));
    }
    if let Some(layout) = layout_order(board) {
        select = select.order_by(layout, order.clone());
    }
    for column in [Column::Seq, Column::EventIndex] {
        select = select.order_by(column, order.clone());
    }
    first_rows(db, select, limit).await
}

/// The condition for events beyond a layout, seq and index: older ones if the order is descending.
pub(crate) fn beyond(board: &Board, [layout, seq, index]: [i64; 3], order: &Order) -> Condition {
    let places = [
        (layout_order(board).unwrap_or_else(|| Expr::val(0)), layout),
        (Expr::col(Column::Seq), seq),
        (Expr::col(Column::EventIndex), index),
    ];
    crate::sql::beyond(&places, order)
}

/// The number of a member's events on a board after `archived_seq`.
pub async fn count_of_member(
    db: &impl ConnectionTrait,
    board: BoardNo,
    member: &str,
    archived_seq: i64,
) -> Result<u64, DbErr> {
    of_member(board, member).filter(Column::Seq.gt(archived_seq)).count(db).await
}

/// The number of events on some boards.
pub async fn count_of_boards(
    db: &impl ConnectionTrait,
    numbers: impl IntoIterator<Item = i64>,
) -> Result<u64, DbErr> {
    Entity::find().filter(Column::BoardNo.is_in(numbers)).count(db).await
}

/// The numbers of events of members on a board, archived ones left out; none of a member without
/// any.
pub async fn counts_of_members<'a>(
    db: &impl ConnectionTrait,
    board: BoardNo,
    members: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<(String, i64)>, DbErr> {
    let of_members =
        Entity::find().filter(Column::BoardNo.eq(board.0)).filter(Column::Member.is_in(members));
    let counts =
        of_members.select_only().column(Column::Member).column_as(Column::Seq.count(), "n");
    counts.group_by(Column::Member).into_tuple().all(db).await
}

/// The places that voids of some members on a board void, among those with one of these seqs.
pub async fn voided_of_members<'a>(
    db: &impl ConnectionTrait,
    board: BoardNo,
    members: impl IntoIterator<Item = &'a str>,
    seqs: Vec<i64>,
) -> Result<HashSet<EventPlace>, DbErr> {
    let voids = Entity::find()
        .filter(Column::BoardNo.eq(board.0))
        .filter(Column::Member.is_in(members))
        // An index serves this redundant condition.
        .filter(Column::AtMs.is_null())
        .filter(Column::VoidSeq.is_in(seqs));
    Ok(voids.all(db).await?.iter().filter_map(Model::voids).collect())
}
