//! Errors, split by what the caller should do about them.

use crate::board::fair_play::Suspicion;
use crate::id::MemberId;

/// The error of every fallible function of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The caller's fault: the message says what would be accepted.
    #[error("{0}")]
    Invalid(String),
    /// The caller's fault: a score, or the sum that it would lead to, leaves its range.
    #[error("{0}")]
    OutOfRange(String),
    /// The caller's fault: a limit was passed; the message names it.
    #[error("{0}")]
    LimitExceeded(String),
    /// The caller's fault: a score was earned before its board opens.
    #[error("{0}")]
    NotOpen(String),
    /// The caller's fault: a score was earned when its board had closed.
    #[error("{0}")]
    Closed(String),
    /// The caller's fault: a score came too long after it was earned.
    #[error("{0}")]
    TooLate(String),
    /// The caller's fault: the member has used all its attempts in a period.
    #[error("{0}")]
    AttemptsExhausted(String),
    /// The caller's fault: a score is beyond the limits of its board, or of a banned member.
    #[error("{1}")]
    Suspicious(Suspicion, String),
    /// The caller's fault: the member has not joined the board, or the partition does not know yet
    /// that it has.
    #[error("{0}")]
    NotJoined(String),
    /// The caller's fault: an event id was accepted before with another content.
    #[error("{0}")]
    EventIdConflict(String),
    /// The caller's fault: the board was deleted, or began a new generation, after the caller read
    /// it.
    #[error("this board was deleted or changed a moment ago")]
    BoardGone,
    /// The board is moving to another number of shards: try again in a moment.
    #[error("this board is moving to another number of shards; try again in a few seconds")]
    BoardHeld,
    /// The member takes part in a merge: try again in a moment.
    #[error("this member is being merged; try again in a few seconds")]
    MemberHeld,
    /// The caller's fault: the member was merged into this one.
    #[error("this member was merged into {0}: expected that key")]
    MemberMerged(MemberId),
    /// The board has, or is about to have, another number of shards than the reader knows: read the
    /// board's row again, then the standings.
    #[error("board {0} moved to another number of shards a moment ago; read it again")]
    BoardMoved(i64),
    /// Redis cannot be reached, or is loading: try again later.
    #[error("{0}")]
    Unavailable(String),
    /// A store has no room for a write, or would have to do too much for an answer: try again
    /// later. The message is for the client.
    #[error("{0}")]
    Overloaded(String),
    /// A rolling window of a board has not reached the requested period: roll it, then try again.
    #[error("a rolling window of board {0} has to be rolled first")]
    NotRolled(i64),
    /// The head of a partition is not where SQL says it should be (restart, flush, old backup):
    /// recover the partition, then try again.
    #[error("partition {0} waits for recovery")]
    NotLevel(u16),
    /// The period is sealed, as is every other one of its window that starts before this instant,
    /// in Unix milliseconds: SQL holds their standings.
    #[error("the period is sealed; SQL holds its standings")]
    Sealed(i64),
    /// Stored data that this program cannot have written: an operator has to look.
    #[error("{0}")]
    Corrupt(String),
}

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self::Corrupt(message.into())
    }
}

/// An instant for a message, from Unix milliseconds.
pub fn shown_instant(at_ms: i64) -> String {
    let instant = jiff::Timestamp::from_millisecond(at_ms);
    instant.map_or_else(|_| format!("{at_ms} ms"), |instant| instant.to_string())
}

/// A client's text as it stands in a message: quoted, escaped, and cut to 64 characters.
pub fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 64;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
