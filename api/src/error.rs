//! Errors as clients see them: one code and one sentence. Causes are logged here, once, and never
//! sent.

use async_graphql::Enum;
use engine::read::choice::Unreadable;
use ranking::board::fair_play::Suspicion;

/// The kind of an error, for programs: `extensions.code` of an error, and the code of a rejected
/// score.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// Something in the request is invalid; the message says what is expected.
    BadUserInput,
    /// The score, or the sum it would lead to, is outside the range of the board.
    ScoreOutOfRange,
    /// The score was earned before the board opens: `opensAt`.
    BoardNotOpen,
    /// The score was earned when the board had closed: `closesAt`.
    BoardClosed,
    /// The score came too long after it was earned: `maxLatenessSeconds`.
    TooLate,
    /// The member has used all its attempts in a period: `attemptsMax` of the window.
    AttemptsExhausted,
    /// The member has as many scores in this minute as the board allows: `perMinuteMax`.
    PerMinuteExceeded,
    /// The score would change the member's score by more than the board allows: `deltaMax`.
    DeltaExceeded,
    /// The member is banned from the board.
    MemberBanned,
    /// The member has not joined the board: `joinBoard`.
    NotJoined,
    /// The board has as many entrants as it may have: `entrantsMax`.
    EntrantsFull,
    /// The event id was accepted before, with another score, time or metadata.
    EventIdConflict,
    /// The request names something that does not exist.
    NotFound,
    /// The board does not have the window; the message names those that it has.
    WindowNotFound,
    /// No season is open at the instant asked for; the message says what would be accepted.
    SeasonNotOpen,
    /// The request creates something that already exists.
    AlreadyExists,
    /// The request needs a valid access token.
    Unauthenticated,
    /// The access token has expired.
    ExpiredToken,
    /// The access token does not allow this.
    Forbidden,
    /// The request exceeds a limit; the message names it.
    LimitExceeded,
    /// The server does not know the query with this hash, or no longer does; send the query along
    /// once.
    PersistedQueryNotFound,
    /// The member was merged into another one; `mergedInto` has its key.
    MemberMerged,
    /// Too many requests; slow down.
    RateLimited,
    /// A store is unavailable or busy; try again later.
    Unavailable,
    /// No answer in time, so the outcome is unknown.
    Timeout,
    /// A fault of the server; its log has the cause.
    Internal,
}

/// The error of every function of this crate that answers a client. async-graphql keeps it as the
/// source of its own error, where the response writer finds the code.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The code, for programs.
    pub code: ErrorCode,
    /// The message, for people.
    pub message: String,
    /// The path of the argument that is wrong, such as `input.scores[1].score`, if it is one.
    pub argument: Option<String>,
    /// The key of the member that the member was merged into, if that is what is wrong.
    pub merged_into: Option<String>,
}

/// The result of every function of this crate that answers a client.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The message if a board takes longer to move to another number of shards than a request waits.
const HELD: &str = "this board is moving to another number of shards; try again in a few seconds";

impl ErrorCode {
    /// True if the client's token is not good.
    pub fn is_of_token(self) -> bool {
        matches!(self, Self::Unauthenticated | Self::ExpiredToken)
    }
}

impl Error {
    /// An error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), argument: None, merged_into: None }
    }

    /// This error, of the argument with a path.
    #[must_use]
    pub fn at(self, argument: impl Into<String>) -> Self {
        Self { argument: Some(argument.into()), ..self }
    }

    /// This error with the path of its argument continued outwards, if it has one.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        let argument = self.argument.map(|argument| format!("{outer}.{argument}"));
        Self { argument, ..self }
    }

    /// `BAD_USER_INPUT`.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadUserInput, message)
    }

    /// `LIMIT_EXCEEDED`.
    pub fn limit_exceeded(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::LimitExceeded, message)
    }

    /// `UNAUTHENTICATED`.
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unauthenticated, message)
    }

    /// `FORBIDDEN`.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Forbidden, message)
    }

    /// `INTERNAL`; the cause is logged.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(ErrorCode::Internal, "internal error; the server's log has the cause")
    }

    fn unavailable(cause: &dyn std::fmt::Display) -> Self {
        tracing::warn!(%cause, "a store is unavailable");
        Self::new(ErrorCode::Unavailable, "a store does not answer; try again later")
    }
}

impl ErrorCode {
    /// The name in the schema.
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
            ranking::Error::NotOpen(message) => Self::new(ErrorCode::BoardNotOpen, message),
            ranking::Error::Closed(message) => Self::new(ErrorCode::BoardClosed, message),
            ranking::Error::TooLate(message) => Self::new(ErrorCode::TooLate, message),
            ranking::Error::AttemptsExhausted(message) => {
                Self::new(ErrorCode::AttemptsExhausted, message)
            }
            ranking::Error::Suspicious(suspicion, message) => {
                let code = match suspicion {
                    Suspicion::PerMinuteMax => ErrorCode::PerMinuteExceeded,
                    Suspicion::DeltaMax => ErrorCode::DeltaExceeded,
                    Suspicion::Banned => ErrorCode::MemberBanned,
                };
                Self::new(code, message)
            }
            ranking::Error::NotJoined(message) => Self::new(ErrorCode::NotJoined, message),
            ranking::Error::EventIdConflict(message) => {
                Self::new(ErrorCode::EventIdConflict, message)
            }
            ranking::Error::BoardGone => Self::new(ErrorCode::NotFound, error.to_string()),
            ranking::Error::BoardHeld | ranking::Error::BoardMoved(_) => {
                Self::new(ErrorCode::Unavailable, HELD)
            }
            ranking::Error::Overloaded(message) => Self::new(ErrorCode::Unavailable, message),
            ranking::Error::MemberHeld => Self::new(ErrorCode::Unavailable, error.to_string()),
            ranking::Error::MemberMerged(ref target) => {
                let merged_into = Some(target.to_string());
                Self { merged_into, ..Self::new(ErrorCode::MemberMerged, error.to_string()) }
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

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::Invalid(error) => error.into(),
            Unreadable::NoSeason(message) => Self::new(ErrorCode::SeasonNotOpen, message),
            Unreadable::NoWindow(message) => Self::new(ErrorCode::WindowNotFound, message),
            Unreadable::Filling { .. } => Self::new(ErrorCode::Unavailable, error.to_string()),
        }
    }
}

impl From<entity::Error> for Error {
    fn from(error: entity::Error) -> Self {
        match error {
            entity::Error::Ranking(error) => error.into(),
            entity::Error::Unknown => Self::new(
                ErrorCode::Timeout,
                "no answer in time, so the outcome is unknown; scores are safe to send again with the same eventId",
            ),
            error if error.is_transient() => Self::unavailable(&error),
            error => Self::internal(&error),
        }
    }
}

impl From<sea_orm::DbErr> for Error {
    fn from(error: sea_orm::DbErr) -> Self {
        entity::Error::from(error).into()
    }
}
