//! The rules of Laurel's leaderboards, and where they live in Redis.
//!
//! | module | has |
//! |---|---|
//! | [`id`], [`error`] | names of things, and what can go wrong |
//! | [`score`] | exact decimals as raw integers |
//! | [`board`], [`admission`] | a board's rules, checked once at its creation; which scores it takes when |
//! | [`board_mark`] | what a partition knows of a board |
//! | [`window`] | windows of time and their periods, in any IANA zone |
//! | [`decay`] | what a score is still worth, as a number whose order time does not change |
//! | [`rank_key`] | score and tie-break as one 62-bit number that a Redis double carries exactly |
//! | [`fold`] | how an event meets the state that is there |
//! | [`roll`] | what the next standings of a rolling window take over from the present ones |
//! | [`shard`], [`layout`] | which partition and shard a member is in, and was in before |
//! | [`key`] | every Redis key, drawn |
//! | [`commit`] | commits and their form in the log |
//! | [`submission`], [`batch`], [`seen`] | a batch of scores folded onto what Redis held at one moment; the event ids that it knew |
//! | [`replay`] | standings from history, event by event |
//! | [`seal`] | which past periods have left Redis, and how a partition says so |
//! | [`store`] | Redis: commits, recovery, reads |
//!
//! Nothing here knows SQL, looks at a clock or reads the environment.

pub mod admission;
pub mod batch;
pub mod board;
pub mod board_mark;
pub mod commit;
pub mod decay;
pub mod error;
pub mod fold;
pub mod id;
pub mod key;
pub mod layout;
pub mod rank_key;
pub mod replay;
pub mod roll;
pub mod score;
pub mod seal;
pub mod seen;
pub mod shard;
pub mod store;
pub mod submission;
pub mod window;

pub use error::{Error, Result};
