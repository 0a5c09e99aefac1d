//! The numbers of scores that count in entries, by members' histories in SQL.

use std::collections::HashMap;

use ranking::board::Board;
use ranking::commit::{self, EventKind, EventPlace};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{
    Asterisk, CaseStatement, Expr, ExprTrait, Func, Query, SelectStatement, UnionType,
};
use sea_orm::{Condition, DbBackend, Order, QuerySelect, QueryTrait};

use crate::history::makers::{Events, amendments};
use crate::history::score_event::{Column, Entity, beyond};
use crate::history::segments;
use crate::sql::dialect;

/// The members of one SELECT.
const MEMBERS_AT_ONCE: usize = 10;

/// The most events of a member on a board among which the scores of an entry are counted.
pub const COUNTED_EVENTS_MAX: u64 = 10_000;

/// About the most events of all members among which the scores that a request asks for are counted.
pub const COUNTED_TOGETHER_MAX: u64 = 100_000;

/// The most voided events of one SELECT.
const PLACES_MAX: usize = 100;

/// The number of an entry's scores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of the member's events that were looked at.
    pub passed: u64,
    /// The number of scores that count; `None` if there are more events than may be looked at.
    pub scores: Option<u64>,
}

/// The scores of an entry: those of a segment, from one instant until before another, in Unix
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoresOf<'a> {
    /// The first millisecond.
    pub from_ms: i64,
    /// The millisecond after the last one; `None` if there is none.
    pub until_ms: Option<i64>,
    /// The segment; empty for everyone.
    pub segment: &'a str,
}

/// The events that take a member's scores back.
#[derive(Debug, Default)]
struct Amendments {
    /// The layout, seq and index of the last removal that is not voided.
    removal: Option<[i64; 3]>,
    /// The events that are voided.
    voided: Vec<EventPlace>,
}

/// The numbers of members' scores on a board that count, in the order of `members`. Three SELECTs
/// for each ten members, or more where voids take scores back. Archived events are not counted.
/// Members behind about `passed_max` events are not looked at.
///
/// # Errors
/// `Corrupt` if a row holds a value that Laurel never writes.
pub async fn scores(
    db: &impl ConnectionTrait,
    board: &Board,
    members: &[&str],
    of: ScoresOf<'_>,
    passed_max: u64,
) -> crate::Result<Vec<Count>> {
    let mut counts = Vec::with_capacity(members.len());
    for some in members.chunks(MEMBERS_AT_ONCE) {
        let passed: u64 = counts.iter().map(|count: &Count| count.passed).sum();
        if passed >= passed_max {
            break;
        }
        let taken = by_member(board, amendments(db, board.no, some).await?);
        counts.extend(count(db, board, some, of, &taken).await?);
    }
    counts.resize(members.len(), Count::default());
    Ok(counts)
}

async fn count(
    db: &impl ConnectionTrait,
    board: &Board,
    members: &[&str],
    of: ScoresOf<'_>,
    taken: &HashMap<String, Amendments>,
) -> crate::Result<Vec<Count>> {
    let backend = db.get_database_backend();
    let of_member = |(place, member): (usize, &&str)| {
        let removal = taken.get(*member).and_then(|taken| taken.removal);
        let counts = counting(backend, board, of, removal);
        let events = Entity::find().filter(Column::BoardNo.eq(board.no.0));
        let events = events.filter(Column::Member.eq(*member)).limit(COUNTED_EVENTS_MAX + 1);
        let counted = CaseStatement::new().case(counts, 1).finally(0);
        Query::select()
            .expr_as(dialect::as_integer(backend, Expr::val(place as i64)), "place")
            .expr_as(dialect::as_integer(backend, Expr::col(Asterisk).count()), "events")
            .expr_as(dialect::as_integer(backend, Func::sum(counted).into()), "counted")
            .from_subquery(events.into_query(), "history")
            .to_owned()
    };
    let mut selects = members.iter().enumerate().map(of_member);
    let Some(mut all) = selects.next() else { return Ok(vec![]) };
    for select in selects {
        SelectStatement::union(&mut all, UnionType::All, select);
    }
    let mut counts = vec![Count::default(); members.len()];
    for row in db.query_all_raw(backend.build(&all)).await? {
        let place: i64 = row.try_get("", "place")?;
        let (events, counted): (i64, Option<i64>) =
            (row.try_get("", "events")?, row.try_get("", "counted")?);
        let passed = events.unsigned_abs();
        let scores = (passed <= COUNTED_EVENTS_MAX).then(|| counted.unwrap_or(0).unsigned_abs());
        counts[place as usize] = Count { passed, scores };
    }
    for (member, count) in members.iter().zip(&mut counts) {
        if let (Some(scores), Some(taken)) = (&mut count.scores, taken.get(*member)) {
            let gone = voided(db, board, of, taken).await?;
            *scores = scores.saturating_sub(gone);
            count.passed += taken.voided.len() as u64;
        }
    }
    Ok(counts)
}

/// The number of voided scores that would count.
async fn voided(
    db: &impl ConnectionTrait,
    board: &Board,
    of: ScoresOf<'_>,
    taken: &Amendments,
) -> Result<u64, DbErr> {
    let mut number = 0;
    for some in taken.voided.chunks(PLACES_MAX) {
        let mut any = Condition::any();
        for place in some {
            let of_place = Column::Partition
                .eq(i32::from(place.partition))
                .and(Column::Seq.eq(place.seq as i64))
                .and(Column::EventIndex.eq(place.index as i32));
            any = any.add(of_place);
        }
        let counts = counting(db.get_database_backend(), board, of, taken.removal);
        number += Entity::find().filter(any).filter(counts).count(db).await?;
    }
    Ok(number)
}

/// The condition for the scores that count in an entry unless they are voided. Other events have no
/// time.
fn counting(
    backend: DbBackend,
    board: &Board,
    of: ScoresOf<'_>,
    removal: Option<[i64; 3]>,
) -> Condition {
    let at_ms = || Expr::col(Column::AtMs);
    let mut counts = Condition::all()
        .add(at_ms().gte(of.from_ms))
        .add_option(of.until_ms.map(|until_ms| at_ms().lt(until_ms)))
        .add_option(removal.map(|removal| beyond(board, removal, &Order::Asc)));
    if !of.segment.is_empty() {
        let text = segments::text(&[of.segment.to_owned()]);
        // The text of one segment, within those of all.
        let one = text.trim_start_matches('[').trim_end_matches(']').to_owned();
        counts = counts.add(dialect::contains(backend, Expr::col(Column::Segments), one));
    }
    counts
}

/// The events that take scores back, by member.
fn by_member(board: &Board, events: Events) -> HashMap<String, Amendments> {
    let voided = commit::voided(&events);
    let mut found: HashMap<String, Amendments> = HashMap::new();
    for (place, event) in events {
        let of_member = found.entry(event.member.to_string()).or_default();
        match event.kind {
            EventKind::Void { target } => of_member.voided.push(target),
            EventKind::Removal if !voided.contains(&place) => {
                let layout = board.layout_of(event.generation) as i64;
                let order = [layout, place.seq as i64, place.index.into()];
                of_member.removal = of_member.removal.max(Some(order));
            }
            _ => {}
        }
    }
    found
}
