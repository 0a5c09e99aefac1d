//! Scores on their way into partitions.

pub(crate) mod committer;
pub(crate) mod queue;
