//! SQL: the tables as SeaORM entities, how a row becomes what ranking needs, and what moves between Redis and SQL.
//!
//! | module | has |
//! |---|---|
//! | one per table | the entity |
//! | [`blocks`] | many rows at once |
//! | [`deployment`] | the settings that say where the stores are, and the stores opened |
//! | [`change`] | a change of a partition, carried out whatever happens on the way |
//! | [`submit`], [`amend`] | a batch of scores; what takes back |
//! | [`windows`], [`fill`], [`delete`], [`fence`] | a board's windows added, filled and dropped; its end; how partitions learn of it |
//! | [`staged`] | standings made anew beside the live ones, brought forward, put in place |
//! | [`reshard`], [`home`] | a board's move to another number of shards; where the history of a partition's members lies |
//! | [`roll`] | rolling windows moved on as time passes |
//! | [`seal`], [`correction`], [`archive`] | past periods into SQL; what comes late for them; reads of them |
//! | [`archiving`] | old events into files, and out of SQL |
//! | [`follow`] | a partition's history from a commit on, from SQL and then the log |
//! | [`persist`] | the log into SQL, exactly once |
//! | [`recovery`] | a partition of Redis brought level with SQL |
//! | [`integrity_look`], [`repair`] | what members have, beside what their history adds up to; what differs put right |
//! | [`job`], [`schedule`] | one job of a kind at a time; what is done once a day |
//!
//! Nothing here speaks HTTP or GraphQL, and redis is reached through ranking only.

pub mod access_token;
pub mod amend;
pub mod archive;
pub mod archive_file;
pub mod archive_mark;
pub mod archived_entry;
pub mod archiving;
pub mod blocks;
pub mod board;
mod by_member;
mod change;
pub mod commit;
mod correction;
pub mod dead_letter;
pub mod delete;
pub mod deployment;
pub mod deployment_row;
pub mod error;
mod fence;
mod fill;
mod follow;
pub mod friendship;
mod home;
pub mod integrity_finding;
pub mod integrity_look;
pub mod integrity_proof;
pub mod integrity_run;
pub mod job;
pub mod log_cursor;
pub mod member;
pub mod persist;
pub mod recovery;
pub mod repair;
pub mod reshard;
pub mod roll;
pub mod schedule;
pub mod score_event;
pub mod seal;
pub mod sealed_entry;
pub mod sealed_period;
pub mod staged;
pub mod standing;
pub mod submit;
pub mod windows;

pub use error::{Error, Result};

/// The server's clock, in Unix milliseconds.
#[must_use]
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("the clock is after 1970");
    since.as_millis() as i64
}

/// A new commit id or token: 32 random hexadecimal digits.
#[must_use]
pub fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
