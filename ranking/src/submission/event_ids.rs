//! Event ids: how a partition remembers them, and what a second one of the same name is.

use crate::commit::{Event, EventKind};
use crate::error::{Error, Result};
use crate::id::{BoardNo, EventId, MemberId};
use crate::submission::Verdict;

/// The field of an event id in a seen hash: ids have no control characters, so a line feed parts them.
#[must_use]
pub fn seen_field(board: BoardNo, member: &MemberId, event_id: &EventId) -> String {
    format!("{board}\n{member}\n{event_id}")
}

/// The field and value that a seen hash has for an event of a commit; `None` for one without an id, a removal or a void.
#[must_use]
pub fn seen_entry(event: &Event, accepted_at_ms: i64, seq: u64) -> Option<(String, String)> {
    let EventKind::Score { score, at_ms, at_sent } = event.kind else {
        return None;
    };
    let field = seen_field(event.board, &event.member, event.event_id.as_ref()?);
    let seen = Seen { score, at_ms: at_sent.then_some(at_ms), accepted_at_ms, seq };
    Some((field, seen.to_text()))
}

/// What the fields of a board's event ids begin with.
#[must_use]
pub fn seen_prefix(board: BoardNo) -> String {
    format!("{board}\n")
}

/// A field of a seen hash that is no event id: as long as it is there, nothing of the hash was lost since it was put there.
#[must_use]
pub fn seen_mark(board: BoardNo, name: &str) -> String {
    // No member is the empty text.
    format!("{board}\n\n{name}")
}

/// Whether the value that a seen hash has for an event id is of the commit of that seq in this partition; one of another partition is told by the instant
/// of its acceptance, in Unix milliseconds.
///
/// # Errors
/// `Corrupt` where it is no such value.
pub fn seen_is_of(value: &str, seq: u64, accepted_at_ms: i64) -> Result<bool> {
    let seen = Seen::parse(value)?;
    Ok(match seen.seq {
        ELSEWHERE => seen.accepted_at_ms == accepted_at_ms,
        own => own == seq,
    })
}

/// The seq that is noted of an event id which another partition accepted, before its board moved to another number of shards. SQL has it.
pub const ELSEWHERE: u64 = 0;

/// What an event id was accepted as: `<raw score> <at or -> <accepted at> <seq>`, the seq being 0 where another partition accepted it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) score: i64,
    pub(crate) at_ms: Option<i64>,
    pub(crate) accepted_at_ms: i64,
    pub(crate) seq: u64,
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
            })
        })();
        seen.ok_or_else(|| Error::corrupt(format!("{text:?} is no record of an event id")))
    }

    pub(crate) fn to_text(self) -> String {
        let at = self.at_ms.map_or_else(|| "-".to_owned(), |at_ms| at_ms.to_string());
        format!("{} {at} {} {}", self.score, self.accepted_at_ms, self.seq)
    }

    pub(crate) fn verdict_on(&self, again: &Self) -> Verdict {
        // The first one's time was no later than its acceptance; the same time sent again must meet that.
        let at_ms = again.at_ms.map(|at_ms| at_ms.min(self.accepted_at_ms));
        if (self.score, self.at_ms) == (again.score, at_ms) {
            return Verdict::Duplicate { seq: self.seq };
        }
        Verdict::Rejected(Error::invalid(
            "this eventId was accepted with another score or time; the same id is accepted with the same content only",
        ))
    }
}
