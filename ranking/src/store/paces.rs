//! The numbers of scores of members that are ranked on a board in a minute.
//!
//! They are no part of the history: a partition that is recovered, or a board that moves, counts
//! from 0 again.

use super::write::{PAIRS_MAX, Writes};
use crate::board::fair_play::MINUTE_MS;
use crate::id::{BoardNo, MemberId, PartitionNo};
use crate::store::key::KeySpace;

/// The time for which Redis keeps the numbers of ranked scores of a minute after the last one, in
/// milliseconds.
const PACE_KEPT_MS: i64 = 2 * MINUTE_MS;

impl Writes {
    /// Sets the numbers of scores that are ranked in a minute: `HSET`, then `PEXPIRE`. The minute
    /// is one of the process' clock, and the key is of no use once that minute is over.
    pub fn set_paces(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        paces: &[(BoardNo, i64, MemberId, u32)],
    ) {
        let of_minute = |(no, minute, ..): &(BoardNo, i64, MemberId, u32)| (*no, *minute);
        for chunk in paces.chunk_by(|a, b| of_minute(a) == of_minute(b)) {
            let (no, minute) = of_minute(&chunk[0]);
            let key = keys.pace(partition, no, minute);
            for some in chunk.chunks(PAIRS_MAX) {
                let pair = |(_, _, member, ranked): &(_, _, MemberId, u32)| {
                    [member.to_string(), ranked.to_string()]
                };
                self.push("HSET", &key, some.iter().flat_map(pair).collect());
            }
            self.push("PEXPIRE", &key, vec![PACE_KEPT_MS.to_string()]);
        }
    }
}
