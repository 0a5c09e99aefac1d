//! Parquet files: written whole or not at all, and identified by a checksum.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use engine::deployment::Deployment;
use engine::deployment::checksum::{Sum, sum_of};
use polars::prelude::{
    DataFrame, DataType, LazyFrame, NULL, ParquetCompression, ParquetReader, ParquetWriter,
    PlRefPath, ScanArgsParquet, SerReader, lit,
};

use crate::display_path;
use crate::frame::events::LATER;
use engine::failpoint;

/// Writes a frame to a file of the archive, and copies it if the archive has copies. The path is
/// relative to the archive's directory.
///
/// # Errors
/// If a disk does not take it or returns something else, or if the path is taken.
pub fn write_to_archive(deployment: &Deployment, path: &str, frame: &mut DataFrame) -> Result<Sum> {
    let whole = deployment.archive_dir.join(path);
    let sum = write_durably(&whole, frame)?;
    if let Some(copies) = &deployment.archive_copy_dir {
        copy_durably(&whole, &copies.join(path), &sum)?;
    }
    Ok(sum)
}

/// Removes a file of the archive and its copy, if they exist.
///
/// # Errors
/// If one cannot be removed.
pub fn remove_from_archive(deployment: &Deployment, path: &str) -> Result<()> {
    remove(&deployment.archive_dir.join(path))?;
    if let Some(copies) = &deployment.archive_copy_dir {
        remove(&copies.join(path))?;
    }
    Ok(())
}

/// Writes a frame beside its path, renames it once the disk has it, reads it back and compares.
///
/// # Errors
/// If the disk does not take it or returns something else, or if the path is taken.
fn write_durably(path: &Path, frame: &mut DataFrame) -> Result<Sum> {
    let beside = beside(path);
    let directory = path.parent().context("the path has no directory")?;
    let mut written = || -> Result<()> {
        fs::create_dir_all(directory)?;
        let file = File::create(&beside)?;
        write(&file, frame)?;
        failpoint::hit("file-written");
        file.sync_all()?;
        Ok(())
    };
    written().with_context(|| format!("{} cannot be written", display_path(&beside)))?;
    ensure!(
        !path.exists(),
        "{} exists, and the database does not name it: expected an archive directory of this deployment alone (LAUREL_ARCHIVE_DIR); if the database was taken back to an earlier time, move the file elsewhere and run this again",
        display_path(path)
    );
    fs::rename(&beside, path)
        .and_then(|()| File::open(directory)?.sync_all())
        .with_context(|| format!("{} cannot be put in place", display_path(path)))?;
    failpoint::hit("file-renamed");
    let back = read(path)?;
    ensure!(
        back.equals_missing(frame),
        "{} does not read back as it was written; check the disk",
        display_path(path)
    );
    sum(path)
}

/// Copies a file beside a path, and renames it once the disk has it. An existing file is replaced.
///
/// # Errors
/// If the disk does not take it, or the copy does not match the sum.
pub fn copy_durably(from: &Path, to: &Path, meant: &Sum) -> Result<()> {
    let beside = beside(to);
    let directory = to.parent().context("the path has no directory")?;
    let copied = || -> Result<()> {
        fs::create_dir_all(directory)?;
        fs::copy(from, &beside)?;
        File::open(&beside)?.sync_all()?;
        ensure!(sum(&beside)? == *meant, "it does not read back as it was copied; check the disk");
        Ok(())
    };
    copied().with_context(|| format!("{} cannot be written", display_path(&beside)))?;
    fs::rename(&beside, to)
        .and_then(|()| File::open(directory)?.sync_all())
        .with_context(|| format!("{} cannot be put in place", display_path(to)))
}

/// Writes a frame to a file.
pub fn write(file: &File, frame: &mut DataFrame) -> Result<()> {
    ParquetWriter::new(file).with_compression(ParquetCompression::Zstd(None)).finish(frame)?;
    Ok(())
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<DataFrame> {
    let read = || -> Result<_> { Ok(ParquetReader::new(File::open(path)?).finish()?) };
    read().with_context(|| format!("{} cannot be read", display_path(path)))
}

/// A file as a lazy frame.
pub fn scan(path: &Path) -> Result<LazyFrame> {
    let text = path.to_str().context("the path is not UTF-8")?;
    Ok(LazyFrame::scan_parquet(
        PlRefPath::new(text),
        ScanArgsParquet {
            // A star or a bracket in a name stands for itself.
            glob: false,
            ..ScanArgsParquet::default()
        },
    )?)
}

/// A file of events as a lazy frame. One of an earlier version gets the columns that it lacks,
/// without values.
pub fn scan_events(path: &Path) -> Result<LazyFrame> {
    let mut frame = scan(path)?;
    let known = frame.collect_schema()?;
    let lacking = LATER.into_iter().filter(|name| !known.contains(name));
    let empty = |name: &str| lit(NULL).cast(DataType::String).alias(name);
    Ok(frame.with_columns(lacking.map(empty).collect::<Vec<_>>()))
}

/// The size and the checksum of a file, as the disk gives it now.
pub fn sum(path: &Path) -> Result<Sum> {
    sum_of(path).with_context(|| format!("{} cannot be read", display_path(path)))
}

/// Removes a file and the one written beside it, if they exist.
pub fn remove(path: &Path) -> Result<()> {
    for path in [beside(path), path.to_owned()] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("{} cannot be removed", display_path(&path)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The path of a file until it is whole.
fn beside(path: &Path) -> std::path::PathBuf {
    path.with_extension("parquet.part")
}
