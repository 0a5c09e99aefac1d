//! A member's events on a board, from the archive and from SQL, each with its state.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use anyhow::Result;
use entity::archive::archive_mark;
use entity::history::commit;
use entity::history::score_event::{self, Kind};
use ranking::board::Board;
use ranking::commit::EventPlace;
use ranking::commit::content::to_hex;
use ranking::score;
use sea_orm::{ActiveEnum, ColumnTrait, QueryFilter};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Kept;
use super::archived::{self, Archived};
use super::document::{Document, Shape, Time};
use crate::frame::counted::is_kind;

/// The events of one page in SQL.
const PAGE: usize = 1000;

/// The state of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum State {
    /// It counts.
    Counts,
    /// A void took it back.
    Voided,
    /// A removal of the member came after it.
    Removed,
}

/// An event as the document has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    id: String,
    kind: String,
    state: State,
    is_archived: bool,
    score: Option<String>,
    at: Option<Time>,
    at_sent: bool,
    accepted_at: Option<Time>,
    event_id: Option<String>,
    segments: Vec<String>,
    metadata: Option<Box<RawValue>>,
    voids: Option<String>,
    copy_of: Option<String>,
    salt: String,
}

/// The events of a member on a board that take others back.
#[derive(Default)]
struct Amendments {
    voided: HashSet<EventPlace>,
    /// The layout, seq and index of the last removal that is not voided.
    removed_before: Option<(usize, i64, i32)>,
}

/// A member's events on a board.
pub(super) struct Events<'a> {
    kept: &'a Kept<'a>,
    board: &'a Board,
    files: Vec<PathBuf>,
    /// Events up to here are in files, although SQL may still have them.
    archived_seq: i64,
    amendments: Amendments,
}

impl<'a> Events<'a> {
    /// Reads which events take others back.
    ///
    /// # Errors
    /// If SQL does not answer, a file of the archive is missing or altered, or a row holds a value
    /// that Laurel never writes.
    pub(super) async fn of(kept: &'a Kept<'a>, board: &'a Board) -> Result<Self> {
        let files = archived::files(kept, board).await?;
        let partition = kept.partitions.of_member(board, &kept.member);
        let mark = archive_mark::of(kept.view, board.no, partition).await?;
        let archived_seq = mark.archived_seq;
        let mut events =
            Self { kept, board, files, archived_seq, amendments: Amendments::default() };
        events.amendments = events.read_amendments().await?;
        Ok(events)
    }

    async fn read_amendments(&self) -> Result<Amendments> {
        let mut rows = vec![];
        for file in &self.files {
            let amendments = is_kind(Kind::Score).not();
            let of_file = archived::events_in(self.kept, file, Some(amendments))?;
            rows.extend(of_file.into_iter().map(|(row, _)| row));
        }
        let in_sql = score_event::history_of(self.board, self.kept.key())
            .filter(score_event::Column::Seq.gt(self.archived_seq))
            // An index serves this condition.
            .filter(score_event::Column::AtMs.is_null());
        rows.extend(in_sql.all(self.kept.view).await?);
        let voided: HashSet<EventPlace> =
            rows.iter().filter_map(score_event::Model::voids).collect();
        let mut removed_before = None;
        for row in rows.iter().filter(|row| row.kind == Kind::Removal) {
            if !voided.contains(&row.place()?) {
                removed_before = removed_before.max(Some(self.order(row)));
            }
        }
        Ok(Amendments { voided, removed_before })
    }

    /// Writes the events as a list, oldest first. Returns their number.
    ///
    /// # Errors
    /// As [`Self::of`], or if the document cannot be written.
    pub(super) async fn write(&self, document: &mut Document) -> Result<u64> {
        document.open(Some("events"), Shape::List, &())?;
        let mut count = 0;
        for file in &self.files {
            for (row, accepted_at_ms) in archived::events_in(self.kept, file, None)? {
                document.item(&self.event((row, accepted_at_ms), true)?)?;
                count += 1;
            }
        }
        let mut last: Option<[i64; 3]> = None;
        loop {
            let of_member = (self.board, self.kept.key());
            let page = score_event::page_of_newer(
                self.kept.view,
                of_member,
                self.archived_seq,
                last,
                PAGE,
            );
            let (rows, more) = page.await?;
            let Some(newest) = rows.first() else { break };
            let (layout, seq, index) = self.order(newest);
            last = Some([layout as i64, seq, index.into()]);
            let times = self.times(&rows).await?;
            // A page has the newest event first.
            for row in rows.into_iter().rev() {
                let accepted_at_ms = times.get(&(row.partition, row.seq)).copied();
                document.item(&self.event((row, accepted_at_ms), false)?)?;
                count += 1;
            }
            if !more {
                break;
            }
        }
        document.close()?;
        Ok(count)
    }

    /// When the commits of some events were accepted, by partition and seq.
    async fn times(&self, rows: &[score_event::Model]) -> Result<BTreeMap<(i32, i64), i64>> {
        let mut seqs: BTreeMap<i32, BTreeSet<i64>> = BTreeMap::new();
        for row in rows {
            seqs.entry(row.partition).or_default().insert(row.seq);
        }
        let mut times = BTreeMap::new();
        for (partition, seqs) in seqs {
            let seqs = seqs.into_iter().collect();
            let of_seqs = commit::times_of_seqs(self.kept.view, partition, seqs).await?;
            times.extend(
                of_seqs.into_iter().map(|(seq, times)| ((partition, seq), times.accepted_at_ms)),
            );
        }
        Ok(times)
    }

    fn event(&self, (row, accepted_at_ms): Archived, is_archived: bool) -> Result<Event> {
        let state = self.state(&row)?;
        let global_id =
            |place: EventPlace| format!("event:{}:{}:{}", place.partition, place.seq, place.index);
        let origin = row.origin.as_deref().map(str::parse).transpose()?;
        let decimals = self.board.rules.decimals;
        Ok(Event {
            id: global_id(row.place()?),
            kind: row.kind.to_value(),
            state,
            is_archived,
            score: row.score.map(|score| score::format(score, decimals)),
            at: row.at_ms.map(Time),
            at_sent: row.at_sent,
            accepted_at: accepted_at_ms.map(Time),
            segments: row.segments()?,
            voids: row.voids().map(global_id),
            copy_of: origin.map(global_id),
            metadata: row.metadata.map(RawValue::from_string).transpose()?,
            event_id: row.event_id,
            salt: to_hex(&row.salt),
        })
    }

    fn state(&self, row: &score_event::Model) -> Result<State> {
        let removed_before = &self.amendments.removed_before;
        Ok(if self.amendments.voided.contains(&row.place()?) {
            State::Voided
        } else if removed_before.is_some_and(|last| self.order(row) < last) {
            State::Removed
        } else {
            State::Counts
        })
    }

    /// The place of an event in the order of the member's history.
    fn order(&self, row: &score_event::Model) -> (usize, i64, i32) {
        (self.board.layout_of(row.generation.unsigned_abs()), row.seq, row.event_index)
    }
}
