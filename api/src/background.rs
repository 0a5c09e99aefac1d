//! The work that no request waits for: the persister, upkeep, retention, the daily diff, and the
//! watch of the stores.

pub(crate) mod daily_diff;
pub(crate) mod retention;
pub(crate) mod watch;
pub(crate) mod worker;
