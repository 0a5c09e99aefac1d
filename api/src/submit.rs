//! Scores on their way into partitions.

pub(crate) mod committer;
pub(crate) mod memory;
pub(crate) mod queue;
