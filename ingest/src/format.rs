//! The scores in a message: a JSON object, an array of them, or a CloudEvent around either.
//!
//! A score becomes the input that `submitScores` takes, so the server judges it as any other.

mod cloud_event;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result};
use jiff::Timestamp;
use ranking::commit::content::to_hex;
use ranking::id::{ID_BYTES_MAX, check_slug};
use ranking::score::json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::message::{Fault, MESSAGE_BYTES_MAX, Message, Place};
use cloud_event::Envelope;

/// The most scores of a message.
pub(crate) const MESSAGE_SCORES_MAX: usize = 1000;

/// The longest reason of a fault, in bytes.
const REASON_BYTES_MAX: usize = 512;

/// A score of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Score {
    /// Its index in an array; `None` if it is the whole message.
    pub(crate) item: Option<usize>,
    /// The board's slug.
    pub(crate) board: String,
    /// A `ScoreInput`, as JSON.
    pub(crate) input: String,
}

/// The scores of a message, and its first fault.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) scores: Vec<Score>,
    pub(crate) fault: Option<Fault>,
}

/// The boards of messages that name none.
#[derive(Debug, Clone)]
pub(crate) enum Boards {
    /// Each message has to name its board.
    Named,
    /// This one.
    One(String),
    /// The one between these two parts of the routing key or subject.
    Between(String, String),
}

/// A score as a message has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Item<'a> {
    board: Option<String>,
    member: String,
    #[serde(borrow)]
    score: &'a RawValue,
    at: Option<String>,
    event_id: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    attributes: Option<Vec<Attribute>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Attribute {
    name: String,
    value: String,
}

/// A score as `submitScores` takes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScoreInput<'a> {
    member: &'a str,
    score: &'a str,
    at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<&'a [Attribute]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<PositionInput>,
}

/// The place of a score as `submitScores` takes it.
#[derive(Serialize)]
struct PositionInput {
    partition: u32,
    /// As a text, as it may have more than 15 digits.
    offset: String,
    index: usize,
}

impl Boards {
    /// The boards by two settings, of which there is one at most.
    ///
    /// # Errors
    /// If the board is no slug, or the template does not have one `{board}`.
    pub(crate) fn new(board: Option<&str>, template: Option<&str>) -> Result<Self> {
        match (board, template) {
            (Some(slug), _) => {
                check_slug(slug)?;
                Ok(Self::One(slug.to_owned()))
            }
            (None, None) => Ok(Self::Named),
            (None, Some(template)) => {
                let parts = template.split_once("{board}");
                let (before, after) = parts.filter(|(_, after)| !after.contains("{board}")).with_context(|| {
                    format!("invalid LAUREL_INGEST_BOARD_TEMPLATE {template:?}: expected one {{board}}, as in \"scores.{{board}}\"")
                })?;
                Ok(Self::Between(before.to_owned(), after.to_owned()))
            }
        }
    }

    /// The board of a message that names none.
    fn of(&self, subject: &str) -> Option<String> {
        match self {
            Self::Named => None,
            Self::One(slug) => Some(slug.clone()),
            Self::Between(before, after) => {
                Some(subject.strip_prefix(&**before)?.strip_suffix(&**after)?.to_owned())
            }
        }
    }
}

/// Reads the scores of a message. Each item of an array is read on its own, so a fault of one
/// spares the others.
pub(crate) fn read(message: &Message, boards: &Boards) -> Reading {
    if message.payload.len() > MESSAGE_BYTES_MAX {
        let bytes = message.payload.len();
        let fault =
            Fault::limit(format!("it has {bytes} bytes: expected at most {MESSAGE_BYTES_MAX}"));
        return Reading { fault: Some(fault), ..Reading::default() };
    }
    let read = Envelope::of(message).and_then(|envelope| items(&envelope, message, boards));
    read.unwrap_or_else(|fault| Reading { scores: vec![], fault: Some(fault) })
}

fn items(envelope: &Envelope<'_>, message: &Message, boards: &Boards) -> Result<Reading, Fault> {
    if !envelope.data.trim_start().starts_with('[') {
        let score = score(envelope.data, None, envelope, message, boards)
            .map_err(|error| Fault::bad(shortened(&format!("{error:#}"))))?;
        return Ok(Reading { scores: vec![score], fault: None });
    }
    let values: Vec<&RawValue> = serde_json::from_str(envelope.data)
        .map_err(|error| Fault::bad(shortened(&format!("it is not JSON: {error}"))))?;
    if values.is_empty() {
        return Err(Fault::bad("the array is empty: expected 1 to 1,000 scores"));
    }
    if values.len() > MESSAGE_SCORES_MAX {
        let count = values.len();
        return Err(Fault::limit(format!(
            "it has {count} scores: expected at most {MESSAGE_SCORES_MAX}"
        )));
    }
    let mut reading = Reading::default();
    for (index, value) in values.into_iter().enumerate() {
        match score(value.get(), Some(index), envelope, message, boards) {
            Ok(score) => reading.scores.push(score),
            Err(error) => {
                let reason = shortened(&format!("score {index}: {error:#}"));
                reading.fault.get_or_insert_with(|| Fault::bad(reason));
            }
        }
    }
    Ok(reading)
}

fn score(
    value: &str,
    item: Option<usize>,
    envelope: &Envelope<'_>,
    message: &Message,
    boards: &Boards,
) -> Result<Score> {
    let read: Item<'_> = serde_json::from_str(value).context("it is not a score")?;
    let board = read.board.or_else(|| boards.of(&message.subject));
    let board = board.context(
        "it names no board: expected board in it, or --board, or a subject that fits --board-template",
    )?;
    check_slug(&board)?;
    let at = read.at.or_else(|| envelope.at.clone()).or_else(|| message.at_ms.and_then(instant));
    let at = at.context("it has no time: expected at in it, as its broker gives none")?;
    let event_id = match read.event_id {
        Some(id) => Some(id),
        None => envelope.id.as_ref().or(message.id.as_ref()).map(|id| derived_id(id, item)),
    };
    let input = ScoreInput {
        member: &read.member,
        score: &json::decimal("score", read.score.get())?,
        at: &at,
        event_id: event_id.as_deref(),
        metadata: read.metadata,
        attributes: read.attributes.as_deref(),
        position: message.place.map(|Place { partition, offset }| PositionInput {
            partition,
            offset: offset.to_string(),
            index: item.unwrap_or(0),
        }),
    };
    let input = serde_json::to_string(&input)?;
    Ok(Score { item, board, input })
}

/// An instant as the API takes it.
pub(crate) fn instant(at_ms: i64) -> Option<String> {
    Some(format!("{:.3}", Timestamp::from_millisecond(at_ms).ok()?))
}

/// The event id of a score that has none, by the id of its message; an item of an array by its
/// index, too. One that is too long is named by its hash.
fn derived_id(id: &str, item: Option<usize>) -> String {
    let id = match item {
        None => id.to_owned(),
        Some(index) => format!("{id}/{index}"),
    };
    if id.len() <= ID_BYTES_MAX {
        return id;
    }
    let hash = Sha256::digest(id.as_bytes());
    format!("sha256:{}", to_hex(&hash))
}

/// A reason as it may stand in a header: on one line, and not long.
pub(crate) fn shortened(reason: &str) -> String {
    let end = reason.floor_char_boundary(REASON_BYTES_MAX);
    reason[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
