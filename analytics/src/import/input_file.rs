//! The bounds on a file that is imported: what it is, and how many rows it may have.

use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::Arguments;
use crate::display_path;

/// The rows that a file may have, unless `--rows-max` says otherwise.
const ROWS_MAX: u64 = 100_000_000;

/// Checks that a path is a regular file before anything opens it: the opening of a pipe waits for a
/// writer, and some devices never end.
///
/// # Errors
/// If the file is not there, or is something else; the message says what.
pub(crate) fn check_regular(path: &Path) -> Result<()> {
    let file = display_path(path);
    let metadata = fs::metadata(path).with_context(|| format!("{file} cannot be read"))?;
    if !metadata.is_file() {
        bail!("{file} is {}: expected a regular file", kind(metadata.file_type()));
    }
    Ok(())
}

fn kind(of: FileType) -> &'static str {
    match of {
        of if of.is_dir() => "a directory",
        of if of.is_fifo() => "a pipe",
        of if of.is_socket() => "a socket",
        _ => "a device",
    }
}

/// The number of rows that the file may have.
pub(crate) fn rows_max(arguments: &Arguments) -> u64 {
    arguments.rows_max.unwrap_or(ROWS_MAX)
}

/// The number of rows that a Parquet file of that many bytes may have. An event takes more than a
/// byte even when it is compressed, but a few bytes can stand for millions of equal rows.
pub(crate) fn parquet_rows_max(arguments: &Arguments, file_bytes: u64) -> u64 {
    arguments.rows_max.unwrap_or(ROWS_MAX.min(file_bytes))
}

/// Checks a number of rows.
///
/// # Errors
/// If there are more than `max`.
pub(crate) fn check_rows(path: &Path, rows: u64, max: u64) -> Result<()> {
    if rows > max {
        bail!(
            "{} has more than {max} rows: expected a smaller file, or --rows-max for memory of 650 bytes a row",
            display_path(path)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_regular_is_refused_in_words() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let none = directory.path().join("none");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, says) in [
            (directory.path(), "is a directory: expected a regular file"),
            (socket.as_path(), "is a socket"),
            (Path::new("/dev/zero"), "is a device"),
            (none.as_path(), "cannot be read"),
        ] {
            let refused = check_regular(path).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
        let file = directory.path().join("file.csv");
        fs::write(&file, "member,score,at\n").unwrap();
        check_regular(&file).unwrap();
    }
}
