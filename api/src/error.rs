//! What a client is told: one code and one sentence. Causes are logged here, once, and never sent.

use async_graphql::Enum;

/// What went wrong, for programs: `extensions.code` of an error, and the code of a refused score.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// Something in the request is not accepted; the message says what would be.
    BadUserInput,
    /// A score, or what it would add up to, leaves the board's range.
    ScoreOutOfRange,
    /// There is no such thing.
    NotFound,
    /// There is one already.
    AlreadyExists,
    /// The request needs a valid access token.
    Unauthenticated,
    /// The access token does not allow this.
    Forbidden,
    /// A limit was passed; the message names it.
    LimitExceeded,
    /// The server does not know, or no longer knows, the query of this hash; send it along once.
    PersistedQueryNotFound,
    /// Too many requests; slow down.
    RateLimited,
    /// A store is away or busy for now; try again later.
    Unavailable,
    /// No answer in time; whether it was done is not known.
    Timeout,
    /// A fault of the server; it is in its log.
    Internal,
}

/// The error of every fallible function of this crate that answers a client. async-graphql keeps it as the source of its own,
/// where the answer's writer finds the code.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// For programs.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
}

/// The result of every fallible function of this crate that answers a client.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is said of a board that moves to another number of shards for longer than a request waits.
const HELD: &str = "this board is moving to another number of shards; try again in a few seconds";

impl Error {
    /// An error of that code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// `BAD_USER_INPUT`.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadUserInput, message)
    }

    fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(ErrorCode::Internal, "something is wrong on the server; its log has the cause")
    }

    fn unavailable(cause: &dyn std::fmt::Display) -> Self {
        tracing::warn!(%cause, "a store is not available");
        Self::new(ErrorCode::Unavailable, "a store does not answer for now; try again later")
    }
}

impl ErrorCode {
    /// Its name in the schema.
    #[must_use]
    pub fn name(self) -> &'static str {
        <Self as async_graphql::resolver_utils::EnumType>::items()
            .iter()
            .find(|item| item.value == self)
            .map_or("INTERNAL", |item| item.name)
    }
}

impl From<ranking::Error> for Error {
    fn from(error: ranking::Error) -> Self {
        match error {
            ranking::Error::Invalid(message) => Self::new(ErrorCode::BadUserInput, message),
            ranking::Error::LimitExceeded(message) => Self::new(ErrorCode::LimitExceeded, message),
            ranking::Error::BoardGone => Self::new(ErrorCode::NotFound, error.to_string()),
            ranking::Error::BoardHeld | ranking::Error::BoardMoved(_) => {
                Self::new(ErrorCode::Unavailable, HELD)
            }
            ranking::Error::OutOfRange(message) => Self::new(ErrorCode::ScoreOutOfRange, message),
            ranking::Error::Unavailable(_)
            | ranking::Error::NotLevel(_)
            | ranking::Error::NotRolled(_)
            | ranking::Error::Sealed(_) => Self::unavailable(&error),
            ranking::Error::Corrupt(_) => Self::internal(&error),
        }
    }
}

impl From<entity::Error> for Error {
    fn from(error: entity::Error) -> Self {
        match error {
            entity::Error::Ranking(error) => error.into(),
            entity::Error::Unknown => Self::new(
                ErrorCode::Timeout,
                "no answer in time: whether it was done is not known; scores are safe to send again with the same eventId",
            ),
            error if error.is_for_now() => Self::unavailable(&error),
            error => Self::internal(&error),
        }
    }
}

impl From<sea_orm::DbErr> for Error {
    fn from(error: sea_orm::DbErr) -> Self {
        entity::Error::from(error).into()
    }
}
