//! The work that no request waits for: the persister, upkeep, checkpoints and the daily diff.

pub(crate) mod checkpoints;
pub(crate) mod daily_diff;
pub(crate) mod worker;
