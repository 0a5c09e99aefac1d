//! The engine: all changes of a partition, and all code that keeps Redis and SQL in step.
//!
//! ```text
//! submit, amend, roll, seal, stage …          one change
//!        │  partition::change                  folded in Rust, retried until it is a fast-forward
//!        ▼
//! Redis: head · log · sorted sets              written by one script
//!        │  partition::persist                 exactly once, guarded by the cursor
//!        ▼
//! SQL: commits · events · standings · cursor
//!        │  partition::recovery                when Redis is empty, restarted or out of date
//!        ▼
//! Redis, level with SQL again
//! ```
//!
//! | module | has |
//! |---|---|
//! | [`settings`], [`process`] | every setting of all programs; the signals that stop them |
//! | [`deployment`] | SQL, Redis and the clock, opened |
//! | [`partition`] | a partition's handle: commits with retries, the persister, recovery |
//! | [`board`] | adding, filling and dropping windows; deleting a board; the agenda of all boards |
//! | [`roll`] | carrying rolling windows into their next period |
//! | [`seal`] | moving past periods to SQL, and correcting them there |
//! | [`stage`] | rebuilding standings beside the live ones |
//! | [`reshard`] | moving a board to another number of shards |
//! | [`history`] | removals and voids; old events moved from SQL to files; signed statements |
//! | [`integrity`] | comparing entries with their history, and repairing them |
//! | [`read`] | reading standings, from Redis or, once they are sealed, from SQL |
//! | [`backup`] | a copy of SQL and the archive in files, and a deployment made of one |
//! | [`merge`] | one member merged into another, on all boards |
//! | [`ban`], [`quarantine`] | members taken off boards and put back; scores that are released |
//! | [`erasure`] | everything of a member deleted, with a receipt |
//! | [`webhook`] | events for receivers: ends of periods, messages, deliveries |
//! | [`job`] | leases: one job of a kind at a time on a board |
//! | [`audit`] | the acts of operators at a command line |
//!
//! Nothing here speaks HTTP or GraphQL, and only `ranking` names `redis`.

pub mod audit;
pub mod backup;
pub mod ban;
pub mod board;
pub mod deployment;
pub mod erasure;
pub mod failpoint;
pub mod history;
pub mod integrity;
pub mod job;
pub mod merge;
pub mod partition;
pub mod process;
pub mod quarantine;
pub mod read;
pub mod reshard;
pub mod roll;
pub mod seal;
pub mod settings;
pub mod stage;
pub mod webhook;
