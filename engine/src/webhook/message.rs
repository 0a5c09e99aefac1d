//! Messages to receivers: CloudEvents 1.0 in JSON, each with an id that never changes.

use std::collections::BTreeMap;

use entity::board;
use entity::error::Result;
use entity::history::{commit, score_event};
use entity::webhook::{Kind, outbox};
use ranking::commit::EventPlace;
use ranking::metadata::Metadata;
use ranking::{score, shown_instant};
use sea_orm::ActiveEnum;
use serde_json::{Value, json};

use super::delivery::Source;

/// The media type of a body.
pub const MEDIA_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The id of the event: that of the history, or the one that the outbox made once.
    pub id: String,
    /// The place where that id is the only one: a deployment.
    pub source: String,
    /// The type of the event.
    pub kind: String,
    /// The time of the event, in Unix milliseconds.
    pub at_ms: i64,
    /// The key of the member that it is about, else the slug of the board.
    pub key: String,
    /// The body.
    pub body: String,
}

impl Message {
    /// The message of an event of the outbox.
    pub(super) fn of_outbox(source: &Source, row: &outbox::Model) -> Self {
        let data: Value = serde_json::from_str(&row.data).unwrap_or_default();
        Self::new(source, format!("msg_{}", row.id), &row.kind, row.created_at_ms, data)
    }

    fn new(source: &Source, id: String, kind: &str, at_ms: i64, data: Value) -> Self {
        let key = ["member", "board"].iter().find_map(|name| data[name].as_str());
        let (key, source) =
            (key.unwrap_or_default().to_owned(), format!("/laurel/{}", source.identity));
        let body = json!({
            "specversion": "1.0",
            "id": id,
            "source": source,
            "type": kind,
            "time": shown_instant(at_ms),
            "datacontenttype": "application/json",
            "data": data,
        });
        Self { id, source, kind: kind.to_owned(), at_ms, key, body: body.to_string() }
    }
}

/// The id of an event of the history, as all receivers and the API know it.
pub fn event_id(place: &EventPlace) -> String {
    format!("event:{}:{}:{}", place.partition, place.seq, place.index)
}

/// The boards and commits that events of a partition's history are told with.
pub(super) struct Context<'a> {
    source: &'a Source,
    boards: BTreeMap<i64, board::Model>,
    times: BTreeMap<i64, commit::Times>,
}

impl<'a> Context<'a> {
    /// That of some events of a partition.
    ///
    /// # Errors
    /// If SQL fails.
    pub(super) async fn of(
        source: &'a Source,
        partition: i32,
        events: &[score_event::Model],
    ) -> Result<Self> {
        let mut numbers: Vec<i64> = events.iter().map(|event| event.board_no).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let boards = board::of_numbers(&source.db, &numbers).await?;
        let boards = boards.into_iter().map(|board| (board.no, board)).collect();
        let mut seqs: Vec<i64> = events.iter().map(|event| event.seq).collect();
        seqs.dedup();
        let times = commit::times_of_seqs(&source.db, partition, seqs).await?;
        Ok(Self { source, boards, times })
    }

    /// The message of an event of the history; `None` if its board is gone.
    ///
    /// # Errors
    /// `Corrupt` if the row holds a value that the persister never writes.
    pub(super) fn message(&self, event: &score_event::Model) -> Result<Option<Message>> {
        let Some(board) = self.boards.get(&event.board_no) else { return Ok(None) };
        let decimals = u8::try_from(board.decimals).unwrap_or_default();
        let accepted_at_ms = self.times.get(&event.seq).map_or(0, |times| times.accepted_at_ms);
        let metadata = event.metadata.as_deref().map(Metadata::stored);
        let metadata = metadata.and_then(|text| serde_json::from_str(text.as_str()).ok());
        let data = json!({
            "board": board.slug,
            "member": event.member,
            "kind": event.kind.to_value(),
            "score": event.score.map(|raw| score::format(raw, decimals)),
            "at": event.at_ms.map(shown_instant),
            "eventId": event.event_id,
            "segments": event.segments()?,
            "metadata": metadata.unwrap_or(Value::Null),
            "voids": event.voids().map(|place| event_id(&place)),
            // The id of the origin would tell whose scores an anonymous member has.
            "copied": event.origin.is_some(),
        });
        let (id, kind) = (event_id(&event.place()?), Kind::Score.name());
        Ok(Some(Message::new(self.source, id, kind, accepted_at_ms, data)))
    }
}
