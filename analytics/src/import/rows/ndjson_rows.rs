//! The rows of an NDJSON file: a JSON object per line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, Result, ensure};
use ranking::score::json;
use serde_json::value::RawValue;

use super::{At, Fields, LINE_BYTES_MAX, RowChecker, too_long};
use crate::display_path;

/// An object with its values as they are written, so that no number is rounded.
type Object<'a> = BTreeMap<String, &'a RawValue>;

/// Hands every row with its line to `rows`, and skips empty lines.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn read(rows: &mut RowChecker<'_>) -> Result<()> {
    let cannot = format!("{} cannot be read", display_path(rows.path()));
    let file = File::open(rows.path()).with_context(|| cannot.clone())?;
    let (mut reader, mut bytes) = (BufReader::new(file), vec![]);
    let score_column = rows.score_column().to_owned();
    for line in 1.. {
        bytes.clear();
        let count = reader.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
        if count.with_context(|| cannot.clone())? == 0 {
            break;
        }
        ensure!(bytes.len() as u64 <= LINE_BYTES_MAX, "{cannot}: line {line} is {}", too_long());
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        match Texts::read(&bytes, &score_column) {
            Ok(texts) => rows.take(line, Ok(texts.fields()))?,
            Err(error) => rows.take(line, Err(error))?,
        }
    }
    Ok(())
}

/// The fields of an object as texts.
struct Texts {
    member: String,
    score: String,
    at: String,
    board: Option<String>,
    event_id: Option<String>,
    region: Option<String>,
    metadata: Option<String>,
}

impl Texts {
    fn read(bytes: &[u8], score_column: &str) -> Result<Self> {
        let object: Object<'_> =
            serde_json::from_slice(bytes).ok().context("it is not a JSON object")?;
        let required = |name: &str| {
            let value = object.get(name).with_context(|| format!("it has no {name}"));
            value.map(|value| value.get())
        };
        let score = required(score_column)?;
        let score = json::decimal(score_column, score)?;
        let at = required("at")?;
        let at = text(at).unwrap_or_else(|| at.to_owned());
        let optional = |name: &str| match object.get(name).map(|value| value.get()) {
            None | Some("null") => Ok(None),
            Some(value) => {
                let text = text(value);
                let text = text.with_context(|| format!("invalid {name} {value}: expected text"));
                text.map(Some)
            }
        };
        Ok(Self {
            member: optional("member")?.context("it has no member")?,
            score,
            at,
            board: optional("board")?,
            event_id: optional("event_id")?,
            region: optional("region")?,
            // An object, or the text of one.
            metadata: match object.get("metadata").map(|value| value.get()) {
                None | Some("null") => None,
                Some(value) => Some(text(value).unwrap_or_else(|| value.to_owned())),
            },
        })
    }

    fn fields(&self) -> Fields<'_> {
        Fields {
            member: &self.member,
            score: &self.score,
            at: At::Text(&self.at),
            board: self.board.as_deref(),
            event_id: self.event_id.as_deref(),
            region: self.region.as_deref(),
            metadata: self.metadata.as_deref(),
        }
    }
}

fn text(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}
