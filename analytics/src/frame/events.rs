//! Events as frames, with the columns of archive files.

use anyhow::{Context, Result};
use entity::history::score_event::{self, Kind};
use entity::history::segments as segments_column;
use polars::prelude::{
    BooleanChunked, Column, DataFrame, IntoColumn, ListBuilderTrait, ListStringChunkedBuilder,
    NamedFrom, NewChunkedArray, Series,
};
use ranking::commit::content::{from_hex, to_hex};
use sea_orm::ActiveEnum;

/// The columns that files of earlier versions lack.
pub const LATER: [&str; 2] = [METADATA, ORIGIN];

/// The column of metadata.
pub const METADATA: &str = "metadata";
const ORIGIN: &str = "origin";

/// Collects events for a frame: one row each, with all columns of `score_event`, its shard, and
/// when it was accepted.
#[derive(Default)]
pub struct Events {
    rows: Vec<score_event::Model>,
    shards: Vec<i32>,
    accepted_at_ms: Vec<Option<i64>>,
}

impl Events {
    /// Adds an event.
    pub fn push(&mut self, row: score_event::Model, shard: u16, accepted_at_ms: Option<i64>) {
        self.rows.push(row);
        self.shards.push(shard.into());
        self.accepted_at_ms.push(accepted_at_ms);
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The seq of the last event.
    pub fn last_seq(&self) -> Option<i64> {
        self.rows.last().map(|row| row.seq)
    }

    /// The frame of the events: `partition`, `shard`, `seq`, `event_index`, `board_no`,
    /// `generation`, `member`, `kind`, `score`, `at_ms`, `at_sent`, `event_id`, `segments` (a list
    /// of texts), `void_partition`, `void_seq`, `void_index`, `accepted_at_ms`, `salt` (as
    /// hexadecimal digits), `metadata`, `origin`.
    ///
    /// # Errors
    /// If a row holds a value that the persister never writes.
    pub fn into_frame(self) -> Result<DataFrame> {
        let rows = &self.rows;
        let mut segments = ListStringChunkedBuilder::new("segments".into(), rows.len(), 0);
        for row in rows {
            segments.append_values_iter(row.segments()?.iter().map(String::as_str));
        }
        let salts: Vec<String> = rows.iter().map(|row| to_hex(&row.salt)).collect();
        let kinds: Vec<String> = rows.iter().map(|row| row.kind.to_value()).collect();
        let columns = vec![
            numbers("partition", rows.iter().map(|row| row.partition)),
            numbers("shard", self.shards.iter().copied()),
            large("seq", rows.iter().map(|row| Some(row.seq))),
            numbers("event_index", rows.iter().map(|row| row.event_index)),
            large("board_no", rows.iter().map(|row| Some(row.board_no))),
            numbers("generation", rows.iter().map(|row| row.generation)),
            texts("member", rows.iter().map(|row| Some(row.member.as_str()))),
            texts("kind", kinds.iter().map(|kind| Some(kind.as_str()))),
            large("score", rows.iter().map(|row| row.score)),
            large("at_ms", rows.iter().map(|row| row.at_ms)),
            BooleanChunked::from_iter_values("at_sent".into(), rows.iter().map(|row| row.at_sent))
                .into_column(),
            texts("event_id", rows.iter().map(|row| row.event_id.as_deref())),
            segments.finish().into_column(),
            some_numbers("void_partition", rows.iter().map(|row| row.void_partition)),
            large("void_seq", rows.iter().map(|row| row.void_seq)),
            some_numbers("void_index", rows.iter().map(|row| row.void_index)),
            large("accepted_at_ms", self.accepted_at_ms.iter().copied()),
            texts("salt", salts.iter().map(|salt| Some(salt.as_str()))),
            texts(METADATA, rows.iter().map(|row| row.metadata.as_deref())),
            texts(ORIGIN, rows.iter().map(|row| row.origin.as_deref())),
        ];
        Ok(DataFrame::new_infer_height(columns)?)
    }
}

/// The rows that a frame of [`Events`] was made of.
///
/// # Errors
/// If the frame has other columns, or a kind that no event has.
pub fn rows(frame: &DataFrame) -> Result<Vec<score_event::Model>> {
    let int = |name: &str| -> Result<_> { Ok(frame.column(name)?.i32()?.clone()) };
    let large = |name: &str| -> Result<_> { Ok(frame.column(name)?.i64()?.clone()) };
    let (partition, event_index, generation) =
        (int("partition")?, int("event_index")?, int("generation")?);
    let (seq, board_no, score, at_ms) =
        (large("seq")?, large("board_no")?, large("score")?, large("at_ms")?);
    let (void_partition, void_seq, void_index) =
        (int("void_partition")?, large("void_seq")?, int("void_index")?);
    let (member, kind, event_id) = (
        frame.column("member")?.str()?,
        frame.column("kind")?.str()?,
        frame.column("event_id")?.str()?,
    );
    let salt = frame.column("salt")?.str()?;
    let later = |name: &str| frame.column(name).ok().map(Column::str).transpose();
    let (metadata, origin) = (later(METADATA)?, later(ORIGIN)?);
    let at_sent = frame.column("at_sent")?.bool()?;
    let segments = frame.column("segments")?.list()?;
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let mut rows = Vec::with_capacity(frame.height());
    for place in 0..frame.height() {
        let segments = match segments.get_as_series(place) {
            Some(segments) => segments.str()?.iter().map(text).collect(),
            None => vec![],
        };
        rows.push(score_event::Model {
            partition: partition.get(place).unwrap_or_default(),
            seq: seq.get(place).unwrap_or_default(),
            event_index: event_index.get(place).unwrap_or_default(),
            board_no: board_no.get(place).unwrap_or_default(),
            generation: generation.get(place).unwrap_or_default(),
            member: text(member.get(place)),
            kind: Kind::try_from_value(&text(kind.get(place)))?,
            score: score.get(place),
            at_ms: at_ms.get(place),
            at_sent: at_sent.get(place).unwrap_or_default(),
            event_id: event_id.get(place).map(str::to_owned),
            segments: segments_column::text(&segments),
            void_partition: void_partition.get(place),
            void_seq: void_seq.get(place),
            void_index: void_index.get(place),
            salt: from_hex(salt.get(place).unwrap_or_default()).context("a salt is no bytes")?,
            metadata: metadata.and_then(|texts| texts.get(place)).map(str::to_owned),
            origin: origin.and_then(|texts| texts.get(place)).map(str::to_owned),
        });
    }
    Ok(rows)
}

fn numbers(name: &str, values: impl Iterator<Item = i32>) -> Column {
    Series::new(name.into(), values.collect::<Vec<i32>>()).into()
}

fn some_numbers(name: &str, values: impl Iterator<Item = Option<i32>>) -> Column {
    Series::new(name.into(), values.collect::<Vec<Option<i32>>>()).into()
}

fn large(name: &str, values: impl Iterator<Item = Option<i64>>) -> Column {
    Series::new(name.into(), values.collect::<Vec<Option<i64>>>()).into()
}

fn texts<'a>(name: &str, values: impl Iterator<Item = Option<&'a str>>) -> Column {
    Series::new(name.into(), values.collect::<Vec<Option<&str>>>()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_gives_back_the_rows_it_was_made_of() {
        let score = score_event::Model {
            partition: 3,
            seq: 7,
            event_index: 1,
            board_no: 12,
            generation: 2,
            member: "ü:%{}".to_owned(),
            kind: Kind::Score,
            score: Some(-5),
            at_ms: Some(1_700_000_000_000),
            at_sent: true,
            event_id: Some("e1".to_owned()),
            segments: r#"["region:eu","a\"b"]"#.to_owned(),
            void_partition: None,
            void_seq: None,
            void_index: None,
            salt: vec![0, 1, 254, 255],
            metadata: Some(r#"{"replay":"r1"}"#.to_owned()),
            origin: Some("5/9/0".to_owned()),
        };
        let void = score_event::Model {
            seq: 8,
            kind: Kind::Void,
            score: None,
            at_ms: None,
            at_sent: false,
            event_id: None,
            segments: "[]".to_owned(),
            void_partition: Some(3),
            void_seq: Some(7),
            void_index: Some(1),
            metadata: None,
            origin: None,
            ..score.clone()
        };
        let expected = vec![score, void];
        let mut events = Events::default();
        for row in &expected {
            events.push(row.clone(), 1, Some(5));
        }
        assert_eq!(rows(&events.into_frame().unwrap()).unwrap(), expected);
    }
}
