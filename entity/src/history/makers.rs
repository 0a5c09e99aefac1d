//! The events that may have made entries, wherever SQL has them: scores with metadata of some
//! members and times, and the removals and voids that take events back.

use ranking::commit::{Event, EventPlace};
use ranking::id::BoardNo;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{SelectStatement, UnionType};
use sea_orm::{Condition, QueryOrder, QueryTrait, Select};

use crate::archive::archived_metadata;
use crate::history::score_event;

/// The most members of one SELECT: SQLite takes 500 SELECTs in one.
const MEMBERS_MAX: usize = 100;

/// The most events of a member that may have made one entry: with the same time to the board's
/// tick, and unless scores add up, with the same score. Where there are more, none is found.
pub const MAKERS_MAX: usize = 100;

/// The rows of one SELECT for 100 members. Most have one; if this is not enough, each member has a
/// SELECT of its own.
const ROWS_MAX: usize = 4 * MEMBERS_MAX;

/// A member, and the times of the events that may have made its entry: from one instant until
/// before another, in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberTime<'a> {
    /// The member.
    pub member: &'a str,
    /// The first millisecond.
    pub from_ms: i64,
    /// The millisecond after the last one.
    pub until_ms: i64,
    /// The raw score of the events; `None` for all, where scores add up.
    pub score: Option<i64>,
}

/// Events with their places in history.
pub type Events = Vec<(EventPlace, Event)>;

/// The scores with metadata of some members and times, in no order. Two SELECTs for each 100
/// members; each finds its rows by an index. A member has at most [`MAKERS_MAX`] events, or none.
///
/// # Errors
/// `Corrupt` if a row holds a value that Laurel never writes.
pub async fn with_metadata(
    db: &impl ConnectionTrait,
    board: BoardNo,
    asked: &[MemberTime<'_>],
) -> crate::Result<Events> {
    let mut events = vec![];
    for some in asked.chunks(MEMBERS_MAX) {
        let mut found = some_with_metadata(db, board, some, ROWS_MAX).await?;
        if found.len() > ROWS_MAX {
            found.clear();
            for asked in some {
                let of_one = std::slice::from_ref(asked);
                let theirs = some_with_metadata(db, board, of_one, MAKERS_MAX).await?;
                found.extend(
                    Some(theirs).filter(|all| all.len() <= MAKERS_MAX).into_iter().flatten(),
                );
            }
        }
        events.append(&mut found);
    }
    Ok(events)
}

/// As [`with_metadata`], of at most 100 members; more than `most` events if there are more.
async fn some_with_metadata(
    db: &impl ConnectionTrait,
    board: BoardNo,
    some: &[MemberTime<'_>],
    most: usize,
) -> crate::Result<Events> {
    let mut events = vec![];
    let selects = some.iter().map(|asked| {
        use score_event::Column::{AtMs, BoardNo as No, Member, Metadata};
        let of_member = score_event::Entity::find()
            .filter(No.eq(board.0))
            .filter(Member.eq(asked.member))
            .filter(AtMs.gte(asked.from_ms))
            .filter(AtMs.lt(asked.until_ms));
        let of_score = asked.score.map(|score| score_event::Column::Score.eq(score));
        // The partial index has this condition.
        of_member.filter(Metadata.is_not_null()).filter(Condition::all().add_option(of_score))
    });
    let rows: Vec<score_event::Model> = all_of(db, selects, most).await?;
    for row in rows {
        events.push((row.place()?, row.to_ranking()?));
    }
    let selects =
        some.iter().map(|asked| {
            use archived_metadata::Column::{AtMs, BoardNo as No, Member};
            archived_metadata::Entity::find()
                .filter(No.eq(board.0))
                .filter(Member.eq(asked.member))
                .filter(AtMs.gte(asked.from_ms))
                .filter(AtMs.lt(asked.until_ms))
                .filter(Condition::all().add_option(
                    asked.score.map(|score| archived_metadata::Column::Score.eq(score)),
                ))
        });
    let rows: Vec<archived_metadata::Model> = all_of(db, selects, most).await?;
    for row in rows {
        events.push(row.to_ranking()?);
    }
    Ok(events)
}

/// The removals and voids of some members, in no order. Two SELECTs for each 100 members.
///
/// # Errors
/// As [`with_metadata`].
pub async fn amendments(
    db: &impl ConnectionTrait,
    board: BoardNo,
    members: &[&str],
) -> crate::Result<Events> {
    let mut events = vec![];
    for some in members.chunks(MEMBERS_MAX) {
        let some = some.iter().copied();
        let rows = score_event::Entity::find()
            .filter(score_event::Column::BoardNo.eq(board.0))
            .filter(score_event::Column::Member.is_in(some.clone()))
            .filter(score_event::Column::AtMs.is_null())
            .all(db)
            .await?;
        for row in rows {
            events.push((row.place()?, row.to_ranking()?));
        }
        let rows = archived_metadata::Entity::find()
            .filter(archived_metadata::Column::BoardNo.eq(board.0))
            .filter(archived_metadata::Column::Member.is_in(some))
            .filter(archived_metadata::Column::AtMs.is_null())
            .all(db)
            .await?;
        for row in rows {
            events.push(row.to_ranking()?);
        }
    }
    Ok(events)
}

/// The rows of several SELECTs in one, each of which is a range of an index on every database: one
/// more than `most`, at most.
async fn all_of<E: EntityTrait>(
    db: &impl ConnectionTrait,
    selects: impl Iterator<Item = Select<E>>,
    most: usize,
) -> Result<Vec<E::Model>, DbErr> {
    let mut selects = selects.map(QueryTrait::into_query);
    let Some(mut all) = selects.next() else { return Ok(vec![]) };
    for select in selects {
        SelectStatement::union(&mut all, UnionType::All, select);
    }
    all.limit(most as u64 + 1);
    let statement = db.get_database_backend().build(&all);
    E::find().from_raw_sql(statement).all(db).await
}

/// The rows that SQL keeps of a partition's archived events of a board, in order: at most `limit`
/// after a seq and index, up to another seq.
pub async fn archived_after(
    db: &impl ConnectionTrait,
    (board, partition): (BoardNo, i32),
    (seq, index): (i64, i32),
    through_seq: i64,
    limit: u64,
) -> Result<Vec<archived_metadata::Model>, DbErr> {
    use archived_metadata::Column::{BoardNo as No, EventIndex, Partition, Seq};
    use sea_orm::QuerySelect;
    let later = Condition::any()
        .add(Seq.gt(seq))
        .add(Condition::all().add(Seq.eq(seq)).add(EventIndex.gt(index)));
    let rows = archived_metadata::Entity::find()
        .filter(Partition.eq(partition))
        // Redundant, but the key serves this condition.
        .filter(Seq.gte(seq))
        .filter(Seq.lte(through_seq))
        .filter(later)
        .filter(No.eq(board.0))
        .order_by_asc(Seq)
        .order_by_asc(EventIndex)
        .limit(limit);
    rows.all(db).await
}
