//! What a move to another number of shards did.

use std::fmt;

/// What a move did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resharded {
    /// How many shards the board had.
    pub from: u16,
    /// How many it has.
    pub to: u16,
    /// How many standings it has, by shard.
    pub standings: usize,
    /// How long nobody could write, in milliseconds.
    pub held_ms: u64,
    /// How long nobody could read, in milliseconds.
    pub unread_ms: u64,
    /// How long all of it took, in seconds.
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
