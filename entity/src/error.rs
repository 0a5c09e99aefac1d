//! Errors of Redis and SQL, and which of them are transient.

use sea_orm::sqlx::error::{DatabaseError, ErrorKind};
use sea_orm::sqlx::mysql::MySqlDatabaseError;
use sea_orm::sqlx::sqlite::SqliteError;
use sea_orm::{DbErr, RuntimeErr};

/// The error of every fallible function of this crate and of `engine`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules or Redis refused.
    #[error(transparent)]
    Ranking(#[from] ranking::Error),
    /// SQL refused. The text has the error's own causes, which are no source: a chain of errors
    /// would say each of them twice.
    #[error("the database: {0}")]
    Sql(DbErr),
    /// A commit was sent and its outcome could not be learned in time. Sending the same event ids
    /// again is safe.
    #[error("no answer in time: the commit may or may not have been written")]
    Unknown,
    /// The state that an operation read has changed since; the operation must start over.
    #[error("{0}; try again")]
    Overtaken(String),
}

/// The result of every fallible function of this crate and of `engine`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        Self::Sql(error)
    }
}

impl Error {
    /// True if a later attempt may succeed: a store is away, or a partition waits for recovery.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Ranking(
                ranking::Error::Unavailable(_)
                | ranking::Error::Overloaded(_)
                | ranking::Error::NotLevel(_)
                | ranking::Error::BoardHeld
                | ranking::Error::MemberHeld
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

/// True if SQL refused a row because of its content, so that it will refuse it again: a constraint,
/// or a value that it cannot hold.
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
    // SQLSTATE class 22 is "data exception". MySQL gives none to text that is not of its character
    // set, to a value of another type, and to a row that is too large.
    let of_mysql = answer.try_downcast_ref::<MySqlDatabaseError>();
    constraint
        || answer.code().is_some_and(|code| code.len() == 5 && code.starts_with("22"))
        || of_mysql.is_some_and(|answer| matches!(answer.number(), 1118 | 1265 | 1366))
}

/// True if SQLite gave up waiting for a lock, or did not wait (SQLITE_BUSY in any of its forms).
pub fn is_locked(error: &DbErr) -> bool {
    let (DbErr::Conn(source) | DbErr::Exec(source) | DbErr::Query(source)) = error else {
        return false;
    };
    let code = answer(source).and_then(|answer| answer.try_downcast_ref::<SqliteError>()?.code());
    code.is_some_and(|code| code.parse().is_ok_and(|code: u32| code & 0xff == 5))
}

/// True if the database ended a transaction because others waited for it as it waited for them: it
/// may be tried again at once.
pub fn is_deadlock(error: &DbErr) -> bool {
    let (DbErr::Exec(source) | DbErr::Query(source)) = error else {
        return false;
    };
    // PostgreSQL has the first code, and the other one for what cannot be put in an order. MariaDB
    // and MySQL have the other one alone.
    let code = answer(source).and_then(DatabaseError::code);
    code.is_some_and(|code| code == "40P01" || code == "40001")
}

/// True if a pool had no connection to give in time, so that the error does not say why.
pub fn is_out_of_time(error: &DbErr) -> bool {
    match error {
        DbErr::ConnectionAcquire(_) => true,
        DbErr::Conn(RuntimeErr::SqlxError(source)) => {
            matches!(source.as_ref(), sea_orm::sqlx::Error::PoolTimedOut)
        }
        _ => false,
    }
}

/// True if a statement names a table that the database does not have.
pub fn is_missing_table(error: &DbErr) -> bool {
    let (DbErr::Exec(source) | DbErr::Query(source)) = error else {
        return false;
    };
    answer(source).is_some_and(|answer| {
        // PostgreSQL has the code 42P01, MariaDB and MySQL 42S02; SQLite has none.
        answer.code().is_some_and(|code| code == "42P01" || code == "42S02")
            || answer.message().starts_with("no such table")
    })
}

/// The database's answer, if there was one.
fn answer(source: &RuntimeErr) -> Option<&dyn DatabaseError> {
    match source {
        RuntimeErr::SqlxError(source) => source.as_database_error(),
        _ => None,
    }
}
