//! The parts of the document that belong to a board: entries, events, and scores in quarantine.

use anyhow::Result;
use entity::board;
use entity::board::entrant;
use entity::member::ban::removal;
use entity::member::quarantine;
use entity::standings::{sealed_entry, sealed_period, standing};
use futures::TryStreamExt;
use ranking::board::{Board, TieBreak};
use ranking::score;
use ranking::score::rank_key::RankKey;
use ranking::window::{Period, Window};
use sea_orm::{
    ActiveEnum, ColumnTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::document::{Document, Shape, Time};
use super::events::Events;
use super::of_member::list;
use super::{Kept, Numbers};
use crate::job::Job;

/// The head of a board's part.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BoardHead<'a> {
    no: i64,
    /// Null if the board is deleted.
    slug: Option<&'a str>,
    title: &'a str,
    deleted_at: Option<Time>,
}

/// An entry in `all`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    segment: String,
    score: String,
    reached_at: Option<Time>,
}

/// An entry of a past period that is sealed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SealedEntry {
    window: String,
    period: String,
    segment: String,
    score: String,
    period_start: Time,
}

/// An entry of sealed standings, with what these are.
#[derive(FromQueryResult)]
struct SealedRow {
    window: String,
    label: String,
    segment: String,
    start_ms: i64,
    score: i64,
}

/// A score that is or was in quarantine.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Quarantined {
    number: i64,
    state: String,
    score: String,
    at: Time,
    event_id: String,
    event_id_sent: bool,
    segments: Vec<String>,
    metadata: Option<Box<RawValue>>,
    suspicion: String,
    message: String,
    received_at: Time,
    decided_at: Option<Time>,
}

/// Writes the parts of all boards that have something of the member, deleted ones among them.
///
/// # Errors
/// If SQL does not answer, a file of the archive is missing or altered, a row holds a value that
/// Laurel never writes, or the document cannot be written.
pub(super) async fn write_all(
    kept: &Kept<'_>,
    document: &mut Document,
    job: &Job,
) -> Result<Numbers> {
    let mut numbers = Numbers::default();
    document.open(Some("boards"), Shape::List, &())?;
    let mut last = 0;
    loop {
        let rows = board::after(kept.view, last).await?;
        let Some(end) = rows.last() else { break };
        last = end.no;
        for row in rows {
            let is_living = row.deleted_at_ms.is_none();
            let head = BoardHead {
                no: row.no,
                slug: is_living.then_some(row.slug.as_str()),
                title: &row.title,
                deleted_at: row.deleted_at_ms.map(Time),
            };
            document.open(None, Shape::Object, &head)?;
            numbers.events += write(kept, &row.to_ranking()?, document).await?;
            numbers.boards += u64::from(document.close()?);
            job.advance(1);
        }
    }
    document.close()?;
    Ok(numbers)
}

/// Writes the part of a board. Returns the number of events.
async fn write(kept: &Kept<'_>, board: &Board, document: &mut Document) -> Result<u64> {
    let (no, key) = (board.no.0, kept.key());
    if let Some(joined) = entrant::of(kept.view, no, key).await? {
        document.field("joinedAt", &Time(joined.joined_at_ms))?;
    }
    let removal = removal::Entity::find_by_id((key.to_owned(), no)).one(kept.view).await?;
    if removal.is_some() {
        document.field("isRemovedByBan", &true)?;
    }
    let entries = standing::Entity::find()
        .filter(standing::Column::BoardNo.eq(no))
        .filter(standing::Column::Member.eq(key))
        .order_by_asc(standing::Column::Segment);
    let entry = |row| Ok(Some(Entry::of(board, row)?));
    list(kept.view, document, "entries", entries, entry).await?;
    write_sealed(kept, board, document).await?;
    use quarantine::Column as Q;
    let quarantined = quarantine::Entity::find()
        .filter(Q::BoardNo.eq(no))
        .filter(Q::Member.eq(key))
        .order_by_asc(Q::No);
    let item = |row| Ok(Some(Quarantined::of(board, row)?));
    list(kept.view, document, "quarantine", quarantined, item).await?;
    Events::of(kept, board).await?.write(document).await
}

/// Writes the entries in sealed standings.
async fn write_sealed(kept: &Kept<'_>, board: &Board, document: &mut Document) -> Result<()> {
    use sealed_period::Column::{BoardNo, Label, No, Segment, StartMs};
    let rows = sealed_period::Entity::find()
        .select_only()
        .columns([sealed_period::Column::Window, Label, Segment, StartMs])
        .column(sealed_entry::Column::Score)
        .join(sea_orm::JoinType::InnerJoin, entry_relation())
        .filter(BoardNo.eq(board.no.0))
        .filter(sealed_entry::Column::Member.eq(kept.key()))
        .order_by_asc(No)
        .into_model::<SealedRow>();
    let mut rows = rows.stream(kept.view).await?;
    document.open(Some("sealedEntries"), Shape::List, &())?;
    while let Some(row) = rows.try_next().await? {
        let window: Window = row.window.parse()?;
        document.item(&SealedEntry {
            score: score::format_in(window, row.score, board.rules.decimals, row.start_ms),
            window: row.window,
            period: row.label,
            segment: row.segment,
            period_start: Time(row.start_ms),
        })?;
    }
    document.close()?;
    Ok(())
}

/// The entries of sealed standings.
fn entry_relation() -> sea_orm::RelationDef {
    sealed_period::Entity::belongs_to(sealed_entry::Entity)
        .from(sealed_period::Column::No)
        .to(sealed_entry::Column::StandingsNo)
        .into()
}

impl Entry {
    fn of(board: &Board, row: standing::Model) -> Result<Self> {
        let rules = &board.rules;
        let state = rules.state(Window::All, &Period::all(), RankKey::from_i64(row.rank_key)?);
        let is_timed = rules.ties(Window::All) != TieBreak::Member;
        Ok(Self {
            segment: row.segment,
            score: score::format(row.score, rules.decimals),
            reached_at: is_timed.then(|| Time(state.tick * i64::from(rules.tick_ms))),
        })
    }
}

impl Quarantined {
    fn of(board: &Board, row: quarantine::Model) -> Result<Self> {
        Ok(Self {
            number: row.no,
            state: row.state.to_value(),
            score: score::format(row.score, board.rules.decimals),
            at: Time(row.at_ms),
            segments: row.segments()?,
            event_id: row.event_id,
            event_id_sent: row.event_id_sent,
            metadata: row.metadata.map(RawValue::from_string).transpose()?,
            suspicion: row.suspicion,
            message: row.message,
            received_at: Time(row.received_at_ms),
            decided_at: row.decided_at_ms.map(Time),
        })
    }
}
