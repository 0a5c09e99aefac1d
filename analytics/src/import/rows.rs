//! The rows of a CSV file as submissions, or what is wrong with them.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use ranking::board::Board;
use ranking::id::{EventId, MemberId};
use ranking::submission::Submission;
use sha2::{Digest, Sha256};

use super::Arguments;
use crate::shown;

/// The longest region, in characters.
const REGION_CHARS_MAX: usize = 200;

/// A row that is not taken, and why.
pub(super) struct BadRow {
    pub(super) line: u64,
    pub(super) reason: String,
}

/// A row that may be taken.
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) submission: Submission,
    pub(super) region: Option<String>,
}

/// Reads every row: those that may be taken, and those that are bad.
///
/// # Errors
/// Where the file as a whole is none that can be imported.
pub(super) fn read_rows(
    arguments: &Arguments,
    bytes: &[u8],
    boards: &HashMap<String, Board>,
    now_ms: i64,
) -> Result<(Vec<Row>, Vec<BadRow>)> {
    let hash: String = Sha256::digest(bytes)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let headers = reader
        .headers()
        .with_context(|| format!("{} has no header", shown(&arguments.file)))?
        .clone();
    let column = |name: &str| headers.iter().position(|header| header.trim() == name);
    let required = |name: &str| {
        column(name).with_context(|| {
            format!(
                "{} has no column {name}; member, {} and at are needed",
                shown(&arguments.file),
                arguments.score_column
            )
        })
    };
    let columns = FileColumns {
        member: required("member")?,
        score: required(&arguments.score_column)?,
        at: required("at")?,
        board: column("board"),
        event_id: column("event_id"),
        region: column("region"),
    };
    if columns.board.is_none() && arguments.board.is_none() {
        bail!(
            "{} has no column board: say which with --board",
            shown(&arguments.file)
        );
    }
    if let Some(slug) = arguments
        .board
        .as_ref()
        .filter(|slug| !boards.contains_key(*slug))
    {
        bail!("there is no board {slug:?}");
    }
    let (mut rows, mut bad) = (vec![], vec![]);
    for record in reader.records() {
        let (line, row) = match record {
            Ok(record) => {
                let line = record.position().map_or(0, csv::Position::line);
                (
                    line,
                    columns.read(
                        &record,
                        arguments.board.as_deref(),
                        boards,
                        &format!("import-{hash}-{line}"),
                        now_ms,
                    ),
                )
            }
            Err(error) => (
                error.position().map_or(0, csv::Position::line),
                Err(error.into()),
            ),
        };
        match row {
            Ok((submission, region)) => rows.push(Row {
                line,
                submission,
                region,
            }),
            Err(error) => bad.push(BadRow {
                line,
                reason: format!("{error:#}"),
            }),
        }
    }
    Ok((rows, bad))
}

/// Where the columns are.
struct FileColumns {
    member: usize,
    score: usize,
    at: usize,
    board: Option<usize>,
    event_id: Option<usize>,
    region: Option<usize>,
}

impl FileColumns {
    fn read(
        &self,
        record: &csv::StringRecord,
        slug: Option<&str>,
        boards: &HashMap<String, Board>,
        event_id: &str,
        now_ms: i64,
    ) -> Result<(Submission, Option<String>)> {
        let text = |column: usize| {
            record
                .get(column)
                .with_context(|| format!("it has {} fields, fewer than the header", record.len()))
        };
        let optional = |column: Option<usize>| {
            column
                .and_then(|column| record.get(column))
                .filter(|text| !text.is_empty())
        };
        let slug = slug.or(optional(self.board)).context("it names no board")?;
        let board = boards
            .get(slug)
            .with_context(|| format!("there is no board {slug:?}"))?;
        let at_ms = parse_at(text(self.at)?)?;
        if at_ms > now_ms {
            bail!("at is in the future");
        }
        let submission = Submission {
            board: board.clone(),
            member: MemberId::new(text(self.member)?)?,
            score: ranking::score::parse(text(self.score)?.trim(), board.rules.decimals)?,
            at_ms: Some(at_ms),
            event_id: Some(EventId::new(optional(self.event_id).unwrap_or(event_id))?),
            segments: vec![],
        };
        let region = optional(self.region);
        if region.is_some_and(|region| {
            region.chars().count() > REGION_CHARS_MAX || region.chars().any(char::is_control)
        }) {
            bail!("its region has more than {REGION_CHARS_MAX} characters or a control character");
        }
        Ok((submission, region.map(str::to_owned)))
    }
}

fn parse_at(text: &str) -> Result<i64> {
    let text = text.trim();
    let at_ms = match text.parse::<i64>() {
        Ok(seconds) => seconds.checked_mul(1000),
        Err(_) => text
            .parse::<jiff::Timestamp>()
            .ok()
            .map(jiff::Timestamp::as_millisecond),
    };
    at_ms.filter(|&at_ms| at_ms >= 0).with_context(|| {
        format!("{text:?} is no time since 1970; RFC 3339 and Unix seconds are accepted")
    })
}
