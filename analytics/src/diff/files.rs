//! The archive's files of a partition: checks that each is as it was written, and restores damaged
//! ones from the copies.

use std::path::Path;

use anyhow::Result;
use engine::deployment::Deployment;
use engine::deployment::checksum::Sum;
use engine::partition::Partition;
use entity::archive::archive_file;
use entity::integrity::integrity_finding::Kind;
use ranking::board::Board;
use sea_orm::EntityTrait;

use crate::diff::finding::{Finding, What};
use crate::frame::parquet;

/// Attempts to check files while they are written again.
const ATTEMPTS_MAX: usize = 5;

/// Returns the findings about a partition's files of a board, which is archived up to a seq, and
/// the lines (path, size, SHA-256) that the proof digests.
pub(crate) async fn check(
    partition: Partition<'_>,
    board: &Board,
    archived_seq: i64,
) -> Result<(Vec<Finding>, Vec<String>)> {
    if archived_seq == 0 {
        return Ok((vec![], vec![]));
    }
    let files = || archive_file::of_partition(&partition.db, board.no, partition.no);
    let mut present = files().await?;
    let mut checked = (vec![], vec![]);
    for _ in 0..ATTEMPTS_MAX {
        checked = check_each(partition, board, archived_seq, &present);
        // An erasure may have put others in their place meanwhile.
        let now = files().await?;
        if checked.0.is_empty() || now == present {
            break;
        }
        present = now;
    }
    Ok(checked)
}

fn check_each(
    partition: Partition<'_>,
    board: &Board,
    archived_seq: i64,
    files: &[archive_file::Model],
) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut lines, mut through_seq) = (vec![], vec![], 0);
    let mut find = |path: &str, note: String| {
        let what = What::File(path.to_owned());
        findings
            .push(Finding::of_no_member(Kind::Missing, board.no.0, partition.no, what).noted(note));
    };
    for file in files.iter().filter(|file| file.first_seq <= archived_seq) {
        if file.first_seq != through_seq + 1 {
            let lost = format!(
                "archive_file has no row for seqs {} to {}; restore it from a backup of the database",
                through_seq + 1,
                file.first_seq - 1
            );
            find(&file.path, lost);
        }
        through_seq = file.last_seq;
        lines.push(format!("{} {} {}", file.path, file.bytes, file.sha256));
        if let Some(wrong) = wrong(&partition.archive_dir.join(&file.path), file) {
            find(&file.path, wrong);
        }
    }
    if through_seq != archived_seq {
        let lost = format!(
            "archive_file ends at seq {through_seq}, expected {archived_seq}; restore it from a backup of the database"
        );
        find(&format!("partition-{partition}"), lost);
    }
    (findings, lines)
}

/// Describes what is wrong with a file; `None` if it is as it was written.
pub(crate) fn wrong(path: &Path, file: &archive_file::Model) -> Option<String> {
    let needs = "--repair restores it if LAUREL_ARCHIVE_COPY_DIR has a good copy, otherwise restore it from a backup";
    if !path.exists() {
        return Some(format!("the file is missing; {needs}"));
    }
    match parquet::sum(path) {
        Err(error) => Some(format!("{error:#}; {needs}")),
        Ok(sum) if (sum.bytes, &sum.sha256) == (file.bytes.unsigned_abs(), &file.sha256) => None,
        Ok(sum) => Some(format!(
            "the file is damaged: expected {} bytes with SHA-256 {}, found {} bytes with {}; {needs}",
            file.bytes, file.sha256, sum.bytes, sum.sha256
        )),
    }
}

/// Restores a file from a copy that is as it was written; false if there is none. Writes beside the
/// file's path, syncs, then renames.
///
/// # Errors
/// If the archive's directory cannot be written, or SQL does not answer.
pub(crate) async fn put_back(deployment: &Deployment, path: &str) -> Result<bool> {
    let row = archive_file::Entity::find_by_id(path).one(&deployment.db).await?;
    let (Some(row), Some(copies)) = (row, &deployment.archive_copy_dir) else {
        return Ok(false);
    };
    let (copy, target) = (copies.join(path), deployment.archive_dir.join(path));
    if wrong(&copy, &row).is_some() {
        return Ok(false);
    }
    let sum = Sum { bytes: row.bytes.unsigned_abs(), sha256: row.sha256 };
    parquet::copy_durably(&copy, &target, &sum)?;
    Ok(true)
}
