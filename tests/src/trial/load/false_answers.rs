//! The answers that a load was given, and should not have been.

/// Such answers.
#[derive(Debug, Clone, Default)]
pub struct FalseAnswers {
    /// Their number.
    pub count: usize,
    /// The first ones.
    pub shown: Vec<String>,
}
