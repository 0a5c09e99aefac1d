//! A member's events in the files of the archive, file by file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use entity::archive::archive_file::{self, Column, State};
use entity::history::score_event;
use polars::prelude::{Expr, col, lit};
use ranking::board::Board;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use tokio::task::block_in_place;

use super::Kept;
use crate::frame::counted::in_parts;
use crate::frame::{events, parquet};

/// An archived event, and when it was accepted, in Unix milliseconds.
pub(super) type Archived = (score_event::Model, Option<i64>);

/// The files that may hold a member's events of a board, each as it was written.
///
/// Boards with archived events keep their number of shards, so all of them are of one partition.
///
/// # Errors
/// If SQL does not answer, or a file is missing or altered, and so is its copy; the message names
/// it.
pub(super) async fn files(kept: &Kept<'_>, board: &Board) -> Result<Vec<PathBuf>> {
    let partition = kept.partitions.of_member(board, &kept.member);
    let rows = archive_file::Entity::find()
        .filter(Column::BoardNo.eq(board.no.0))
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::State.is_in([State::Archived, State::Dropped, State::Gone]))
        .order_by_asc(Column::FirstSeq)
        .all(kept.view)
        .await?;
    rows.iter().map(|row| block_in_place(|| intact(kept, row))).collect()
}

/// The path of a file, or else of its copy, that is as it was written.
fn intact(kept: &Kept<'_>, row: &archive_file::Model) -> Result<PathBuf> {
    for place in &kept.archive {
        let path = place.join(&row.path);
        let sum = parquet::sum(&path);
        if sum.is_ok_and(|sum| (sum.bytes, &sum.sha256) == (row.bytes.unsigned_abs(), &row.sha256))
        {
            return Ok(path);
        }
    }
    bail!(
        "the file {} of the archive is missing or altered: restore it by `laurel diff --repair`, or run this again if the archive changed meanwhile",
        row.path
    )
}

/// The member's events in a file that meet a condition, in order; all of them without one.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn events_in(
    kept: &Kept<'_>,
    path: &Path,
    which: Option<Expr>,
) -> Result<Vec<Archived>> {
    let own = col("member").eq(lit(kept.key()));
    let own = which.map_or(own.clone(), |which| own.and(which));
    let frame = block_in_place(|| in_parts(parquet::scan_events(path)?.filter(own)))?;
    let accepted =
        frame.column("accepted_at_ms").context("a file of the archive lacks a column")?;
    let accepted: Vec<Option<i64>> = accepted.i64()?.iter().collect();
    let mut events: Vec<Archived> = events::rows(&frame)?.into_iter().zip(accepted).collect();
    events.sort_unstable_by_key(|(row, _)| (row.seq, row.event_index));
    Ok(events)
}
