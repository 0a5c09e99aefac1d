//! Layouts: the successive numbers of shards of a board. The number of shards determines a member's
//! partition, so most of a member's history before a move lies in another partition than the
//! history after it.
//!
//! A member's events are ordered by layout, seq and index: within a layout all of them are in one
//! partition.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::board::Board;
use crate::board::rules::Rules;
use crate::id::{MemberId, PartitionNo};
use crate::shard::{Partitions, shard_of};

/// The layouts of a board before its present one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layouts {
    /// Oldest first.
    pub former: Vec<Former>,
    /// True while the present layout is decided but not yet in all partitions: reads fail until it
    /// is.
    pub is_coming: bool,
}

/// A former layout of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Former {
    /// The number of shards.
    pub shards: u16,
    /// The generation that ended it: events of earlier generations lie in this layout or an older
    /// one.
    pub before: u32,
}

impl Board {
    /// True if the board ever had another number of shards.
    pub fn has_moved(&self) -> bool {
        !self.layouts.former.is_empty()
    }

    /// The layout of an event with this generation; 0 is the first layout.
    pub fn layout_of(&self, generation: u32) -> usize {
        let former = &self.layouts.former;
        former.partition_point(|former| former.before <= generation)
    }

    /// The present layout.
    pub fn layout(&self) -> usize {
        self.layouts.former.len()
    }

    /// The generation that began the present layout.
    pub fn layout_since(&self) -> u32 {
        let last = self.layouts.former.last();
        last.map_or(1, |former| former.before)
    }

    /// The generations of the events in a layout.
    pub fn generations_of(&self, layout: usize) -> Range<u32> {
        let former = &self.layouts.former;
        let since = layout.checked_sub(1).and_then(|before| former.get(before));
        let end = former.get(layout);
        since.map_or(0, |former| former.before)..end.map_or(i32::MAX as u32, |former| former.before)
    }

    /// The number of shards of each layout, oldest first.
    pub fn shards_of_layouts(&self) -> impl Iterator<Item = u16> {
        let former = self.layouts.former.iter().map(|former| former.shards);
        former.chain([self.rules.shards])
    }

    /// The board in its next generation, with another number of shards.
    pub fn moved(&self, shards: u16) -> Self {
        let mut layouts = (*self.layouts).clone();
        let generation = self.generation + 1;
        layouts.former.push(Former { shards: self.rules.shards, before: generation });
        Self {
            generation,
            rules: Arc::new(Rules { shards, ..(*self.rules).clone() }),
            layouts: Arc::new(layouts),
            ..self.clone()
        }
    }

    /// The board before its last move, in the last generation before it.
    pub fn before_move(&self) -> Self {
        let mut layouts = (*self.layouts).clone();
        let Some(last) = layouts.former.pop() else {
            return self.clone();
        };
        layouts.is_coming = false;
        Self {
            generation: last.before - 1,
            rules: Arc::new(Rules { shards: last.shards, ..(*self.rules).clone() }),
            layouts: Arc::new(layouts),
            ..self.clone()
        }
    }
}

impl Partitions {
    /// The partitions that may hold a board's history: those of all its layouts, each once.
    pub fn of_history(self, board: &Board) -> Vec<PartitionNo> {
        let each_once: BTreeSet<PartitionNo> = board
            .shards_of_layouts()
            .flat_map(|shards| (0..shards).map(move |shard| (shards, shard)))
            .map(|(shards, shard)| self.place(board.no, shards, shard))
            .collect();
        each_once.into_iter().collect()
    }

    /// The layouts and partitions, oldest first, that hold the history of the members now in a
    /// partition; they may hold other members' history too. Empty if the board has no shard in the
    /// partition.
    pub fn homes(self, board: &Board, partition: PartitionNo) -> Vec<(usize, PartitionNo)> {
        let now = board.rules.shards;
        let Some(own) = (0..now).find(|&shard| self.of(board, shard) == partition) else {
            return vec![];
        };
        let layouts = board.shards_of_layouts().enumerate();
        let homes = layouts.flat_map(|(layout, shards)| {
            // Both are powers of two: each shard of the layout with fewer shards is a union of the
            // other's.
            let common = shards.min(now);
            let shards_of = (0..shards).filter(move |shard| shard % common == own % common);
            shards_of.map(move |shard| (layout, shards, shard))
        });
        homes.map(|(layout, shards, shard)| (layout, self.place(board.no, shards, shard))).collect()
    }

    /// The partition of a member in a layout.
    pub fn of_member_in(self, board: &Board, member: &MemberId, layout: usize) -> PartitionNo {
        let former = board.layouts.former.get(layout);
        let shards = former.map_or(board.rules.shards, |former| former.shards);
        self.place(board.no, shards, shard_of(member, shards))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::tests::board;
    use proptest::prelude::*;

    #[test]
    fn an_event_is_of_the_layout_of_its_generation() {
        let mut board = board(1, 1);
        assert!(!board.has_moved());
        assert_eq!((board.layout_of(1), board.layout_since()), (0, 1));
        board = board.moved(16);
        board.generation += 3;
        board = board.moved(4);
        assert_eq!(board.shards_of_layouts().collect::<Vec<_>>(), [1, 16, 4]);
        assert_eq!((board.generation, board.layout_since()), (6, 6));
        let layouts = (1..8).map(|generation| board.layout_of(generation));
        assert_eq!(layouts.collect::<Vec<_>>(), [0, 1, 1, 1, 1, 2, 2]);
        for generation in 1..8 {
            let layout = board.layout_of(generation);
            let is_of = |&other: &usize| board.generations_of(other).contains(&generation);
            assert_eq!((0..3).filter(is_of).collect::<Vec<_>>(), [layout]);
        }
        let before = board.before_move();
        assert_eq!((before.generation, before.rules.shards), (5, 16));
        assert_eq!(before.layout_since(), 2);
    }

    proptest! {
        #[test]
        fn a_member_s_history_is_in_the_homes_of_its_partition(
            no: i64,
            shards in proptest::collection::vec(0_u32..5, 1..5),
            member in "[a-z0-9]{1,12}",
        ) {
            let partitions = Partitions::new(16).unwrap();
            let shards: Vec<u16> = shards.into_iter().map(|log| 1 << log).collect();
            let mut now = board(no, shards[0]);
            for &next in &shards[1..] {
                now = now.moved(next);
            }
            let member = MemberId::new(&member).unwrap();
            let homes = partitions.homes(&now, partitions.of_member(&now, &member));
            for (layout, &of_layout) in shards.iter().enumerate() {
                let then = board(no, of_layout);
                let partition = partitions.of_member(&then, &member);
                prop_assert_eq!(partitions.of_member_in(&now, &member, layout), partition);
                prop_assert!(homes.contains(&(layout, partition)));
                prop_assert!(partitions.of_history(&now).contains(&partition));
            }
            prop_assert!(homes.is_sorted_by_key(|(layout, _)| *layout));
        }
    }
}
