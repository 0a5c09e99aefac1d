//! Reads a partition's history of a board from PostgreSQL with COPY: one stream of lines, without a
//! query per page.

use anyhow::{Context, Result, bail};
use entity::history::score_event::{self, Kind};
use futures::StreamExt;
use sea_orm::sqlx::Postgres;
use sea_orm::sqlx::pool::PoolConnection;
use sea_orm::{ActiveEnum, DatabaseConnection};

use super::Span;

/// The columns, in the order of the fields of a line.
const COLUMNS: &str = r#""partition", "seq", "event_index", "board_no", "generation", "member", "kind", "score", "at_ms", "at_sent", "event_id", "segments", "void_partition", "void_seq", "void_index""#;

/// A connection that copies. It returns to the pool only after its last line: SQLx does not know
/// how much of a COPY is still to come, so the next query would read the rest as its answer.
struct Copying {
    connection: PoolConnection<Postgres>,
    is_complete: bool,
}

impl Drop for Copying {
    fn drop(&mut self) {
        if !self.is_complete {
            self.connection.close_on_drop();
        }
    }
}

/// Hands the events of a span to `take`, in order.
pub(crate) async fn copy(
    db: &DatabaseConnection,
    span: &Span,
    mut take: impl FnMut(score_event::Model) -> Result<()>,
) -> Result<()> {
    let Span { partition, board: no, seqs: (after_seq, through_seq), generations } = span;
    let (since, before) = (generations.start, generations.end);
    // COPY takes no parameters; these are all numbers.
    let sql = format!(
        r#"COPY (SELECT {COLUMNS} FROM "score_event" WHERE "partition" = {partition} AND "seq" > {after_seq} AND "seq" <= {through_seq} AND "board_no" = {no} AND "generation" >= {since} AND "generation" < {before} ORDER BY "seq", "event_index") TO STDOUT"#
    );
    let connection = db.get_postgres_connection_pool().acquire().await?;
    let mut copying = Copying { connection, is_complete: false };
    let parts = copying.connection.copy_out_raw(&sql).await;
    let mut parts = parts.context("the history cannot be read")?;
    let mut left: Vec<u8> = vec![];
    while let Some(part) = parts.next().await {
        left.extend_from_slice(&part.context("the history cannot be read")?);
        let mut start = 0;
        // COPY escapes line breaks within texts.
        while let Some(length) = left[start..].iter().position(|&byte| byte == b'\n') {
            let line = std::str::from_utf8(&left[start..start + length])?;
            take(event(line)?)?;
            start += length + 1;
        }
        left.drain(..start);
    }
    drop(parts);
    copying.is_complete = true;
    Ok(())
}

/// Parses a line.
fn event(line: &str) -> Result<score_event::Model> {
    let mut fields = line.split('\t');
    let mut next = || fields.next().context("COPY returned a line with too few fields");
    let row = score_event::Model {
        partition: next()?.parse()?,
        seq: next()?.parse()?,
        event_index: next()?.parse()?,
        board_no: next()?.parse()?,
        generation: next()?.parse()?,
        member: text(next()?)?,
        kind: Kind::try_from_value(&text(next()?)?)?,
        score: number(next()?)?,
        at_ms: number(next()?)?,
        at_sent: next()? == "t",
        event_id: match next()? {
            NULL => None,
            id => Some(text(id)?),
        },
        segments: text(next()?)?,
        void_partition: number(next()?)?,
        void_seq: number(next()?)?,
        void_index: number(next()?)?,
        // No fold looks at these.
        salt: vec![],
        metadata: None,
        origin: None,
    };
    Ok(row)
}

/// A null in COPY's text format.
const NULL: &str = r"\N";

fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(field: &str) -> Result<Option<T>> {
    match field {
        NULL => Ok(None),
        digits => Ok(Some(digits.parse()?)),
    }
}

fn text(field: &str) -> Result<String> {
    if !field.contains('\\') {
        return Ok(field.to_owned());
    }
    let mut text = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        text.push(match characters.next() {
            Some('\\') => '\\',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('v') => '\u{b}',
            other => bail!("COPY returned the unknown escape {other:?}"),
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_copy_is_read_back() {
        let row = event("3\t7\t0\t1\t2\ta\\\\b\\tc\tSCORE\t-5\t1700000000000\tt\t\\N\t[\"region:\\\\\\\\\"]\t\\N\t\\N\t\\N").unwrap();
        assert_eq!((row.partition, row.seq, row.event_index), (3, 7, 0));
        assert_eq!(row.member, "a\\b\tc");
        assert_eq!((row.score, row.at_ms), (Some(-5), Some(1_700_000_000_000)));
        assert!(row.at_sent);
        assert_eq!(row.event_id, None);
        assert_eq!(row.segments, r#"["region:\\"]"#);
        assert_eq!(row.void_seq, None);
        assert!(event("3\t7").is_err());
    }
}
