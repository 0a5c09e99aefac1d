//! Files of commits: those whose events have all left SQL leave it as well.
//!
//! A file is written once more, at the other one of its two paths, if a board is deleted that has
//! archived events of its commits, or if a member is erased that has some.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use engine::deployment::Deployment;
use engine::deployment::checksum::Sum;
use engine::history::archive;
use engine::partition::Partition;
use entity::archive::{archive_file, commit_file};
use entity::history::{commit, dead_letter, log_cursor, score_event};
use polars::prelude::{Column, DataFrame, NamedFrom, Series, col, lit};
use ranking::commit::content::{LEAF_BYTES, from_hex, to_hex};
use ranking::id::PartitionNo;
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};

use crate::display_path;
use crate::frame::counted::in_parts;
use crate::frame::parquet;

/// The most events that the commits of a file have, unless its last commit has more.
const EVENTS_MAX: usize = 200_000;

/// The most commits of a file.
const COMMITS_MAX: usize = 200_000;

/// The commits that one SELECT reads, and one DELETE drops.
const STEP: i64 = 1000;

/// Moves the commits of all partitions that were accepted before an instant from SQL to files, but
/// none from the first one on that has an event or a refused event in SQL, or whose event ids may
/// still count. Returns their number.
///
/// # Errors
/// If a store does not answer, or a file cannot be written; run it again.
pub async fn prune(deployment: &Deployment, before_ms: i64) -> Result<u64> {
    let mut pruned = 0;
    for partition in deployment.partitions() {
        drop_rows(partition).await?;
        let last_seq = last_free(partition, before_ms).await?;
        while write(partition, last_seq).await? {
            pruned += drop_rows(partition).await?;
        }
    }
    Ok(pruned)
}

/// Removes the files of commits that a killed run left at the other one of their two paths.
///
/// # Errors
/// If SQL does not answer, or a file cannot be removed.
pub async fn clear_away(deployment: &Deployment) -> Result<()> {
    for partition in deployment.partitions() {
        for file in commit_file::of_partition(&partition.db, partition.no).await? {
            parquet::remove_from_archive(deployment, &other_path(&file.path))?;
        }
    }
    Ok(())
}

/// The seq of the last commit that may leave SQL.
async fn last_free(partition: Partition<'_>, before_ms: i64) -> Result<i64> {
    let (db, no) = (&partition.db, i32::from(partition.no));
    let Some(cursor) = log_cursor::of(db, partition.no).await? else { return Ok(0) };
    // The last commit stays, whatever its age: the log leads on from it, and recovery takes the
    // clock from it.
    let Some(last) = partition.commit(cursor.seq).await? else { return Ok(0) };
    let mut end_seq = last.seq;
    let before_ms = before_ms.min(last.clock_ms - partition.dedup.kept_ms());
    use {commit::Column as C, dead_letter::Column as D, score_event::Column as E};
    let young = commit::Entity::find()
        .select_only()
        .column_as(C::Seq.min(), "seq")
        .filter(C::Partition.eq(no))
        // A process' clock may be behind that of Redis, by which event ids are kept.
        .filter(
            Condition::any().add(C::AcceptedAtMs.gte(before_ms)).add(C::ClockMs.gte(before_ms)),
        );
    let with_event = score_event::Entity::find()
        .select_only()
        .column_as(E::Seq.min(), "seq")
        .filter(E::Partition.eq(no));
    let with_letter = dead_letter::Entity::find()
        .select_only()
        .column_as(D::Seq.min(), "seq")
        .filter(D::Partition.eq(no));
    let firsts: [Option<Option<i64>>; 3] = [
        young.into_tuple().one(db).await?,
        with_event.into_tuple().one(db).await?,
        with_letter.into_tuple().one(db).await?,
    ];
    for first in firsts.into_iter().flatten().flatten() {
        end_seq = end_seq.min(first);
    }
    Ok(end_seq - 1)
}

/// Writes the next file of a partition, up to a commit, and records it once the disk has it.
/// Returns false if there is nothing to write.
async fn write(partition: Partition<'_>, last_seq: i64) -> Result<bool> {
    let last = commit_file::last(&partition.db, partition.no).await?;
    let mut after_seq = last.map_or(0, |last| last.last_seq);
    let first_seq = after_seq + 1;
    let (mut rows, mut events): (Vec<commit::Model>, usize) = (vec![], 0);
    while rows.len() < COMMITS_MAX && events < EVENTS_MAX && after_seq < last_seq {
        let page = commit::page_after(&partition.db, partition.no, after_seq, STEP as u64).await?;
        ensure!(
            !page.is_empty(),
            "commit {} of partition {partition} is missing; run `laurel diff --full`",
            after_seq + 1
        );
        for row in page.into_iter().filter(|row| row.seq <= last_seq) {
            let is_next = rows.last().is_none_or(|last| last.id == row.parent);
            ensure!(
                row.seq == after_seq + 1 && is_next && row.computed_id()? == row.id,
                "commit {} of partition {partition} is missing or was altered; run `laurel diff --full`",
                after_seq + 1
            );
            after_seq = row.seq;
            events += row.leaves.len() / LEAF_BYTES;
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Ok(false);
    }
    let path = format!("commits/partition-{partition}-from-{first_seq}.parquet");
    let sum = write_at(partition.deployment, &path, &rows)?;
    let row = commit_file::Model {
        path,
        partition: partition.no.into(),
        first_seq,
        last_seq: after_seq,
        bytes: sum.bytes as i64,
        sha256: sum.sha256,
        created_at_ms: partition.clock.now_ms(),
    };
    commit_file::Entity::insert(row.into_active_model())
        .exec_without_returning(&partition.db)
        .await
        .context("another archive is writing commits; wait until it ends")?;
    Ok(true)
}

/// Counts the events of a deleted board's file as gone, by partition and seq: in SQL, and in the
/// files of their commits.
///
/// # Errors
/// If SQL does not answer, or a file of commits is not as it was written; run it again.
pub async fn abandon(
    deployment: &Deployment,
    file: &archive_file::Model,
    gone: &BTreeMap<(i32, i64), u32>,
) -> Result<()> {
    let again = count_gone(deployment, file.partition, gone).await?;
    archive::abandon(deployment, file, gone, &again).await?;
    remove_former(deployment, &again)
}

/// Writes the files of a partition's commits once more that have events in `gone`, with these
/// counts. Returns the former paths and the new files, which SQL does not name yet.
///
/// # Errors
/// As [`abandon`].
pub async fn count_gone(
    deployment: &Deployment,
    partition: i32,
    gone: &BTreeMap<(i32, i64), u32>,
) -> Result<Vec<(String, commit_file::Model)>> {
    let mut again = vec![];
    let files = commit_file::of_partition(&deployment.db, PartitionNo(partition.try_into()?));
    for former in files.await? {
        let of_file = (partition, former.first_seq)..=(partition, former.last_seq);
        if gone.range(of_file).next().is_none() {
            continue;
        }
        let count = (former.last_seq - former.first_seq + 1).unsigned_abs();
        let mut rows = read(deployment, &former, former.first_seq - 1, count)?;
        for row in &mut rows {
            let more = gone.get(&(partition, row.seq)).copied().unwrap_or_default();
            row.gone += i32::try_from(more)?;
        }
        let path = other_path(&former.path);
        let sum = write_at(deployment, &path, &rows)?;
        let (bytes, sha256) = (sum.bytes as i64, sum.sha256);
        again.push((former.path.clone(), commit_file::Model { path, bytes, sha256, ..former }));
    }
    Ok(again)
}

/// Removes the former files of those that were written once more.
///
/// # Errors
/// If one cannot be removed.
pub fn remove_former(
    deployment: &Deployment,
    again: &[(String, commit_file::Model)],
) -> Result<()> {
    for (former, _) in again {
        parquet::remove_from_archive(deployment, former)?;
    }
    Ok(())
}

/// Writes commits to a file, and to its copy.
fn write_at(deployment: &Deployment, path: &str, rows: &[commit::Model]) -> Result<Sum> {
    // SQL does not name it: a run that was killed left it.
    parquet::remove(&deployment.archive_dir.join(path))?;
    parquet::write_to_archive(deployment, path, &mut frame(rows)?)
}

/// The path at which a file of the archive is written once more.
pub fn other_path(path: &str) -> String {
    match path.strip_suffix("-again.parquet") {
        Some(first) => format!("{first}.parquet"),
        None => format!("{}-again.parquet", path.strip_suffix(".parquet").unwrap_or(path)),
    }
}

/// Deletes the rows of commits that files have, in steps. SQL refuses to delete a commit that still
/// has an event.
async fn drop_rows(partition: Partition<'_>) -> Result<u64> {
    use commit::Column::{Partition as In, Seq};
    let Some(last) = commit_file::last(&partition.db, partition.no).await? else { return Ok(0) };
    let last_seq = last.last_seq;
    let mut dropped = 0;
    loop {
        let first: Option<i64> = commit::Entity::find()
            .select_only()
            .column(Seq)
            .filter(In.eq(i32::from(partition.no)))
            .filter(Seq.lte(last_seq))
            .order_by_asc(Seq)
            .limit(1)
            .into_tuple()
            .one(&partition.db)
            .await?;
        let Some(first) = first else { return Ok(dropped) };
        let gone = commit::Entity::delete_many()
            .filter(In.eq(i32::from(partition.no)))
            .filter(Seq.between(first, last_seq.min(first + STEP - 1)))
            .exec(&partition.db)
            .await?;
        dropped += gone.rows_affected;
    }
}

/// The commits of a file after a seq, at most `count`.
///
/// # Errors
/// If the file is missing or altered; the message names it.
pub fn read(
    deployment: &Deployment,
    file: &commit_file::Model,
    after_seq: i64,
    count: u64,
) -> Result<Vec<commit::Model>> {
    let path = deployment.archive_dir.join(&file.path);
    if file.first_seq > after_seq {
        let sum = parquet::sum(&path)?;
        ensure!(
            (sum.bytes, &sum.sha256) == (file.bytes.unsigned_abs(), &file.sha256),
            "the file of commits {} is not as it was written; restore it from a backup",
            display_path(&path)
        );
    }
    let last_seq = after_seq.max(file.first_seq - 1) + count as i64;
    let of_page = col("seq").gt(lit(after_seq)).and(col("seq").lt_eq(lit(last_seq)));
    let mut rows = rows(&in_parts(parquet::scan(&path)?.filter(of_page))?)?;
    rows.sort_unstable_by_key(|row| row.seq);
    ensure!(
        rows.is_sorted_by(|one, next| one.seq < next.seq),
        "the file of commits {} has a commit twice; restore it from a backup",
        display_path(&path)
    );
    Ok(rows)
}

fn frame(rows: &[commit::Model]) -> Result<DataFrame> {
    let numbers = |name: &str, number: fn(&commit::Model) -> i64| -> Column {
        Series::new(name.into(), rows.iter().map(number).collect::<Vec<i64>>()).into()
    };
    let texts = |name: &str, text: fn(&commit::Model) -> String| -> Column {
        Series::new(name.into(), rows.iter().map(text).collect::<Vec<String>>()).into()
    };
    Ok(DataFrame::new_infer_height(vec![
        numbers("partition", |row| row.partition.into()),
        numbers("seq", |row| row.seq),
        texts("id", |row| row.id.clone()),
        texts("parent", |row| row.parent.clone()),
        numbers("accepted_at_ms", |row| row.accepted_at_ms),
        numbers("clock_ms", |row| row.clock_ms),
        numbers("events", |row| row.events.into()),
        numbers("gone", |row| row.gone.into()),
        numbers("version", |row| row.version.into()),
        texts("random", |row| to_hex(&row.random)),
        texts("leaves", |row| to_hex(&row.leaves)),
    ])?)
}

fn rows(frame: &DataFrame) -> Result<Vec<commit::Model>> {
    let number = |name: &str, place: usize| -> Result<i64> {
        frame.column(name)?.i64()?.get(place).context("a file of commits lacks a number")
    };
    let text = |name: &str, place: usize| -> Result<String> {
        let text = frame.column(name)?.str()?.get(place).map(str::to_owned);
        text.context("a file of commits lacks a text")
    };
    let row = |place: usize| -> Result<commit::Model> {
        let bytes = |name| from_hex(&text(name, place)?).context("a file of commits is damaged");
        Ok(commit::Model {
            partition: number("partition", place)?.try_into()?,
            seq: number("seq", place)?,
            id: text("id", place)?,
            parent: text("parent", place)?,
            accepted_at_ms: number("accepted_at_ms", place)?,
            clock_ms: number("clock_ms", place)?,
            events: number("events", place)?.try_into()?,
            gone: number("gone", place)?.try_into()?,
            version: number("version", place)?.try_into()?,
            random: bytes("random")?,
            leaves: bytes("leaves")?,
        })
    };
    (0..frame.height()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_commits_has_two_paths() {
        let path = "commits/partition-3-from-1.parquet";
        let other = other_path(path);
        assert_eq!(other, "commits/partition-3-from-1-again.parquet");
        assert_eq!(other_path(&other), path);
    }

    #[test]
    fn a_frame_gives_back_the_commits_it_was_made_of() {
        let row = commit::Model {
            partition: 3,
            seq: 7,
            id: "i".to_owned(),
            parent: "p".to_owned(),
            accepted_at_ms: 5,
            clock_ms: 6,
            events: 1,
            gone: 1,
            version: 1,
            random: vec![1; 16],
            leaves: vec![2; 32],
        };
        let empty = commit::Model { seq: 8, events: 0, gone: 0, leaves: vec![], ..row.clone() };
        let expected = vec![row, empty];
        assert_eq!(rows(&frame(&expected).unwrap()).unwrap(), expected);
    }
}
