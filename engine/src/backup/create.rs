//! Making a backup, beside the processes that write.
//!
//! First one transaction reads all tables, then the files of the archive that those name are
//! copied: a file is complete before SQL names it, and never changes afterwards. The directory gets
//! its name once everything in it is on the disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use entity::archive::archive_file::State;
use entity::archive::{archive_file, commit_file};
use entity::deployment as deployment_row;
use entity::deployment::clock::sql_now_ms;
use entity::error::Result;
use entity::history::log_cursor;
use entity::sql::begin_long_view;
use ranking::Error;
use sea_orm::{ColumnTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, QueryFilter};

use super::{
    ARCHIVE, ArchiveFile, FORMAT, LEFT_OUT, MANIFEST, MANIFEST_HASH, Manifest, PartitionHead,
    TABLES, file, table,
};
use crate::deployment::checksum;
use crate::deployment::files::{failed, keep_private, write_private};
use crate::failpoint;
use crate::settings::Settings;

/// Writes a backup of a database and of the archive that the settings name to a new directory,
/// which is there whole or not at all. `progress` gets a line for each step.
///
/// # Errors
/// `Invalid` if something is at the path, or if the schema is not this program's; `Corrupt` if a
/// file of the archive is missing or damaged; if SQL or the system fails.
pub async fn create(
    settings: &Settings,
    db: &DatabaseConnection,
    directory: &Path,
    progress: &mut dyn FnMut(String),
) -> Result<Manifest> {
    if fs::symlink_metadata(directory).is_ok() {
        return Err(Error::Invalid(format!(
            "{} is there: expected the path of a new directory",
            directory.display()
        ))
        .into());
    }
    let partial = partial_path(directory)?;
    keep_private(&partial)?;
    let made = fill(settings, db, &partial, progress).await;
    let made = made.and_then(|manifest| {
        let parent = partial.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let placed = sync(&partial)
            .and_then(|()| fs::rename(&partial, directory))
            .and_then(|()| File::open(parent)?.sync_all());
        placed.map_err(|error| failed(directory, &error))?;
        Ok(manifest)
    });
    if made.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    made
}

/// A name beside the directory for a backup that is not whole.
fn partial_path(directory: &Path) -> Result<PathBuf> {
    let name = directory.file_name().ok_or_else(|| {
        Error::Invalid(format!("{}: expected the path of a new directory", directory.display()))
    })?;
    let name = format!("{}.{}.partial", name.to_string_lossy(), entity::random_id());
    Ok(directory.with_file_name(name))
}

/// Writes the names in a directory, and in those below it, to the disk.
fn sync(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        }
    }
    File::open(directory)?.sync_all()
}

async fn fill(
    settings: &Settings,
    db: &DatabaseConnection,
    partial: &Path,
    progress: &mut dyn FnMut(String),
) -> Result<Manifest> {
    check_schema(db).await?;
    let view = begin_long_view(db).await?;
    let read = read(&view, partial, progress).await;
    view.rollback().await?;
    let mut manifest = read?;
    failpoint::hit("backup-read");
    let total: u64 = manifest.archive.iter().map(|file| file.bytes).sum();
    progress(format!("archive: {} files of {total} bytes", manifest.archive.len()));
    let mut copied = vec![];
    for file in std::mem::take(&mut manifest.archive) {
        match copy_archived(settings, &file, &partial.join(ARCHIVE)) {
            Ok(()) => copied.push(file),
            Err(_) if is_gone(db, &file).await? => progress(format!(
                "left out: {} of a deleted board, which the archive lacks or has damaged",
                file.path
            )),
            Err(error) => return Err(error),
        }
    }
    manifest.archive = copied;
    let text = serde_json::to_string_pretty(&manifest)
        .map_err(|error| Error::Corrupt(format!("the manifest cannot be written: {error}")))?;
    let of_file = |error: std::io::Error| failed(partial, &error);
    write_private(&partial.join(MANIFEST), &text).map_err(of_file)?;
    let hash = format!("{}  {MANIFEST}\n", checksum::sha256_of(text.as_bytes()));
    write_private(&partial.join(MANIFEST_HASH), &hash).map_err(of_file)?;
    failpoint::hit("backup-written");
    Ok(manifest)
}

/// Checks that the database has the schema of this program: its rows are read by that.
async fn check_schema(db: &DatabaseConnection) -> Result<()> {
    let steps = migration::status(db).await?;
    match steps.iter().find(|(_, state)| state != "Applied") {
        None => Ok(()),
        Some((name, _)) => Err(Error::Invalid(format!(
            "the database lacks the step {name} of the schema: expected the schema of this program, version {}; make the backup with the program that serves the database",
            env!("CARGO_PKG_VERSION")
        ))
        .into()),
    }
}

/// Writes all tables; the manifest, with the files of the archive that are still to be copied.
async fn read(
    view: &DatabaseTransaction,
    partial: &Path,
    progress: &mut dyn FnMut(String),
) -> Result<Manifest> {
    let row = deployment_row::find(view).await?;
    let row = row.ok_or_else(|| Error::Corrupt("the deployment's row is missing".into()))?;
    let created_at_ms = sql_now_ms(view).await?;
    let mut heads = vec![];
    for cursor in log_cursor::all(view).await? {
        let log_cursor::Model { partition, seq, commit_id: commit, .. } = cursor;
        heads.push(PartitionHead { partition, seq, commit });
    }
    let archive = archive_of(view).await?;
    let mut tables = vec![];
    for name in migration::tables().iter().filter(|name| !LEFT_OUT.contains(&name.as_str())) {
        let path = partial.join(TABLES).join(format!("{name}.ndjson.gz"));
        let written = table::write(view, name, &path).await?;
        progress(format!("{name}: {} rows", written.rows));
        tables.push(written);
    }
    Ok(Manifest {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        schema: migration::steps(),
        deployment: row.identity,
        created_at_ms,
        heads,
        tables,
        archive,
    })
}

/// The files of the archive that SQL relies on.
async fn archive_of(view: &DatabaseTransaction) -> Result<Vec<ArchiveFile>> {
    let events = archive_file::Entity::find()
        .filter(archive_file::Column::State.ne(State::Writing))
        .all(view)
        .await?;
    let events = events.into_iter().map(|file| (file.path, file.bytes, file.sha256));
    let commits = commit_file::Entity::find().all(view).await?;
    let commits = commits.into_iter().map(|file| (file.path, file.bytes, file.sha256));
    let files = events.chain(commits);
    let files = files.map(|(path, bytes, sha256)| ArchiveFile {
        path,
        bytes: bytes.unsigned_abs(),
        sha256,
    });
    Ok(files.collect())
}

/// True if a file is of a deleted board and is still to be removed: it holds only events that count
/// no more. One that was removed meanwhile is no such file, as the commits that the backup has do
/// not count its events as gone.
async fn is_gone(db: &DatabaseConnection, file: &ArchiveFile) -> Result<bool> {
    let row = archive_file::Entity::find_by_id(&file.path).one(db).await?;
    Ok(row.is_some_and(|row| row.state == State::Gone))
}

/// Copies a file of the archive, or its second copy where that one is not what SQL knows.
fn copy_archived(settings: &Settings, wanted: &ArchiveFile, to: &Path) -> Result<()> {
    let to = to.join(&wanted.path);
    let known = checksum::Sum { bytes: wanted.bytes, sha256: wanted.sha256.clone() };
    for place in settings.archive_places() {
        let from = place.join(&wanted.path);
        match file::copy(&from, &to) {
            Ok(sum) if sum == known => return Ok(()),
            Ok(_) => tracing::warn!(file = %from.display(), "a file of the archive is damaged"),
            Err(error) => {
                tracing::warn!(file = %from.display(), %error, "a file of the archive cannot be copied")
            }
        }
        if to.exists() {
            fs::remove_file(&to).map_err(|error| failed(&to, &error))?;
        }
    }
    Err(Error::Corrupt(format!(
        "the file {} of the archive is missing or damaged: restore it by `laurel diff --repair`, or make the backup again if the archive changed meanwhile",
        wanted.path
    ))
    .into())
}
