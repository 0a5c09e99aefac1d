//! The rows that SQL keeps of archived events for the metadata of entries, compared with the
//! archive's files and put right by them.

use std::collections::BTreeMap;

use anyhow::Result;
use engine::history::archive::stage_metadata;
use engine::partition::Partition;
use entity::archive::{archive_file, archive_mark, archived_metadata};
use entity::board;
use entity::history::makers::archived_after;
use entity::history::score_event::Kind as EventKind;
use entity::integrity::integrity_finding::Kind;
use polars::prelude::col;
use ranking::board::Board;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use tokio::task::spawn_blocking;

use crate::diff::files::wrong;
use crate::diff::finding::{Finding, What};
use crate::diff::findings::Findings;
use crate::frame::counted::{in_parts, is_kind};
use crate::frame::events::{METADATA, rows};
use crate::frame::parquet;

/// The rows of one SELECT.
const ROWS_MAX: u64 = 5000;

/// The rows of a file, by seq and index.
type Kept = BTreeMap<(i64, i32), archived_metadata::Model>;

/// A row that differs: as it should be, or one that should not be there.
struct Difference {
    kind: Kind,
    row: archived_metadata::Model,
}

/// Adds a finding for each row of a partition that is missing, altered or too many.
pub(crate) async fn check(
    partition: Partition<'_>,
    board: &Board,
    findings: &mut Findings,
) -> Result<()> {
    for Difference { kind, row } in differences(partition, board).await? {
        let what = What::Event(row.seq.unsigned_abs(), row.event_index.unsigned_abs());
        let finding = Finding::of_no_member(kind, board.no.0, partition.no, what)
            .noted("the metadata that SQL keeps of this archived event is not that of its file");
        findings.add(Finding { member: row.member, ..finding });
    }
    Ok(())
}

/// Puts the rows of a partition right. Returns their number.
///
/// # Errors
/// If SQL does not answer. Repairs made until then stay.
pub(crate) async fn mend(partition: Partition<'_>, board: &Board) -> Result<usize> {
    let (mut put, mut mended) = (vec![], 0);
    for Difference { kind, row } in differences(partition, board).await? {
        mended += 1;
        if kind == Kind::Phantom {
            let key = (row.partition, row.seq, row.event_index);
            archived_metadata::Entity::delete_by_id(key).exec(&partition.db).await?;
        } else {
            put.push(row);
        }
    }
    stage_metadata(partition.deployment, put).await?;
    Ok(mended)
}

async fn differences(partition: Partition<'_>, board: &Board) -> Result<Vec<Difference>> {
    let (db, mut found) = (&partition.db, vec![]);
    if !board.has_metadata {
        return Ok(found);
    }
    let archived_seq = archive_mark::of(db, board.no, partition.no).await?.archived_seq;
    let files = archive_file::of_partition(db, board.no, partition.no).await?;
    for file in files.into_iter().filter(|file| file.first_seq <= archived_seq) {
        let path = partition.archive_dir.join(&file.path);
        let kept = kept(partition, board, &file).await?;
        // A file that is not as it was written is a finding of its own.
        let meant = move || wrong(&path, &file).is_none().then(|| meant(&path)).transpose();
        let Some(mut meant) = spawn_blocking(meant).await?? else { continue };
        for row in kept {
            let place = (row.seq, row.event_index);
            match meant.remove(&place) {
                Some(meant) if meant == row => {}
                Some(meant) => found.push(Difference { kind: Kind::Altered, row: meant }),
                None => found.push(Difference { kind: Kind::Phantom, row }),
            }
        }
        let missing = meant.into_values().map(|row| Difference { kind: Kind::Missing, row });
        found.extend(missing);
    }
    // The rows of a board go with it.
    let living = board::living().filter(board::Column::No.eq(board.no.0));
    if !found.is_empty() && living.one(db).await?.is_none() {
        found.clear();
    }
    Ok(found)
}

/// The rows that SQL should keep of a file's events.
fn meant(path: &std::path::Path) -> Result<Kept> {
    let is_score = is_kind(EventKind::Score);
    let is_kept = col(METADATA).is_not_null().or(is_score.not());
    let events = parquet::scan_events(path)?.filter(is_kept);
    let rows = rows(&in_parts(events)?)?;
    let kept = rows.iter().filter_map(archived_metadata::Model::of_event);
    Ok(kept.map(|row| ((row.seq, row.event_index), row)).collect())
}

/// The rows that SQL keeps of a file's events.
async fn kept(
    partition: Partition<'_>,
    board: &Board,
    file: &archive_file::Model,
) -> Result<Vec<archived_metadata::Model>> {
    let of = (board.no, i32::from(partition.no));
    let (mut after, mut kept) = ((file.first_seq - 1, i32::MAX), vec![]);
    loop {
        let page = archived_after(&partition.db, of, after, file.last_seq, ROWS_MAX).await?;
        let Some(last) = page.last() else { break };
        after = (last.seq, last.event_index);
        kept.extend(page);
    }
    Ok(kept)
}
