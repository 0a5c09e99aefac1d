//! The rows of a file as submissions, or the reasons why they are bad: the same checks for every
//! format.

mod csv_rows;
mod ndjson_rows;
mod parquet_bounds;
mod parquet_rows;

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use ranking::board::Board;
use ranking::id::{EventId, MemberId};
use ranking::metadata::Metadata;
use ranking::submission::Submission;
use ranking::submission::effect::Report;
use ranking::text::is_presentable;

use super::Arguments;
use super::input_file::{check_regular, check_rows, rows_max};
use crate::display_path;
use crate::file::format::FileFormat;
use crate::frame::parquet::sum;

/// The longest region, in characters.
const REGION_CHARS_MAX: usize = 200;

/// The longest line of a CSV or NDJSON file, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The digits of the SHA-256 of a file that name the events in it: 64 bits.
const HASH_DIGITS: usize = 16;

/// A row that is not imported, with the reason.
pub(crate) struct BadRow {
    pub(crate) line: u64,
    pub(crate) reason: String,
}

/// A row that may be imported.
pub(crate) struct Row {
    pub(crate) line: u64,
    pub(crate) submission: Submission,
    pub(crate) region: Option<String>,
}

/// A row whose fields are right, each by itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FileRow {
    pub(crate) line: u64,
    pub(crate) member: MemberId,
    pub(crate) score: i64,
    /// In Unix milliseconds.
    pub(crate) at_ms: i64,
    /// The event id that the row has.
    pub(crate) event_id: Option<EventId>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) region: Option<String>,
}

/// The rows of a file: those that may be imported, and the bad ones.
pub(crate) struct Rows {
    pub(crate) good: Vec<Row>,
    pub(crate) bad: Vec<BadRow>,
}

/// A taker of each row of a file, with its board, or of the reason why it is bad.
pub(crate) type TakeRow<'a> = &'a mut dyn FnMut(Result<(&Board, FileRow), BadRow>) -> Result<()>;

/// The fields of a row, not yet checked.
pub(crate) struct Fields<'a> {
    pub(crate) member: &'a str,
    pub(crate) score: &'a str,
    pub(crate) at: At<'a>,
    pub(crate) board: Option<&'a str>,
    pub(crate) event_id: Option<&'a str>,
    pub(crate) region: Option<&'a str>,
    /// The text of a JSON object.
    pub(crate) metadata: Option<&'a str>,
}

/// The time at which a score was earned, in the form that the row has it.
pub(crate) enum At<'a> {
    /// RFC 3339, or Unix seconds.
    Text(&'a str),
    /// Unix milliseconds.
    Ms(i64),
}

/// Checks the rows of a file one by one.
pub(crate) struct RowChecker<'a> {
    arguments: &'a Arguments,
    boards: &'a HashMap<String, Board>,
    now_ms: i64,
    count: u64,
    take_row: TakeRow<'a>,
}

/// Reads every row: those that may be imported, and the bad ones.
///
/// # Errors
/// If the file as a whole cannot be imported.
pub(crate) fn read_rows(
    arguments: &Arguments,
    boards: &HashMap<String, Board>,
    now_ms: i64,
) -> Result<Rows> {
    let (names, mut rows) = (EventNames::of(&arguments.file)?, Rows { good: vec![], bad: vec![] });
    visit_rows(arguments, boards, now_ms, &mut |taken| {
        match taken {
            Ok((board, row)) => rows.good.push(row.into_submission(board, &names)?),
            Err(bad) => rows.bad.push(bad),
        }
        Ok(())
    })?;
    Ok(rows)
}

/// Hands every row of the file, which is a regular one, to `take_row`.
///
/// # Errors
/// As [`read_rows`]; those of `take_row`.
pub(crate) fn visit_rows(
    arguments: &Arguments,
    boards: &HashMap<String, Board>,
    now_ms: i64,
    take_row: TakeRow<'_>,
) -> Result<()> {
    if let Some(slug) = &arguments.board
        && !boards.contains_key(slug)
    {
        bail!("there is no board {slug:?}");
    }
    let mut checker = RowChecker { arguments, boards, now_ms, count: 0, take_row };
    match FileFormat::of_input(&arguments.file) {
        FileFormat::Csv => csv_rows::read(&mut checker),
        FileFormat::Ndjson => ndjson_rows::read(&mut checker),
        FileFormat::Parquet => parquet_rows::read(&mut checker),
    }
}

/// The names of events whose rows have no event id: a hash of the file's content, and the line.
#[derive(Debug, Clone)]
pub(crate) struct EventNames(String);

impl EventNames {
    /// The names of the events of a file.
    ///
    /// # Errors
    /// If it is no regular file, or cannot be read.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        check_regular(path)?;
        Ok(Self(sum(path)?.sha256[..HASH_DIGITS].to_owned()))
    }

    /// The event id of a row without one.
    pub(crate) fn name(&self, line: u64) -> ranking::Result<EventId> {
        EventId::for_new(&format!("import-{}-{line}", self.0))
    }
}

impl FileRow {
    fn into_submission(self, board: &Board, names: &EventNames) -> Result<Row> {
        let Self { line, member, score, at_ms, event_id, metadata, region } = self;
        let event_id = event_id.map_or_else(|| names.name(line), Ok)?;
        let submission = Submission {
            report: Report::Nothing,
            board: board.clone(),
            member,
            score,
            at_ms: Some(at_ms),
            event_id: Some(event_id),
            segments: vec![],
            metadata,
            provenance: None,
        };
        Ok(Row { line, submission, region })
    }
}

/// Says that a line is too long.
fn too_long() -> String {
    format!("longer than {LINE_BYTES_MAX} bytes: expected shorter lines")
}

impl<'a> RowChecker<'a> {
    /// The file.
    pub(crate) fn path(&self) -> &'a Path {
        &self.arguments.file
    }

    /// The column of the score.
    pub(crate) fn score_column(&self) -> &str {
        &self.arguments.score_column
    }

    /// The columns that are read: member, score and at, and the optional ones: board, event_id,
    /// region, metadata.
    pub(crate) fn columns(&self) -> [&str; 7] {
        let score = self.score_column();
        ["member", score, "at", "board", "event_id", "region", "metadata"]
    }

    /// Checks that the file has the columns that it needs.
    ///
    /// # Errors
    /// If a column is missing; the message names it.
    pub(crate) fn check_columns(&self, has: impl Fn(&str) -> bool) -> Result<()> {
        let file = display_path(self.path());
        for name in ["member", self.score_column(), "at"] {
            if !has(name) {
                bail!(
                    "{file} has no column {name}: expected member, {} and at",
                    self.score_column()
                );
            }
        }
        if !has("board") && self.arguments.board.is_none() {
            bail!("{file} has no column board; name the board with --board");
        }
        Ok(())
    }

    /// The command's arguments.
    pub(crate) fn arguments(&self) -> &Arguments {
        self.arguments
    }

    /// Checks and adds the next row, or the reason why it could not be read.
    ///
    /// # Errors
    /// If the file has more rows than it may have.
    pub(crate) fn take(&mut self, line: u64, fields: Result<Fields<'_>>) -> Result<()> {
        match fields.and_then(|fields| self.check(line, &fields)) {
            Ok(row) => (self.take_row)(Ok(row))?,
            Err(error) => (self.take_row)(Err(BadRow { line, reason: format!("{error:#}") }))?,
        }
        self.count += 1;
        check_rows(&self.arguments.file, self.count, rows_max(self.arguments))
    }

    fn check(&self, line: u64, fields: &Fields<'_>) -> Result<(&'a Board, FileRow)> {
        fn filled(field: Option<&str>) -> Option<&str> {
            field.filter(|text| !text.is_empty())
        }
        let slug = self.arguments.board.as_deref().or(filled(fields.board));
        let slug = slug.context("it names no board")?;
        let board = self.boards.get(slug).with_context(|| format!("there is no board {slug:?}"))?;
        let at_ms = match fields.at {
            At::Text(text) => parse_at(text)?,
            At::Ms(at_ms) if at_ms >= 0 => at_ms,
            At::Ms(_) => bail!("at is before 1970"),
        };
        if at_ms > self.now_ms {
            bail!("at is in the future");
        }
        let metadata = filled(fields.metadata).map(Metadata::parse).transpose()?;
        board.check_metadata(metadata.as_ref())?;
        let member = MemberId::for_new(fields.member)?;
        let score = ranking::score::parse(fields.score.trim(), board.rules.decimals)?;
        let event_id = filled(fields.event_id).map(EventId::for_new).transpose()?;
        let region = filled(fields.region);
        if let Some(region) = region
            && (region.chars().count() > REGION_CHARS_MAX || !is_presentable(region))
        {
            bail!(
                "invalid region: expected up to {REGION_CHARS_MAX} characters that are not blank, without control characters, invisible ones or ones that change its direction"
            );
        }
        let region = region.map(str::to_owned);
        Ok((board, FileRow { line, member, score, at_ms, event_id, metadata, region }))
    }
}

fn parse_at(text: &str) -> Result<i64> {
    let text = text.trim();
    let at_ms = match text.parse::<i64>() {
        Ok(seconds) => seconds.checked_mul(1000),
        Err(_) => text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond),
    };
    at_ms.filter(|&at_ms| at_ms >= 0).with_context(|| {
        format!("invalid at {text:?}: expected RFC 3339 or Unix seconds, since 1970")
    })
}
