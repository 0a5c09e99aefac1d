//! The work that no request waits for: the persister, upkeep and the daily diff.

pub(crate) mod daily_diff;
pub(crate) mod worker;
