//! The store against a real redis-server: exact keys, reads over shards, and commits that are
//! fast-forwards or write nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commits;
mod keys;
mod reads;
mod restarts;
mod server;
mod snapshots;
mod stages;
