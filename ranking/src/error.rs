//! What can go wrong, split by what the caller should do about it.

use crate::id::BoardNo;

/// The error of every fallible function of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The caller's fault: the message says what would be accepted.
    #[error("{0}")]
    Invalid(String),
    /// The caller's fault: a score, or what it would add up to, leaves its range.
    #[error("{0}")]
    OutOfRange(String),
    /// The caller's fault: a limit was passed; the message names it.
    #[error("{0}")]
    LimitExceeded(String),
    /// The caller's fault: the board was deleted, or laid out anew, since the caller learnt of it.
    #[error("this board was deleted or changed a moment ago")]
    BoardGone,
    /// The board is moving to another number of shards: try again in a moment.
    #[error("this board is moving to another number of shards; try again in a few seconds")]
    BoardHeld,
    /// The board has another number of shards than the reader knows, or is about to: read its row again, then the standings.
    #[error("board {0} moved to another number of shards a moment ago; read it again")]
    BoardMoved(BoardNo),
    /// Redis cannot be reached, is loading, or is out of memory: try again later.
    #[error("{0}")]
    Unavailable(String),
    /// A rolling window of a board has not got to the period asked for: roll it, then try again.
    #[error("a rolling window of board {0} waits to be rolled")]
    NotRolled(BoardNo),
    /// A partition does not stand where SQL says it should (restart, flush, old backup): recover it, then try again.
    #[error("partition {0} waits for recovery")]
    NotLevel(u16),
    /// The period was sealed: the archive has it, and every other one that starts before this instant, in Unix milliseconds.
    #[error("the period was sealed; the archive has it")]
    Sealed(i64),
    /// What is stored cannot be what this program wrote: somebody has to look.
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
