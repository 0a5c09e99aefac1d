//! The figures of a move to another number of shards.

use std::fmt;

use serde::Serialize;

/// The figures of a move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Resharded {
    /// The former number of shards.
    pub from: u16,
    /// The new number of shards.
    pub to: u16,
    /// The number of standings, counted by shard.
    pub standings: usize,
    /// The time without writes, in milliseconds.
    pub held_ms: u64,
    /// The time without reads, in milliseconds.
    pub unread_ms: u64,
    /// The total time, in seconds.
    pub seconds: f64,
}

impl fmt::Display for Resharded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, standings, held_ms, unread_ms, seconds } = self;
        if from == to {
            return write!(f, "the board has {to} shards already");
        }
        write!(
            f,
            "moved from {from} to {to} shards ({standings} standings, by shard) in {seconds:.1} s; submissions waited for {held_ms} ms, reads for {unread_ms} ms"
        )
    }
}
