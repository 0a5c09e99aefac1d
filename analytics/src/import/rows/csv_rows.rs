//! The rows of a CSV file.

use anyhow::{Context, Result};

use super::{At, Fields, RowChecker};
use crate::display_path;

/// Hands every row with its line to `rows`.
///
/// # Errors
/// If the file cannot be read, or lacks a column.
pub(crate) fn read(rows: &mut RowChecker<'_>) -> Result<()> {
    let file = display_path(rows.path());
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_path(rows.path())
        .with_context(|| format!("{file} cannot be read"))?;
    let headers = reader.headers().with_context(|| format!("{file} has no header"))?.clone();
    let column = |name: &str| headers.iter().position(|header| header.trim() == name);
    rows.check_columns(|name| column(name).is_some())?;
    let [member, score, at, board, event_id, region, metadata] = rows.columns().map(column);
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
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
