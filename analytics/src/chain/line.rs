//! The lines of a history file: one JSON object for each commit, with its events.

use anyhow::{Context, Result, ensure};
use entity::history::score_event::Kind;
use entity::history::{commit, score_event, segments};
use ranking::commit::content::{LEAF_BYTES, from_hex, to_hex};
use sea_orm::ActiveEnum;
use serde::{Deserialize, Serialize};

use super::commits::Recorded;

/// A commit.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    partition: u16,
    seq: i64,
    version: i32,
    id: String,
    parent: String,
    random: String,
    accepted_at_ms: i64,
    clock_ms: i64,
    /// The number of events whose content is known to be gone.
    gone: i32,
    events: Vec<EventOfLine>,
}

/// An event: its leaf, and its content unless that is gone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventOfLine {
    leaf: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<ContentOfLine>,
}

/// The content of an event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentOfLine {
    salt: String,
    board: i64,
    generation: i32,
    member: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    score: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    at_sent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    segments: Vec<String>,
    /// Partition, seq and index of the event that it voids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    voids: Option<(i32, i64, i32)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<String>,
    /// The place of the event that it is a copy of: `partition/seq/index`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

impl Line {
    /// The line of a commit.
    ///
    /// # Errors
    /// If a row holds a value that the persister never writes.
    pub fn of(commit: &Recorded) -> Result<Self> {
        let row = &commit.row;
        let leaves = row.leaves.chunks(LEAF_BYTES);
        let events = leaves.zip(&commit.events).map(|(leaf, event)| {
            let content = event.as_ref().map(ContentOfLine::of).transpose()?;
            anyhow::Ok(EventOfLine { leaf: to_hex(leaf), content })
        });
        Ok(Self {
            partition: row.partition.try_into()?,
            seq: row.seq,
            version: row.version,
            id: row.id.clone(),
            parent: row.parent.clone(),
            random: to_hex(&row.random),
            accepted_at_ms: row.accepted_at_ms,
            clock_ms: row.clock_ms,
            gone: row.gone,
            events: events.collect::<Result<_>>()?,
        })
    }

    /// The partition.
    pub fn partition(&self) -> u16 {
        self.partition
    }

    /// The commit of the line.
    ///
    /// # Errors
    /// If it holds something that no commit has.
    pub fn into_commit(self) -> Result<Recorded> {
        let (partition, seq) = (i32::from(self.partition), self.seq);
        let bytes = |text: &str| from_hex(text).context("expected hexadecimal digits");
        let mut leaves = vec![];
        for event in &self.events {
            let leaf = bytes(&event.leaf)?;
            ensure!(leaf.len() == LEAF_BYTES, "expected a leaf of 64 hexadecimal digits");
            leaves.extend(leaf);
        }
        let mut commit = Recorded::new(commit::Model {
            partition,
            seq,
            id: self.id,
            parent: self.parent,
            accepted_at_ms: self.accepted_at_ms,
            clock_ms: self.clock_ms,
            events: self.events.len().try_into()?,
            gone: self.gone,
            version: self.version,
            random: bytes(&self.random)?,
            leaves,
        });
        for (index, event) in (0..).zip(self.events) {
            if let Some(content) = event.content {
                commit.put(content.into_row(partition, seq, index)?);
            }
        }
        Ok(commit)
    }
}

impl ContentOfLine {
    fn of(row: &score_event::Model) -> Result<Self> {
        Ok(Self {
            salt: to_hex(&row.salt),
            board: row.board_no,
            generation: row.generation,
            member: row.member.clone(),
            kind: row.kind.to_value(),
            score: row.score,
            at_ms: row.at_ms,
            at_sent: row.at_sent,
            event_id: row.event_id.clone(),
            segments: row.segments()?,
            voids: row
                .void_partition
                .zip(row.void_seq)
                .zip(row.void_index)
                .map(|((partition, seq), index)| (partition, seq, index)),
            metadata: row.metadata.clone(),
            origin: row.origin.clone(),
        })
    }

    fn into_row(self, partition: i32, seq: i64, event_index: i32) -> Result<score_event::Model> {
        Ok(score_event::Model {
            partition,
            seq,
            event_index,
            board_no: self.board,
            generation: self.generation,
            member: self.member,
            kind: Kind::try_from_value(&self.kind)?,
            score: self.score,
            at_ms: self.at_ms,
            at_sent: self.at_sent,
            event_id: self.event_id,
            segments: segments::text(&self.segments),
            void_partition: self.voids.map(|(partition, _, _)| partition),
            void_seq: self.voids.map(|(_, seq, _)| seq),
            void_index: self.voids.map(|(_, _, index)| index),
            salt: from_hex(&self.salt).context("expected hexadecimal digits")?,
            metadata: self.metadata,
            origin: self.origin,
        })
    }
}
