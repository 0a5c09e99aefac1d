//! Rows of a file in parts on disk, each in the order of the file: memory has a few megabytes of
//! them, whatever their number.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use ranking::id::{EventId, MemberId};
use ranking::metadata::Metadata;
use tempfile::TempDir;

use crate::import::rows::FileRow;

/// The memory of all parts that are being written.
const BUFFERS_BYTES: usize = 32 << 20;

/// The most and the fewest bytes of a part that wait for the disk.
const BUFFER_BYTES_MAX: usize = 1 << 20;
const BUFFER_BYTES_MIN: usize = 4 << 10;

/// The most bytes of a row: a line of the file is shorter.
const SPOOLED_BYTES_MAX: u32 = 4 << 20;

/// The length that stands for no text.
const NONE: u32 = u32::MAX;

/// A row with its number, counted from 0 over all rows of the file, and the segments that it counts
/// in besides everyone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpooledRow {
    pub(crate) number: u64,
    pub(crate) row: FileRow,
    pub(crate) segments: Vec<String>,
}

/// The parts. They are deleted when it is dropped.
pub(crate) struct Spool {
    dir: TempDir,
    buffers: Vec<Vec<u8>>,
    buffer_bytes: usize,
}

impl Spool {
    /// Empty parts in the directory for temporary files.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(crate) fn of(parts: usize) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("laurel-import-").tempdir();
        let buffer_bytes = (BUFFERS_BYTES / parts.max(1)).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
        Ok(Self {
            dir: dir.context("a temporary directory cannot be created")?,
            buffers: vec![vec![]; parts],
            buffer_bytes,
        })
    }

    /// Adds a row to a part.
    ///
    /// # Errors
    /// If the disk is full.
    pub(crate) fn push(&mut self, part: usize, row: &SpooledRow) -> Result<()> {
        encode(row, &mut self.buffers[part]);
        if self.buffers[part].len() >= self.buffer_bytes { self.flush(part) } else { Ok(()) }
    }

    /// Writes all rows to disk, so that [`Self::rows`] has them.
    ///
    /// # Errors
    /// If the disk is full.
    pub(crate) fn flush_all(&mut self) -> Result<()> {
        (0..self.buffers.len()).try_for_each(|part| self.flush(part))
    }

    /// The number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.buffers.len()
    }

    /// The rows of a part, in their order.
    ///
    /// # Errors
    /// If the part cannot be read.
    pub(crate) fn rows(&self, part: usize) -> Result<SpooledRows> {
        let file = match File::open(self.path(part)) {
            Ok(file) => Some(BufReader::with_capacity(BUFFER_BYTES_MAX, file)),
            // A part without rows has no file.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).context("the rows on disk cannot be read"),
        };
        Ok(SpooledRows { file, bytes: vec![] })
    }

    // Opened for each write, as there may be more parts than a process may have files.
    fn flush(&mut self, part: usize) -> Result<()> {
        let buffer = &self.buffers[part];
        if !buffer.is_empty() {
            let file = OpenOptions::new().create(true).append(true).open(self.path(part));
            let written = file.and_then(|mut file| file.write_all(buffer));
            let dir = self.dir.path().display();
            written.with_context(|| format!("the rows cannot be put aside in {dir}"))?;
        }
        self.buffers[part].clear();
        Ok(())
    }

    fn path(&self, part: usize) -> PathBuf {
        self.dir.path().join(part.to_string())
    }
}

/// The rows of a part.
pub(crate) struct SpooledRows {
    file: Option<BufReader<File>>,
    bytes: Vec<u8>,
}

impl Iterator for SpooledRows {
    type Item = Result<SpooledRow>;

    fn next(&mut self) -> Option<Self::Item> {
        let file = self.file.as_mut()?;
        let mut length = [0; 4];
        match file.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
            Err(error) => return Some(Err(error.into())),
        }
        let length = u32::from_le_bytes(length).min(SPOOLED_BYTES_MAX);
        self.bytes.resize(length as usize, 0);
        let read = file.read_exact(&mut self.bytes);
        let row = read.map_err(Into::into).and_then(|()| decode(&self.bytes));
        Some(row.context("the rows on disk cannot be read"))
    }
}

/// Adds a row to a buffer: its length, its numbers, and its texts.
fn encode(row: &SpooledRow, buffer: &mut Vec<u8>) {
    let SpooledRow { number, row, segments } = row;
    let start = buffer.len();
    buffer.extend([0; 4]);
    for number in [*number, row.line, row.score.cast_unsigned(), row.at_ms.cast_unsigned()] {
        buffer.extend(number.to_le_bytes());
    }
    let metadata = row.metadata.as_ref().map(ToString::to_string);
    let texts = [
        Some(row.member.as_str()),
        row.event_id.as_ref().map(EventId::as_str),
        metadata.as_deref(),
        row.region.as_deref(),
    ];
    for text in texts.into_iter().chain(segments.iter().map(|segment| Some(segment.as_str()))) {
        let length = text.map_or(NONE, |text| text.len() as u32);
        buffer.extend(length.to_le_bytes());
        buffer.extend(text.unwrap_or_default().as_bytes());
    }
    let length = (buffer.len() - start - 4) as u32;
    buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn decode(mut bytes: &[u8]) -> Result<SpooledRow> {
    let mut take = |count: usize| -> Result<&[u8]> {
        ensure!(bytes.len() >= count, "a row ends early");
        let (taken, rest) = bytes.split_at(count);
        bytes = rest;
        Ok(taken)
    };
    let mut numbers = [0; 4];
    for number in &mut numbers {
        *number = u64::from_le_bytes(take(8)?.try_into()?);
    }
    let mut texts = vec![];
    while let Ok(length) = take(4) {
        texts.push(match u32::from_le_bytes(length.try_into()?) {
            NONE => None,
            length => Some(std::str::from_utf8(take(length as usize)?)?.to_owned()),
        });
    }
    let [number, line, score, at_ms] = numbers;
    let mut texts = texts.into_iter();
    let mut text = || texts.next().flatten();
    let row = FileRow {
        line,
        score: score.cast_signed(),
        at_ms: at_ms.cast_signed(),
        member: MemberId::new(&text().unwrap_or_default())?,
        event_id: text().as_deref().map(EventId::new).transpose()?,
        metadata: text().as_deref().map(Metadata::stored),
        region: text(),
    };
    Ok(SpooledRow { number, row, segments: texts.flatten().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back_in_order_from_the_part_that_they_were_put_into() {
        let row = |number: u64| SpooledRow {
            number,
            row: FileRow {
                line: number + 2,
                member: MemberId::new(&format!("ü{number}")).unwrap(),
                score: -(number as i64),
                at_ms: 1_700_000_000_000,
                event_id: number.is_multiple_of(2).then(|| EventId::new("e").unwrap()),
                metadata: number.is_multiple_of(3).then(|| Metadata::stored(r#"{"a":1}"#)),
                region: number.is_multiple_of(5).then(|| "eu".to_owned()),
            },
            segments: (0..number % 4).map(|segment| format!("s:{segment}")).collect(),
        };
        let mut spool = Spool::of(4).unwrap();
        for number in 0..50_000 {
            spool.push((number % 3) as usize, &row(number)).unwrap();
        }
        spool.flush_all().unwrap();
        for part in 0..3 {
            let rows: Vec<SpooledRow> = spool.rows(part).unwrap().map(Result::unwrap).collect();
            let put: Vec<SpooledRow> = (part as u64..50_000).step_by(3).map(row).collect();
            assert!(rows == put, "part {part}");
        }
        assert!(spool.rows(3).unwrap().next().is_none());
    }
}
