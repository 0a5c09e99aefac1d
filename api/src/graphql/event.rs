//! Events: a member's history on a board.

pub mod amendment;
pub mod removal;
mod total;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_graphql::connection::Edge;
use async_graphql::{Context, Enum, ID, Object, Result};
use engine::settings::MembersFor;
use entity::board as board_row;
use entity::history::{commit, score_event};
use ranking::board::Board as RankingBoard;
use ranking::commit::EventPlace;
use ranking::metadata::Metadata;

use super::board::{self, Board};
use super::guard::Needs;
use super::member::Member;
use super::price;
use super::request::{app, state};
use super::sight::is_hidden;
use super::submission::ScoreInput;
use super::types::connection::{Connection, Page, PageCursor};
use super::types::global_id::GlobalId;
use super::types::scalar::{DateTime, Decimal, Json};
use crate::cache::boards::CachedBoard;
use crate::error::Error;

pub use total::EventTotal;
use total::mark_of;

/// The kind of an event.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::history::score_event::Kind")]
pub enum EventKind {
    /// A score was submitted.
    Score,
    /// The member was removed from the board: its earlier events no longer count.
    Removal,
    /// An earlier event was voided: it no longer counts, as if it had never been.
    Void,
}

/// An accepted event in a member's history on a board, kept for good.
#[derive(Clone)]
pub struct ScoreEvent {
    board: Arc<CachedBoard>,
    row: score_event::Model,
    accepted_at_ms: i64,
    voided: bool,
}

/// An accepted event in a member's history on a board, kept for good.
#[Object]
impl ScoreEvent {
    /// The global id: "event:<partition>:<seq>:<index>".
    pub(crate) async fn id(&self) -> Result<ID> {
        Ok(id_of(self.row.place().map_err(Error::from)?))
    }

    /// The kind of the event.
    async fn kind(&self) -> EventKind {
        self.row.kind.into()
    }

    /// The board.
    async fn board(&self) -> Board {
        Board(self.board.clone())
    }

    /// The member.
    async fn member(&self) -> Member {
        Member::named(&self.row.member)
    }

    /// The submitted score; null if the event is not a score.
    async fn score(&self) -> Option<Decimal> {
        let decimals = self.board.board.rules.decimals;
        self.row.score.map(|score| Decimal::of(score, decimals))
    }

    /// The time when the score was earned; null if the event is not a score.
    async fn at(&self) -> Option<DateTime> {
        self.row.at_ms.map(DateTime)
    }

    /// The time when the server accepted the event.
    async fn accepted_at(&self) -> DateTime {
        DateTime(self.accepted_at_ms)
    }

    /// The client's id for the event, if it sent one. Null for moderators where `LAUREL_MEMBERS` is
    /// self.
    async fn event_id(&self, ctx: &Context<'_>) -> Option<&str> {
        let is_hidden = app(ctx).members == MembersFor::Itself
            && Needs::EventIdsOf(&self.row.member).met(ctx).is_err();
        self.row.event_id.as_deref().filter(|_| !is_hidden)
    }

    /// The metadata of the score; null if it has none.
    async fn metadata(&self) -> Option<Json> {
        self.row.metadata.as_deref().map(|text| Json(Metadata::stored(text)))
    }

    /// True if the event was voided. An event before a removal does not count either, but this
    /// stays false.
    async fn voided(&self) -> bool {
        self.voided
    }

    /// The global id of the event that this void takes back; null if the event is not a void.
    async fn voids(&self) -> Option<ID> {
        self.row.voids().map(id_of)
    }

    /// The global id of the event that this is a copy of, of a member that was merged into this
    /// one; null if it is no copy.
    async fn copy_of(&self) -> Option<ID> {
        self.row.origin.as_deref()?.parse().ok().map(id_of)
    }
}

impl ScoreEvent {
    /// The event that a score has just become, before SQL has it.
    pub(crate) fn accepted(
        board: &Arc<CachedBoard>,
        score: &ScoreInput,
        place: EventPlace,
        accepted_at_ms: i64,
    ) -> crate::error::Result<Self> {
        let (raw, at_ms) = score.accepted(board, accepted_at_ms)?;
        let row = score_event::Model {
            partition: place.partition.0.into(),
            seq: place.seq.cast_signed(),
            event_index: place.index.cast_signed(),
            board_no: board.row.no,
            generation: board.board.generation.cast_signed(),
            member: score.member.clone(),
            kind: score_event::Kind::Score,
            score: Some(raw),
            at_ms: Some(at_ms),
            at_sent: score.at_ms().is_some(),
            event_id: score.event_id.clone(),
            segments: "[]".to_owned(),
            void_partition: None,
            void_seq: None,
            void_index: None,
            salt: vec![],
            metadata: score.metadata().map(|Json(metadata)| metadata.to_string()),
            origin: None,
        };
        Ok(Self { board: board.clone(), row, accepted_at_ms, voided: false })
    }

    fn voided_now(self) -> Self {
        Self { voided: true, ..self }
    }
}

fn id_of(place: EventPlace) -> ID {
    GlobalId::Event(place).to_text().into()
}

/// A page of a member's history on a board, newest first; `None` if there is no such board.
pub(crate) async fn events_page(
    ctx: &Context<'_>,
    slug: &str,
    member: &str,
    page: Page,
) -> crate::error::Result<Option<Connection<ScoreEvent, EventTotal>>> {
    let _reading = state(ctx).loaders.reading();
    let Some(board) = board::find(app(ctx), state(ctx), slug).await? else {
        return Ok(None);
    };
    if is_hidden(ctx, member).await {
        return Ok(None);
    }
    let db = &app(ctx).deployment.reads;
    let (Page::Forward { limit, .. } | Page::Backward { limit, .. }) = &page;
    // The mark, the events, their commits, and the voids of some of them.
    state(ctx).spend(4 * price::select(*limit)).await?;
    let archived_seq = mark_of(ctx, &board, member).await?.archived_seq;
    let of_member = (&board.board, member);
    let (rows, has_previous, has_next) = match page {
        Page::Forward { limit, after } => {
            let from = after.as_deref().map(place_of).transpose()?;
            let page = score_event::page_of_older(db, of_member, archived_seq, from, limit);
            let (rows, more) = page.await?;
            (rows, after.is_some(), more)
        }
        Page::Backward { limit, before } => {
            let from = before.as_deref().map(place_of).transpose()?;
            let page = score_event::page_of_newer(db, of_member, archived_seq, from, limit);
            let (rows, more) = page.await?;
            (rows, more, before.is_some())
        }
    };
    let total = EventTotal { board: board.clone(), member: member.to_owned() };
    let mut connection = Connection::with_additional_fields(has_previous, has_next, total);
    for event in complete(ctx, &board, rows).await? {
        let cursor = cursor_of(&board.board, &event.row);
        connection.edges.push(Edge::new(cursor, event));
    }
    Ok(Some(connection))
}

/// The event at a place in the history, if the client may see it and the history of its member.
pub(crate) async fn find(
    ctx: &Context<'_>,
    place: EventPlace,
) -> crate::error::Result<Option<ScoreEvent>> {
    state(ctx).spend(4 * price::select(1)).await?;
    let db = &app(ctx).deployment.reads;
    let Some(row) = score_event::find(db, place).await? else {
        return Ok(None);
    };
    if Needs::HistoryOf(&row.member).met(ctx).is_err() || is_hidden(ctx, &row.member).await {
        return Ok(None);
    }
    let board = board_row::find(db, row.board_no).await?;
    let Some(slug) = board.map(|board| board.slug) else {
        return Ok(None);
    };
    let board = board::find(app(ctx), state(ctx), &slug).await?;
    // For a moment the cache may hold another board of that slug.
    let Some(board) = board.filter(|board| board.row.no == row.board_no) else {
        return Ok(None);
    };
    Ok(complete(ctx, &board, vec![row]).await?.pop())
}

/// Completes the events of a member from other rows: when they were accepted, and whether they were
/// voided.
async fn complete(
    ctx: &Context<'_>,
    board: &Arc<CachedBoard>,
    rows: Vec<score_event::Model>,
) -> crate::error::Result<Vec<ScoreEvent>> {
    let Some(first) = rows.first() else {
        return Ok(vec![]);
    };
    let db = &app(ctx).deployment.reads;
    let mut seqs: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    for row in &rows {
        seqs.entry(row.partition).or_default().push(row.seq);
    }
    let mut accepted: HashMap<(i32, i64), i64> = HashMap::new();
    for (partition, seqs) in seqs {
        let times = commit::times_of_seqs(db, partition, seqs).await?.into_iter();
        accepted.extend(times.map(|(seq, times)| ((partition, seq), times.accepted_at_ms)));
    }
    // A void lies in the partition that held the member when it was committed.
    let seqs = rows.iter().map(|row| row.seq).collect();
    let voided =
        score_event::voided_of_members(db, board.board.no, [first.member.as_str()], seqs).await?;
    let event = |row: score_event::Model| {
        let place = (row.partition, row.seq);
        Ok(ScoreEvent {
            board: board.clone(),
            accepted_at_ms: accepted.get(&place).copied().unwrap_or_default(),
            voided: voided.contains(&row.place()?),
            row,
        })
    };
    rows.into_iter().map(event).collect()
}

/// The page cursor of an event: its place in the history of its member.
fn cursor_of(board: &RankingBoard, row: &score_event::Model) -> PageCursor {
    let layout = board.layout_of(row.generation.unsigned_abs());
    PageCursor::of(&(layout, row.seq, row.event_index))
}

/// The place in a page cursor: layout, seq and index.
fn place_of(cursor: &str) -> crate::error::Result<[i64; 3]> {
    PageCursor::place(cursor)
}
