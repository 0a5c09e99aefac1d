//! Parquet files: written so that they are whole or not there, and known by their checksum.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use polars::prelude::{
    DataFrame, LazyFrame, ParquetCompression, ParquetReader, ParquetWriter, PlRefPath,
    ScanArgsParquet, SerReader,
};
use sha2::{Digest, Sha256};

use crate::failpoint;
use crate::shown;

/// What is known of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// How many there are.
    pub bytes: u64,
    /// Their SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// Writes a frame beside its path, moves it there once the disk has it, reads it back and compares.
///
/// # Errors
/// Where the disk does not take it, or gives back something else; where something lies there already.
pub fn write_durably(path: &Path, frame: &mut DataFrame) -> Result<Sum> {
    let beside = beside(path);
    let directory = path.parent().context("a file lies in a directory")?;
    let mut written = || -> Result<()> {
        fs::create_dir_all(directory)?;
        let file = File::create(&beside)?;
        write(&file, frame)?;
        failpoint::hit("file-written");
        file.sync_all()?;
        Ok(())
    };
    written().with_context(|| format!("{} cannot be written", shown(&beside)))?;
    ensure!(
        !path.exists(),
        "{} is there already and is not of this archive; an archive directory of its own for each deployment is accepted (LAUREL_ARCHIVE_DIR)",
        shown(path)
    );
    fs::rename(&beside, path)
        .and_then(|()| File::open(directory)?.sync_all())
        .with_context(|| format!("{} cannot be put in place", shown(path)))?;
    failpoint::hit("file-renamed");
    let back = read(path)?;
    ensure!(
        back.equals_missing(frame),
        "{} does not hold what was written to it; look at the disk",
        shown(path)
    );
    sum(path)
}

/// Copies a file beside a path, and moves it there once the disk has it. What lies there is replaced.
///
/// # Errors
/// Where the disk does not take it, or gives back something else than the sum says.
pub fn copy_durably(from: &Path, to: &Path, meant: &Sum) -> Result<()> {
    let beside = beside(to);
    let directory = to.parent().context("a file lies in a directory")?;
    let copied = || -> Result<()> {
        fs::create_dir_all(directory)?;
        fs::copy(from, &beside)?;
        File::open(&beside)?.sync_all()?;
        ensure!(
            sum(&beside)? == *meant,
            "it does not hold what was copied to it; look at the disk"
        );
        Ok(())
    };
    copied().with_context(|| format!("{} cannot be written", shown(&beside)))?;
    fs::rename(&beside, to)
        .and_then(|()| File::open(directory)?.sync_all())
        .with_context(|| format!("{} cannot be put in place", shown(to)))
}

/// Writes a frame to a file.
///
/// # Errors
/// Where the disk does not take it.
pub fn write(file: &File, frame: &mut DataFrame) -> Result<()> {
    ParquetWriter::new(file).with_compression(ParquetCompression::Zstd(None)).finish(frame)?;
    Ok(())
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<DataFrame> {
    let read = || -> Result<_> { Ok(ParquetReader::new(File::open(path)?).finish()?) };
    read().with_context(|| format!("{} cannot be read", shown(path)))
}

/// A file as a frame that is read when it is asked for.
pub fn scan(path: &Path) -> Result<LazyFrame> {
    let text = path.to_str().context("a path is no text")?;
    Ok(LazyFrame::scan_parquet(
        PlRefPath::new(text),
        ScanArgsParquet {
            // A name with a star or a bracket in it is a name.
            glob: false,
            ..ScanArgsParquet::default()
        },
    )?)
}

/// The size and the checksum of a file's bytes, as the disk gives them now.
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
    read().with_context(|| format!("{} cannot be read", shown(path)))?;
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Sum { bytes, sha256 })
}

/// Removes a file, and what was written beside it, where they are there.
///
/// # Errors
/// Where the directory cannot be changed.
pub fn remove(path: &Path) -> Result<()> {
    for path in [beside(path), path.to_owned()] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{} cannot be removed", shown(&path)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where a file lies until it is whole.
fn beside(path: &Path) -> std::path::PathBuf {
    path.with_extension("parquet.part")
}
