//! Rows in the binary form of PostgreSQL's COPY: a header, then for each row the number of its
//! fields and each field with its length, and a trailer. Numbers are big-endian.

use entity::history::{commit, score_event};
use sea_orm::ActiveEnum;

/// The columns of `score_event` that an appended event has; the others are those of voids, and of
/// copies of other events.
pub(super) const EVENT_COLUMNS: [&str; 14] = [
    "partition",
    "seq",
    "event_index",
    "board_no",
    "generation",
    "member",
    "kind",
    "score",
    "at_ms",
    "at_sent",
    "event_id",
    "segments",
    "salt",
    "metadata",
];

const COMMIT_COLUMNS: [&str; 11] = [
    "partition",
    "seq",
    "id",
    "parent",
    "accepted_at_ms",
    "clock_ms",
    "events",
    "gone",
    "version",
    "random",
    "leaves",
];

/// The signature of the form, then no flags and no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The number of fields that stands for the end.
const TRAILER: i16 = -1;

/// The length that stands for a null.
const NULL: i32 = -1;

/// The statement and the data of a COPY.
pub(super) struct CopyIn {
    statement: String,
    fields: i16,
    bytes: Vec<u8>,
}

impl CopyIn {
    /// The rows of `commit`.
    pub(super) fn of_commits(rows: impl Iterator<Item = commit::Model>) -> Self {
        let mut copy = Self::into_table("commit", &COMMIT_COLUMNS);
        for row in rows {
            copy.begin_row();
            copy.field(&row.partition.to_be_bytes());
            copy.field(&row.seq.to_be_bytes());
            copy.field(row.id.as_bytes());
            copy.field(row.parent.as_bytes());
            copy.field(&row.accepted_at_ms.to_be_bytes());
            copy.field(&row.clock_ms.to_be_bytes());
            copy.field(&row.events.to_be_bytes());
            copy.field(&row.gone.to_be_bytes());
            copy.field(&row.version.to_be_bytes());
            copy.field(&row.random);
            copy.field(&row.leaves);
        }
        copy
    }

    /// The rows of `score_event`.
    pub(super) fn of_events(rows: &[score_event::Model]) -> Self {
        let mut copy = Self::into_table("score_event", &EVENT_COLUMNS);
        for row in rows {
            copy.begin_row();
            copy.field(&row.partition.to_be_bytes());
            copy.field(&row.seq.to_be_bytes());
            copy.field(&row.event_index.to_be_bytes());
            copy.field(&row.board_no.to_be_bytes());
            copy.field(&row.generation.to_be_bytes());
            copy.field(row.member.as_bytes());
            copy.field(row.kind.to_value().as_bytes());
            copy.optional(row.score.map(i64::to_be_bytes).as_ref());
            copy.optional(row.at_ms.map(i64::to_be_bytes).as_ref());
            copy.field(&[row.at_sent.into()]);
            copy.optional(row.event_id.as_ref());
            copy.field(row.segments.as_bytes());
            copy.field(&row.salt);
            copy.optional(row.metadata.as_ref());
        }
        copy
    }

    /// The statement that takes the data.
    pub(super) fn statement(&self) -> &str {
        &self.statement
    }

    /// The data.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.extend(TRAILER.to_be_bytes());
        self.bytes
    }

    fn into_table(table: &str, columns: &[&str]) -> Self {
        let names: Vec<String> = columns.iter().map(|name| format!(r#""{name}""#)).collect();
        let names = names.join(", ");
        let statement = format!(r#"COPY "{table}" ({names}) FROM STDIN WITH (FORMAT binary)"#);
        Self { statement, fields: columns.len() as i16, bytes: HEADER.to_vec() }
    }

    fn begin_row(&mut self) {
        self.bytes.extend(self.fields.to_be_bytes());
    }

    fn field(&mut self, value: &[u8]) {
        self.bytes.extend((value.len() as i32).to_be_bytes());
        self.bytes.extend(value);
    }

    fn optional(&mut self, value: Option<&impl AsRef<[u8]>>) {
        match value {
            Some(value) => self.field(value.as_ref()),
            None => self.bytes.extend(NULL.to_be_bytes()),
        }
    }
}
