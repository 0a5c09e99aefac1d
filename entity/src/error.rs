//! What can go wrong between Redis and SQL.

use sea_orm::sqlx::error::{DatabaseError, ErrorKind};
use sea_orm::sqlx::sqlite::SqliteError;
use sea_orm::{DbErr, RuntimeErr};

/// The error of every fallible function of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules or Redis said no.
    #[error(transparent)]
    Ranking(#[from] ranking::Error),
    /// SQL said no.
    #[error("the database: {0}")]
    Sql(#[from] DbErr),
    /// A commit was sent and it could not be learnt in time whether it was written; sending the same event ids again is safe.
    #[error("no answer in time: whether it was written is not known")]
    Unknown,
    /// What was read is no longer so: what is done with it is to be begun again.
    #[error("{0} meanwhile; try again")]
    Overtaken(String),
}

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether trying again later may help: a store is away, or a partition waits for recovery.
    #[must_use]
    pub fn is_for_now(&self) -> bool {
        match self {
            Self::Ranking(
                ranking::Error::Unavailable(_)
                | ranking::Error::NotLevel(_)
                | ranking::Error::BoardHeld
                | ranking::Error::BoardMoved(_)
                | ranking::Error::NotRolled(_),
            )
            | Self::Unknown
            | Self::Overtaken(_) => true,
            Self::Ranking(_) => false,
            Self::Sql(error) => !is_refused_content(error),
        }
    }
}

/// Whether SQL refused a row for what is in it, so that it will refuse it again: a constraint, or a value it cannot hold.
#[must_use]
pub fn is_refused_content(error: &DbErr) -> bool {
    let (DbErr::Exec(source) | DbErr::Query(source)) = error else {
        return false;
    };
    let Some(answer) = answer(source) else {
        return false;
    };
    let constraint = matches!(
        answer.kind(),
        ErrorKind::UniqueViolation
            | ErrorKind::ForeignKeyViolation
            | ErrorKind::NotNullViolation
            | ErrorKind::CheckViolation
    );
    // SQLSTATE class 22 is "data exception".
    constraint || answer.code().is_some_and(|code| code.len() == 5 && code.starts_with("22"))
}

/// Whether SQLite gave up waiting for a lock, or did not wait (SQLITE_BUSY in any of its forms).
#[must_use]
pub fn is_locked(error: &DbErr) -> bool {
    let (DbErr::Conn(source) | DbErr::Exec(source) | DbErr::Query(source)) = error else {
        return false;
    };
    let code = answer(source).and_then(|answer| answer.try_downcast_ref::<SqliteError>()?.code());
    code.is_some_and(|code| code.parse().is_ok_and(|code: u32| code & 0xff == 5))
}

/// What the database answered, where it did.
fn answer(source: &RuntimeErr) -> Option<&dyn DatabaseError> {
    match source {
        RuntimeErr::SqlxError(source) => source.as_database_error(),
        _ => None,
    }
}
