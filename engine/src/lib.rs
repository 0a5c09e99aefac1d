//! The engine: everything that changes a partition, and that keeps Redis and SQL in step.
//!
//! ```text
//! submit, amend, roll, seal, stage …          one change
//!        │  partition::change                  folded in Rust, retried until it is a fast-forward
//!        ▼
//! Redis: head · log · sorted sets              written by one script
//!        │  partition::persist                 exactly once, guarded by the cursor
//!        ▼
//! SQL: commits · events · standings · cursor
//!        │  partition::recovery                when Redis is empty, old or another one
//!        ▼
//! Redis, level with SQL again
//! ```
//!
//! | module | has |
//! |---|---|
//! | [`deployment`] | the settings that name the stores, and the stores opened |
//! | [`partition`] | a change carried out, the log persisted, a partition recovered |
//! | [`amend`] | removals and voids |
//! | [`board`] | windows added, filled and dropped; the end of a board |
//! | [`roll`], [`seal`] | rolling windows moved on; past periods into SQL, and their corrections |
//! | [`stage`], [`reshard`] | standings rebuilt beside the live ones; a board moved to another number of shards |
//! | [`archive`] | old events into files, and out of SQL |
//! | [`integrity`] | entries compared with their history, and repaired |
//! | [`read`] | standings read from SQL |
//! | [`job`] | one job of a kind at a time on a board |
//!
//! Nothing here speaks HTTP or GraphQL, and `redis` is reached through `ranking` only.

pub mod amend;
pub mod archive;
pub mod board;
pub mod deployment;
pub mod integrity;
pub mod job;
pub mod partition;
pub mod read;
pub mod reshard;
pub mod roll;
pub mod seal;
pub mod stage;
