//! The events of a plan: the archive's files, and files of what SQL has after them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use entity::archive::{archive_file, archive_mark};
use entity::history::score_event;
use polars::prelude::DataFrame;
use ranking::board::Board;
use ranking::commit::Head;
use ranking::id::{MemberId, PartitionNo};
use ranking::shard::shard_of;

use super::{EVENTS, PlanFile};
use crate::diff::files::wrong;
use crate::display_path;
use crate::frame::events::Events;
use crate::frame::history::{HELD_MAX, each, marks, spans};
use crate::frame::parquet;
use crate::job::Job;
use engine::failpoint;

/// Writes a board's events up to some heads to the plan's directory.
///
/// # Errors
/// If the board is archived meanwhile, a file of the archive is missing or altered, or the disk
/// does not take a file.
pub(super) async fn write(
    deployment: &Deployment,
    board: &Board,
    heads: &BTreeMap<PartitionNo, Head>,
    dir: &Path,
    job: &Job,
) -> Result<Vec<PlanFile>> {
    fs::create_dir_all(dir.join(EVENTS))
        .with_context(|| format!("{} cannot be created", display_path(&dir.join(EVENTS))))?;
    let before = marks(deployment, board).await?;
    job.stage("copying the archive", 0);
    let mut files = vec![];
    for mark in before.values() {
        files.extend(archived(deployment, board, mark, heads, dir).await?);
    }
    job.stage("reading history", 0);
    let mut writing =
        Writing { board, dir, partition: PartitionNo(0), held: Events::default(), files };
    for span in spans(deployment, board, heads, &before) {
        writing.partition = span.partition;
        each(deployment, &span, |row| {
            job.advance(1);
            writing.push(row)
        })
        .await?;
        writing.flush()?;
    }
    // Rows are deleted only after a mark has moved past them.
    if marks(deployment, board).await? != before {
        bail!(
            "the board was archived while its plan was made; make it again, in another directory"
        );
    }
    if writing.files.is_empty() {
        // An engine reads a schema from a file.
        writing.write()?;
    }
    Ok(writing.files)
}

/// Copies the archive's files of a partition.
async fn archived(
    deployment: &Deployment,
    board: &Board,
    mark: &archive_mark::Model,
    heads: &BTreeMap<PartitionNo, Head>,
    dir: &Path,
) -> Result<Vec<PlanFile>> {
    let partition = PartitionNo(mark.partition.try_into()?);
    ensure!(
        heads[&partition].seq as i64 >= mark.archived_seq,
        "the board was archived while its plan was made; make it again, in another directory"
    );
    let known = archive_file::of_partition(&deployment.db, board.no, partition).await?;
    let (mut files, mut through_seq) = (vec![], 0);
    for file in known.iter().filter(|file| file.first_seq <= mark.archived_seq) {
        let from = deployment.archive_dir.join(&file.path);
        if let Some(wrong) = wrong(&from, file) {
            bail!(
                "{}: {wrong}; run this where the archive is (LAUREL_ARCHIVE_DIR)",
                display_path(&from)
            );
        }
        ensure!(
            file.first_seq == through_seq + 1,
            "the archive of board {} has no file of partition {partition} for seqs {} to {}; restore the table archive_file from a backup",
            board.no,
            through_seq + 1,
            file.first_seq - 1
        );
        through_seq = file.last_seq;
        let path = format!("{EVENTS}/partition-{partition}-archived-{:05}.parquet", files.len());
        let to = dir.join(&path);
        // No link: the engine's user gets rights in the plan, and none to the archive's own bytes.
        // The mode of the copy is that of the plan's other files.
        let copied = || std::io::copy(&mut fs::File::open(&from)?, &mut fs::File::create(&to)?);
        copied().with_context(|| format!("{} cannot be written", display_path(&to)))?;
        let rows = file.events.unsigned_abs() as usize;
        let (bytes, sha256) = (file.bytes.unsigned_abs(), file.sha256.clone());
        files.push(PlanFile { path, bytes, sha256, rows });
    }
    ensure!(
        through_seq == mark.archived_seq,
        "the archive of board {} ends at seq {through_seq} in partition {partition}, expected {}; restore the table archive_file from a backup",
        board.no,
        mark.archived_seq
    );
    Ok(files)
}

/// Files that are being written.
struct Writing<'a> {
    board: &'a Board,
    dir: &'a Path,
    partition: PartitionNo,
    held: Events,
    files: Vec<PlanFile>,
}

impl Writing<'_> {
    fn push(&mut self, mut row: score_event::Model) -> Result<()> {
        // No fold looks at these.
        row.salt = vec![];
        row.event_id = None;
        row.metadata = None;
        row.origin = None;
        let shard = shard_of(&MemberId::new(&row.member)?, self.board.rules.shards);
        self.held.push(row, shard, None);
        if self.held.len() >= HELD_MAX {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.held.len() == 0 {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let mut frame = std::mem::take(&mut self.held).into_frame()?;
        let path = format!("{EVENTS}/partition-{}-{:05}.parquet", self.partition, self.files.len());
        self.files.push(write_file(self.dir, &path, &mut frame)?);
        failpoint::hit("plan-file-written");
        Ok(())
    }
}

/// Writes a file of a plan.
pub(super) fn write_file(dir: &Path, path: &str, frame: &mut DataFrame) -> Result<PlanFile> {
    let to = dir.join(path);
    let mut write = || -> Result<()> {
        let file = fs::File::create(&to)?;
        parquet::write(&file, frame)?;
        Ok(file.sync_all()?)
    };
    write().with_context(|| format!("{} cannot be written", display_path(&to)))?;
    let sum = parquet::sum(&to)?;
    Ok(PlanFile {
        path: path.to_owned(),
        bytes: sum.bytes,
        sha256: sum.sha256,
        rows: frame.height(),
    })
}
