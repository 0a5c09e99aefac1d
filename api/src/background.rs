//! The work that no request waits for: the persister, upkeep, retention, checkpoints, the daily
//! diff, files without erased members, webhooks, and the watch of the stores.

pub(crate) mod checkpoints;
pub(crate) mod daily_diff;
pub(crate) mod erased_files;
pub(crate) mod mirror;
mod persister;
pub(crate) mod program;
pub(crate) mod retention;
pub(crate) mod watch;
pub(crate) mod webhooks;
pub(crate) mod worker;
