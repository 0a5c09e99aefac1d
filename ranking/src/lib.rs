//! The rules of Laurel's leaderboards, and the Redis store that holds them.
//!
//! | module | has |
//! |---|---|
//! | [`id`], [`error`] | identifiers; errors, split by what the caller should do |
//! | [`text`] | the characters of new names |
//! | [`attribute`] | attributes of members, and the segments by them |
//! | [`position`] | how far a partition has taken the messages of a source |
//! | [`score`] | exact decimals as raw integers; rank keys; decay |
//! | [`board`] | a board's rules, checked once; admission; layouts; a partition's mark of a board |
//! | [`window`] | windows of time and their periods, in any IANA zone; rolls and seals |
//! | [`fold`] | how an event changes a member's state; histories replayed |
//! | [`merge`] | a partition's mark of a member that takes part in a merge |
//! | [`metadata`] | the metadata of an event and of an entry |
//! | [`shard`] | a member's shard and partition |
//! | [`standings_id`] | the names of standings |
//! | [`commit`] | commits and their form in the log |
//! | [`submission`] | a batch of scores, event ids included, folded onto a snapshot of Redis |
//! | [`store`] | Redis: keys, commits, recovery, reads |
//!
//! Only [`store`] does I/O. Nothing here knows SQL, looks at a clock or reads the environment.

pub mod attribute;
pub mod board;
pub mod commit;
pub mod error;
pub mod fold;
pub mod id;
pub mod merge;
pub mod metadata;
pub mod position;
pub mod score;
pub mod shard;
pub mod standings_id;
pub mod store;
pub mod submission;
pub mod text;
pub mod window;

pub use error::{Error, Result, shown, shown_instant};
