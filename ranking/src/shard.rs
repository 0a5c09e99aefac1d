//! The location of a member's entries: the shard of a sorted set, and the partition that holds it.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::board::Board;
use crate::error::{Error, Result};
use crate::id::{BoardNo, MemberId, PartitionNo};

/// The most partitions that a deployment may have.
pub const PARTITIONS_MAX: u16 = 4096;

/// The number of partitions, a power of two, fixed when a deployment is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partitions(u16);

impl Partitions {
    /// Checks that the number is a power of two within the limit.
    ///
    /// # Errors
    /// `Invalid` unless it is a power of two from 1 to 4096.
    pub fn new(count: u16) -> Result<Self> {
        if count.is_power_of_two() && count <= PARTITIONS_MAX {
            return Ok(Self(count));
        }
        Err(Error::invalid(format!(
            "invalid number of partitions {count}: expected a power of two from 1 to {PARTITIONS_MAX}"
        )))
    }

    /// The number.
    pub fn count(self) -> u16 {
        self.0
    }

    /// Every partition.
    pub fn each(self) -> impl Iterator<Item = PartitionNo> {
        (0..self.0).map(PartitionNo)
    }

    /// The partition of a board's shard. The hash is frozen: stored data depends on it.
    pub fn of(self, board: &Board, shard: u16) -> PartitionNo {
        self.place(board.no, board.rules.shards, shard)
    }

    /// The partition of a shard, among a number of shards, of the board with a number.
    pub fn of_shard(self, no: BoardNo, shards: u16, shard: u16) -> PartitionNo {
        self.place(no, shards, shard)
    }

    pub(crate) fn place(self, no: BoardNo, shards: u16, shard: u16) -> PartitionNo {
        let step = u64::from(self.0 / shards);
        let place = hash_of_board(no).wrapping_add(u64::from(shard) * step);
        PartitionNo((place % u64::from(self.0)) as u16)
    }

    /// The partitions that hold a board's shards, each once.
    pub fn of_board(self, board: &Board) -> Vec<PartitionNo> {
        let partitions = (0..board.rules.shards).map(|shard| self.of(board, shard));
        let each_once: BTreeSet<PartitionNo> = partitions.collect();
        each_once.into_iter().collect()
    }

    /// True if a partition holds a shard of the board with a number and that many shards, at least
    /// one.
    pub fn holds(self, partition: PartitionNo, no: BoardNo, shards: u16) -> bool {
        (0..shards).any(|shard| self.place(no, shards, shard) == partition)
    }

    /// The partition that holds all of a member's entries on a board.
    pub fn of_member(self, board: &Board, member: &MemberId) -> PartitionNo {
        self.of(board, shard_of(member, board.rules.shards))
    }

    /// Checks a number of shards.
    ///
    /// # Errors
    /// `Invalid` unless it is a power of two, at most the number of partitions.
    pub fn check_shards(self, shards: i64) -> Result<u16> {
        u16::try_from(shards)
            .ok()
            .filter(|shards| shards.is_power_of_two() && *shards <= self.0)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "invalid number of shards {shards}: expected a power of two from 1 to {}",
                    self.0
                ))
            })
    }
}

/// The shard of a member among `shards`. The hash is frozen: stored data depends on it.
pub fn shard_of(member: &MemberId, shards: u16) -> u16 {
    (xxh3_64(member.as_str().as_bytes()) % u64::from(shards)) as u16
}

fn hash_of_board(no: BoardNo) -> u64 {
    xxh3_64(&no.0.to_le_bytes())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::board::rules::{Rules, RulesInput};

    /// A board with this number of shards.
    pub(crate) fn board(no: i64, shards: u16) -> Board {
        let rules = Rules::new(RulesInput { shards, ..Default::default() });
        Board::new(BoardNo(no), rules.unwrap())
    }

    #[test]
    fn the_hash_is_frozen() {
        let shards = ["u1", "u2", "Zoë", "dev-c5df353d26"]
            .map(|member| shard_of(&MemberId::new(member).unwrap(), 1024));
        assert_eq!(shards, [497, 846, 446, 261]);
        let partitions =
            [1, 2, 3, 1_000_000].map(|no| Partitions::new(4096).unwrap().of(&board(no, 1), 0).0);
        assert_eq!(partitions, [2350, 579, 3709, 2400]);
    }

    #[test]
    fn the_shards_of_a_board_lie_in_partitions_of_their_own() {
        let partitions = Partitions::new(16).unwrap();
        for shards in [1, 2, 4, 8, 16] {
            let mut places: Vec<u16> =
                (0..shards).map(|shard| partitions.of(&board(7, shards), shard).0).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), usize::from(shards));
            let held = (0..16).filter(|no| partitions.holds(PartitionNo(*no), BoardNo(7), shards));
            assert_eq!(held.collect::<Vec<u16>>(), places);
        }
    }

    #[test]
    fn partitions_and_shards_are_powers_of_two() {
        for bad in [0, 3, 4097, 8192] {
            assert!(Partitions::new(bad).is_err(), "{bad}");
        }
        let partitions = Partitions::new(16).unwrap();
        assert!([1, 2, 16].into_iter().all(|shards| partitions.check_shards(shards).is_ok()));
        assert!(
            [0, 3, 32, -1, 1 << 40]
                .into_iter()
                .all(|shards| partitions.check_shards(shards).is_err())
        );
    }
}
