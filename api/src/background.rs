//! The work that no request waits for: the persister, upkeep, retention, checkpoints, the daily
//! diff, and the watch of the stores.

pub(crate) mod checkpoints;
pub(crate) mod daily_diff;
mod persister;
pub(crate) mod retention;
pub(crate) mod watch;
pub(crate) mod worker;
