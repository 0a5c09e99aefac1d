//! The SQL tables. Each has a SeaORM entity, the queries that it owns, and conversions of its rows
//! to values of `ranking`.
//!
//! | module | tables |
//! |---|---|
//! | [`deployment`] | the deployment itself |
//! | [`board`] | boards, their windows and their moves to another number of shards |
//! | [`member`], [`friendship`], [`access_token`] | members, and what they may do |
//! | [`history`] | commits, events, dead letters, and each partition's cursor |
//! | [`standings`] | all-time rows, sealed periods and their entries |
//! | [`archive`] | files of archived events, and their sums |
//! | [`integrity`] | runs of the integrity diff, findings and proofs |
//! | [`job`], [`schedule`] | batch jobs, and work that runs once a day |
//! | [`sql`] | statements that many tables share |
//! | [`blocks`], [`by_member`] | rows read in blocks; rows deleted in chunks |
//!
//! Nothing here parses a command line, starts a server or names `redis`.

pub mod access_token;
pub mod archive;
pub mod blocks;
pub mod board;
pub mod by_member;
pub mod clock;
pub mod deployment;
pub mod error;
pub mod friendship;
pub mod history;
pub mod integrity;
pub mod job;
pub mod member;
pub mod schedule;
pub mod sql;
pub mod standings;

pub use error::{Error, Result};

/// A new commit id or token: 32 random hexadecimal digits.
#[must_use]
pub fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
