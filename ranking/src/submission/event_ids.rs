//! Event ids: a partition's record of them, and the outcome of a repeated one.

use crate::commit::content::{from_hex, to_hex};
use crate::commit::{Event, EventKind};
use crate::error::{Error, Result};
use crate::id::{BoardNo, EventId, MemberId};
use crate::metadata::{Metadata, MetadataHash};
use crate::submission::Verdict;

/// The field of an event id in a seen hash. Ids have no control characters, so a line feed
/// separates the parts.
pub fn seen_field(board: BoardNo, member: &MemberId, event_id: &EventId) -> String {
    format!("{board}\n{member}\n{event_id}")
}

/// The field and value in a seen hash for an event of a commit; `None` for a removal, a void or an
/// event without an id.
pub fn seen_entry(event: &Event, accepted_at_ms: i64, seq: u64) -> Option<(String, String)> {
    let EventKind::Score { score, at_ms, at_sent } = event.kind else {
        return None;
    };
    let field = seen_field(event.board, &event.member, event.event_id.as_ref()?);
    let at_ms = at_sent.then_some(at_ms);
    let metadata = event.metadata.as_ref().map(Metadata::hash);
    let seen = Seen { score, at_ms, accepted_at_ms, seq, metadata };
    Some((field, seen.to_text()))
}

/// The prefix of the fields of a board's event ids.
pub fn seen_prefix(board: BoardNo) -> String {
    format!("{board}\n")
}

/// A field of a seen hash that is not an event id: while it exists, the hash has lost nothing since
/// the field was written.
pub fn seen_mark(board: BoardNo, name: &str) -> String {
    // No member id is empty.
    format!("{board}\n\n{name}")
}

/// True if a seen hash's value for an event id belongs to the commit with that seq in this
/// partition. A value from another partition is recognized by its time of acceptance, in Unix
/// milliseconds.
///
/// # Errors
/// `Corrupt` for any other value.
pub fn seen_is_of(value: &str, seq: u64, accepted_at_ms: i64) -> Result<bool> {
    let seen = Seen::parse(value)?;
    Ok(match seen.seq {
        ELSEWHERE => seen.accepted_at_ms == accepted_at_ms,
        own => own == seq,
    })
}

/// The seq recorded for an event id that another partition accepted before the board moved to
/// another number of shards. SQL has the real one.
pub const ELSEWHERE: u64 = 0;

/// The record of an accepted event id: `<raw score> <at or -> <accepted at> <seq>`, and the hash of
/// its metadata if it has some; the seq is 0 if another partition accepted it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) score: i64,
    pub(crate) at_ms: Option<i64>,
    pub(crate) accepted_at_ms: i64,
    pub(crate) seq: u64,
    pub(crate) metadata: Option<MetadataHash>,
}

impl Seen {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut parts = text.split(' ');
        let seen = (|| {
            let score = parts.next()?.parse().ok()?;
            let at_ms = match parts.next()? {
                "-" => None,
                at => Some(at.parse().ok()?),
            };
            Some(Self {
                score,
                at_ms,
                accepted_at_ms: parts.next()?.parse().ok()?,
                seq: parts.next()?.parse().ok()?,
                metadata: match parts.next() {
                    Some(hash) => Some(from_hex(hash)?.try_into().ok()?),
                    None => None,
                },
            })
        })();
        seen.ok_or_else(|| Error::corrupt(format!("{text:?} is not a record of an event id")))
    }

    pub(crate) fn to_text(self) -> String {
        let at = self.at_ms.map_or_else(|| "-".to_owned(), |at_ms| at_ms.to_string());
        let mut text = format!("{} {at} {} {}", self.score, self.accepted_at_ms, self.seq);
        if let Some(hash) = self.metadata {
            text.push(' ');
            text.push_str(&to_hex(&hash));
        }
        text
    }

    pub(crate) fn verdict_on(&self, again: &Self) -> Verdict {
        // The first submission's time was capped at its acceptance; a repeated time is capped
        // alike.
        let at_ms = again.at_ms.map(|at_ms| at_ms.min(self.accepted_at_ms));
        if (self.score, self.at_ms, self.metadata) == (again.score, at_ms, again.metadata) {
            return Verdict::Duplicate { seq: self.seq };
        }
        Verdict::Rejected(Error::EventIdConflict(
            "invalid eventId: it was accepted with another score, time or metadata: expected the same content for the same id"
                .to_owned(),
        ))
    }
}
