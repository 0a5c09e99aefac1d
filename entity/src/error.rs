//! What can go wrong between Redis and SQL.

use sea_orm::sqlx::{self, error::ErrorKind};
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
            | Self::Unknown => true,
            Self::Ranking(_) => false,
            Self::Sql(error) => !is_refused_content(error),
        }
    }
}

/// Whether SQL refused a row for what is in it, so that it will refuse it again: a constraint, or a value it cannot hold.
#[must_use]
pub fn is_refused_content(error: &DbErr) -> bool {
    let (DbErr::Exec(RuntimeErr::SqlxError(source)) | DbErr::Query(RuntimeErr::SqlxError(source))) =
        error
    else {
        return false;
    };
    let sqlx::Error::Database(answer) = &**source else {
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
    constraint
        || answer
            .code()
            .is_some_and(|code| code.len() == 5 && code.starts_with("22"))
}
