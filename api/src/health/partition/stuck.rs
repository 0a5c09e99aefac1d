//! The reasons why SQL's cursor stands still.

/// The reason why a cursor is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StuckBy {
    /// SQL is away.
    Sql,
    /// Redis does not answer.
    Redis,
    /// The partition waits for recovery.
    NotLevel,
    /// No process persists it.
    Persister,
}

impl StuckBy {
    /// All reasons.
    pub(crate) const ALL: [Self; 4] = [Self::Sql, Self::Redis, Self::NotLevel, Self::Persister];

    /// The name in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::Redis => "redis",
            Self::NotLevel => "not_level",
            Self::Persister => "persister",
        }
    }
}
