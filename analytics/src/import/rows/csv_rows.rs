//! The rows of a CSV file.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};

use super::{At, Fields, LINE_BYTES_MAX, RowChecker, too_long};
use crate::display_path;

/// A file whose lines are not too long: a reader of records would hold such a one as a whole.
struct Lines {
    file: File,
    /// The bytes of the line that is read.
    bytes: u64,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        for line in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
            self.bytes += line.len() as u64;
            if self.bytes > LINE_BYTES_MAX {
                return Err(std::io::Error::other(format!("a line is {}", too_long())));
            }
            if line.ends_with(b"\n") {
                self.bytes = 0;
            }
        }
        Ok(count)
    }
}

/// Hands every row with its line to `rows`.
///
/// # Errors
/// If the file cannot be read, or lacks a column.
pub(crate) fn read(rows: &mut RowChecker<'_>) -> Result<()> {
    let file = display_path(rows.path());
    let opened = File::open(rows.path()).with_context(|| format!("{file} cannot be read"))?;
    let lines = Lines { file: opened, bytes: 0 };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(lines);
    let headers = reader.headers().with_context(|| format!("{file} has no header"))?.clone();
    let column = |name: &str| headers.iter().position(|header| header.trim() == name);
    rows.check_columns(|name| column(name).is_some())?;
    let [member, score, at, board, event_id, region, metadata] = rows.columns().map(column);
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) if error.is_io_error() => {
                return Err(error).with_context(|| format!("{file} cannot be read"));
            }
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                rows.take(line, Err(error.into()))?;
                continue;
            }
        };
        let optional = |column: Option<usize>| column.and_then(|column| record.get(column));
        let required = |column: Option<usize>| {
            optional(column)
                .with_context(|| format!("it has {} fields, fewer than the header", record.len()))
        };
        let fields = || {
            Ok(Fields {
                member: required(member)?,
                score: required(score)?,
                at: At::Text(required(at)?),
                board: optional(board),
                event_id: optional(event_id),
                region: optional(region),
                metadata: optional(metadata),
            })
        };
        let line = record.position().map_or(0, csv::Position::line);
        rows.take(line, fields())?;
    }
    Ok(())
}
