//! A file of any size from frames of bounded size, written one after the other as CSV, NDJSON or
//! Parquet.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use jiff::Timestamp;
use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{
    DataFrame, DataType, Int64Chunked, ParquetWriter, Schema, StringChunked, TimeUnit, TimeZone,
};

use crate::file::format::FileFormat;
use crate::file::out_file::OutFile;

/// The type of an instant in frames: milliseconds, UTC.
pub const INSTANT: DataType = DataType::Datetime(TimeUnit::Milliseconds, Some(TimeZone::UTC));

/// How texts are written to CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvTexts {
    /// As they are.
    Exact,
    /// With an apostrophe before those that a spreadsheet would take for a formula.
    Safe,
}

/// A file of frames with one schema of texts, integers and instants.
pub struct FrameFile {
    out: OutFile,
    writer: Writer,
}

enum Writer {
    Csv(Box<csv::Writer<File>>, CsvTexts),
    Ndjson(BufWriter<File>),
    Parquet(Box<BatchedWriter<BufWriter<File>>>),
}

/// A column of a frame.
enum Cells<'a> {
    Text(&'a StringChunked),
    Integer(&'a Int64Chunked),
    Instant(&'a Int64Chunked),
}

impl FrameFile {
    /// Begins a file, in the format of its extension. `texts` is for CSV alone.
    ///
    /// # Errors
    /// If the extension names no format, or the file cannot be written.
    pub fn create(path: &Path, schema: &Schema, texts: CsvTexts) -> Result<Self> {
        let format = FileFormat::of_output(path)?;
        let out = OutFile::create(path)?;
        let file = out.file()?;
        let writer = match format {
            FileFormat::Csv => {
                let mut writer = csv::Writer::from_writer(file);
                writer.write_record(schema.iter_names().map(|name| name.as_str()))?;
                Writer::Csv(Box::new(writer), texts)
            }
            FileFormat::Ndjson => Writer::Ndjson(BufWriter::new(file)),
            FileFormat::Parquet => {
                let writer = ParquetWriter::new(BufWriter::new(file)).batched(schema)?;
                Writer::Parquet(Box::new(writer))
            }
        };
        Ok(Self { out, writer })
    }

    /// Writes the rows of a frame: in Parquet, one row group.
    pub fn write(&mut self, frame: &DataFrame) -> Result<()> {
        match &mut self.writer {
            Writer::Csv(writer, texts) => write_csv(writer, frame, *texts),
            Writer::Ndjson(writer) => write_ndjson(writer, frame),
            Writer::Parquet(writer) => Ok(writer.write_batch(frame)?),
        }
    }

    /// Ends the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        match self.writer {
            Writer::Csv(mut writer, _) => writer.flush()?,
            Writer::Ndjson(mut writer) => writer.flush()?,
            // `finish` flushes the writer below it.
            Writer::Parquet(writer) => drop(writer.finish()?),
        }
        self.out.finish()
    }
}

fn write_csv(writer: &mut csv::Writer<File>, frame: &DataFrame, mode: CsvTexts) -> Result<()> {
    let columns = cells(frame)?;
    for row in 0..frame.height() {
        for (_, cells) in &columns {
            match cells {
                Cells::Text(texts) => {
                    let text = texts.get(row).unwrap_or_default();
                    match mode {
                        CsvTexts::Safe if is_formula(text) => {
                            writer.write_field(format!("'{text}"))?;
                        }
                        _ => writer.write_field(text)?,
                    }
                }
                Cells::Integer(numbers) => {
                    writer
                        .write_field(numbers.get(row).map(|n| n.to_string()).unwrap_or_default())?;
                }
                Cells::Instant(instants) => {
                    writer.write_field(instants.get(row).map(instant).unwrap_or_default())?;
                }
            }
        }
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(())
}

/// True if a spreadsheet would take a text for a formula, by its first character (OWASP, CSV
/// Injection). A plain decimal, such as a score below 0, is none.
fn is_formula(text: &str) -> bool {
    let starts = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    starts && !is_number
}

fn write_ndjson(writer: &mut impl Write, frame: &DataFrame) -> Result<()> {
    let columns = cells(frame)?;
    for row in 0..frame.height() {
        for (index, (name, cells)) in columns.iter().enumerate() {
            writer.write_all(if index == 0 { b"{" } else { b"," })?;
            serde_json::to_writer(&mut *writer, name)?;
            writer.write_all(b":")?;
            match cells {
                Cells::Text(texts) => serde_json::to_writer(&mut *writer, &texts.get(row))?,
                Cells::Integer(numbers) => serde_json::to_writer(&mut *writer, &numbers.get(row))?,
                Cells::Instant(instants) => {
                    serde_json::to_writer(&mut *writer, &instants.get(row).map(instant))?;
                }
            }
        }
        writer.write_all(b"}\n")?;
    }
    Ok(())
}

fn cells(frame: &DataFrame) -> Result<Vec<(&str, Cells<'_>)>> {
    let mut columns = vec![];
    for column in frame.columns() {
        let cells = match column.dtype() {
            DataType::String => Cells::Text(column.str()?),
            DataType::Int64 => Cells::Integer(column.i64()?),
            dtype if *dtype == INSTANT => Cells::Instant(column.datetime()?.physical()),
            other => bail!("invalid column type {other:?}: expected text, integers or instants"),
        };
        columns.push((column.name().as_str(), cells));
    }
    Ok(columns)
}

/// An instant in Unix milliseconds, as the API shows it.
fn instant(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::{
        IntoSeries, NamedFrom, NewChunkedArray, ParquetReader, SerReader, Series,
    };

    fn frame() -> DataFrame {
        let instants = [Some(0), None, Some(1_735_689_600_001)];
        let instants = Int64Chunked::from_slice_options("at".into(), &instants);
        let instants = instants.into_datetime(TimeUnit::Milliseconds, Some(TimeZone::UTC));
        DataFrame::new_infer_height(vec![
            Series::new("member".into(), ["a,\"b", "ü\u{2028}", ""]).into(),
            Series::new("rank".into(), [i64::MIN, 0, i64::MAX]).into(),
            instants.into_series().into(),
        ])
        .unwrap()
    }

    /// The content of a file of that name, after the frame was written to it twice.
    fn written(name: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut file = FrameFile::create(&path, frame().schema(), CsvTexts::Exact).unwrap();
        file.write(&frame()).unwrap();
        assert!(!path.exists(), "the file is there before it is whole");
        file.write(&frame()).unwrap();
        file.finish().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::read(path).unwrap()
    }

    #[test]
    fn frames_are_written_one_after_the_other_in_every_format() {
        let rows = "\"a,\"\"b\",-9223372036854775808,1970-01-01T00:00:00.000Z\nü\u{2028},0,\n,9223372036854775807,2025-01-01T00:00:00.001Z\n";
        let expected = format!("member,rank,at\n{rows}{rows}");
        assert_eq!(String::from_utf8(written("f.csv")).unwrap(), expected);

        let rows = "{\"member\":\"a,\\\"b\",\"rank\":-9223372036854775808,\"at\":\"1970-01-01T00:00:00.000Z\"}\n{\"member\":\"ü\u{2028}\",\"rank\":0,\"at\":null}\n{\"member\":\"\",\"rank\":9223372036854775807,\"at\":\"2025-01-01T00:00:00.001Z\"}\n";
        let expected = format!("{rows}{rows}");
        assert_eq!(String::from_utf8(written("f.ndjson")).unwrap(), expected);

        let bytes = std::io::Cursor::new(written("f.parquet"));
        let mut reader = ParquetReader::new(bytes);
        assert_eq!(reader.get_metadata().unwrap().row_groups.len(), 2);
        let read = reader.finish().unwrap();
        assert!(read.equals_missing(&frame().vstack(&frame()).unwrap()));
    }

    #[test]
    fn a_text_that_begins_like_a_formula_is_one_unless_it_is_a_number() {
        for formula in
            ["=1+2", "+ann", "-ann", "@ann", "\tann", "\rann", "-1+cmd|' /C calc'!A0", "-"]
        {
            assert!(is_formula(formula), "{formula:?}");
        }
        for text in ["", "ann", "a=b", "'=1", "-5", "-5.25", "12", "1+2"] {
            assert!(!is_formula(text), "{text:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.csv");
        let mut file = FrameFile::create(&path, frame().schema(), CsvTexts::Exact).unwrap();
        file.write(&frame()).unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let other = dir.path().join("f.xlsx");
        assert!(FrameFile::create(&other, frame().schema(), CsvTexts::Exact).is_err());
    }
}
