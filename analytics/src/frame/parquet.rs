//! Parquet files: written whole or not at all, and identified by a checksum.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use polars::prelude::{
    DataFrame, LazyFrame, ParquetCompression, ParquetReader, ParquetWriter, PlRefPath,
    ScanArgsParquet, SerReader,
};
use ranking::commit::content::to_hex;
use sha2::{Digest, Sha256};

use crate::display_path;
use crate::job::failpoint;

/// The size and the checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The number of bytes.
    pub bytes: u64,
    /// The SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// Writes a frame beside its path, renames it once the disk has it, reads it back and compares.
///
/// # Errors
/// If the disk does not take it or returns something else, or if the path is taken.
pub fn write_durably(path: &Path, frame: &mut DataFrame) -> Result<Sum> {
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
        "{} exists and is not of this archive: expected an archive directory of this deployment alone (LAUREL_ARCHIVE_DIR)",
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

/// The size and the checksum of a file, as the disk gives it now.
pub fn sum(path: &Path) -> Result<Sum> {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut read = || -> Result<()> {
        let mut file = BufReader::new(File::open(path)?);
        let mut part = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut part)?;
            if count == 0 {
                return Ok(());
            }
            bytes += count as u64;
            hash.update(&part[..count]);
        }
    };
    read().with_context(|| format!("{} cannot be read", display_path(path)))?;
    Ok(Sum { bytes, sha256: to_hex(&hash.finalize()) })
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
