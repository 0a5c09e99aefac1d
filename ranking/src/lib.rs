//! The rules of Laurel's leaderboards, and where they live in Redis.
//!
//! | module | has |
//! |---|---|
//! | [`id`], [`error`] | names of things, and what can go wrong |
//! | [`score`], [`decay`] | exact decimals as raw integers; the worth of a score that fades |
//! | [`board`] | a board's rules, checked once at its creation; admission, layouts, and a partition's mark of a board |
//! | [`window`] | windows of time and their periods, in any IANA zone |
//! | [`rank_key`] | score and tie-break as one 62-bit number that a Redis double carries exactly |
//! | [`fold`] | how an event meets the state that is there, and histories replayed |
//! | [`roll`], [`seal`] | what the next standings of a rolling window take over; which past periods have left Redis |
//! | [`shard`] | the partition and the shard of a member |
//! | [`standings_id`] | the names of standings |
//! | [`commit`] | commits and their form in the log |
//! | [`submission`] | a batch of scores folded onto a snapshot of Redis, event ids included |
//! | [`store`] | Redis: keys, commits, recovery, reads |
//!
//! Outside [`store`] nothing does I/O. Nothing here knows SQL, looks at a clock or reads the environment.

pub mod board;
pub mod commit;
pub mod decay;
pub mod error;
pub mod fold;
pub mod id;
pub mod rank_key;
pub mod roll;
pub mod score;
pub mod seal;
pub mod shard;
pub mod standings_id;
pub mod store;
pub mod submission;
pub mod window;

pub use error::{Error, Result};
