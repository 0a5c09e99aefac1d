//! The rows of a CSV file.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};

use super::{At, Fields, LINE_BYTES_MAX, RowChecker, too_long};
use crate::display_path;

/// A file whose records are not too long, as a reader would hold such a one as a whole, and whose
/// quotation marks are those of RFC 4180: where one is missing, a reader takes many lines for one.
struct Records {
    file: File,
    /// The bytes of the record that is read.
    bytes: u64,
    /// The line that is read, from 1.
    line: u64,
    place: Place,
}

/// A place in a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the first byte of a field.
    Start,
    /// In a field without quotation marks around it.
    Plain,
    /// In a field that began with a quotation mark on this line.
    Quoted(u64),
    /// Behind a quotation mark in such a field.
    Behind(u64),
}

impl Records {
    /// Takes the next byte, or says what is wrong with it.
    fn take(&mut self, byte: u8) -> std::result::Result<(), String> {
        self.bytes += 1;
        if self.bytes > LINE_BYTES_MAX {
            return Err(match self.place {
                Place::Quoted(since) | Place::Behind(since) => self.unclosed(since),
                Place::Start | Place::Plain => format!("line {} is {}", self.line, too_long()),
            });
        }
        self.place = match (self.place, byte) {
            (Place::Start, b'"') => Place::Quoted(self.line),
            (Place::Quoted(since), b'"') => Place::Behind(since),
            (Place::Quoted(since), _) | (Place::Behind(since), b'"') => Place::Quoted(since),
            (_, b',' | b'\n') => Place::Start,
            (Place::Behind(since), b'\r') => Place::Behind(since),
            (Place::Behind(since), _) => return Err(self.unclosed(since)),
            (Place::Start | Place::Plain, _) => Place::Plain,
        };
        if byte == b'\n' {
            self.line += 1;
            self.bytes = if matches!(self.place, Place::Quoted(_)) { self.bytes } else { 0 };
        }
        Ok(())
    }

    /// The fault of a field that a quotation mark opened in a line.
    fn unclosed(&self, since: u64) -> String {
        format!(
            "line {since} opens a quoted field that is not closed before line {}: expected a closing quotation mark before a comma or the end of a line, and two of them for one within the field",
            self.line
        )
    }
}

impl Read for Records {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        for &byte in &buffer[..count] {
            self.take(byte).map_err(std::io::Error::other)?;
        }
        match self.place {
            Place::Quoted(since) if count == 0 => Err(std::io::Error::other(self.unclosed(since))),
            _ => Ok(count),
        }
    }
}

/// Hands every row with its line to `rows`.
///
/// # Errors
/// If the file cannot be read, or lacks a column.
pub(crate) fn read(rows: &mut RowChecker<'_>) -> Result<()> {
    let file = display_path(rows.path());
    let opened = File::open(rows.path()).with_context(|| format!("{file} cannot be read"))?;
    let records = Records { file: opened, bytes: 0, line: 1, place: Place::Start };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(records);
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
