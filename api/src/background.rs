//! The work that no request waits for: the persister, upkeep and the daily diff.

pub(crate) mod daily_diff;
mod persister;
pub(crate) mod worker;
