//! The positions in sources that a partition keeps.

use super::write::{PAIRS_MAX, Writes};
use crate::id::{BoardNo, PartitionNo};
use crate::position::{COUNT_FIELD, Position, position_field};
use crate::store::key::KeySpace;
use crate::submission::FoldedBatch;

impl Writes {
    /// Sets positions of a board in a layout, by their fields: `HSET`.
    pub fn set_positions<'a>(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        (board, layout_since): (BoardNo, u32),
        positions: impl IntoIterator<Item = (String, &'a Position)>,
    ) {
        let key = keys.positions(partition, board, layout_since);
        let pairs: Vec<[String; 2]> =
            positions.into_iter().map(|(field, position)| [field, position.to_text()]).collect();
        for chunk in pairs.chunks(PAIRS_MAX) {
            self.push("HSET", &key, chunk.concat());
        }
    }

    /// Sets the number of positions of a board in a layout: `HSET`.
    pub fn count_positions(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        (board, layout_since): (BoardNo, u32),
        count: u64,
    ) {
        let key = keys.positions(partition, board, layout_since);
        self.push("HSET", &key, vec![COUNT_FIELD.to_owned(), count.to_string()]);
    }

    /// Sets the positions that a batch moves, and their numbers: `HSET`; nothing for a batch
    /// without places in sources.
    pub(crate) fn move_positions(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        folded: &FoldedBatch,
    ) {
        for moved in folded.commit.iter().flat_map(|commit| &commit.positions) {
            let field = position_field(&moved.source, moved.source_partition);
            let of_board = (moved.board, moved.layout_since);
            self.set_positions(keys, partition, of_board, [(field, &moved.position)]);
        }
        for &(no, since, count) in &folded.position_counts {
            self.count_positions(keys, partition, (no, since), count);
        }
    }
}
