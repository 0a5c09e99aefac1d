//! The positions in sources that a partition keeps.

use super::write::{PAIRS_MAX, Writes};
use crate::error::Result;
use crate::id::{BoardNo, PartitionNo};
use crate::position::{COUNT_FIELD, Position, position_field};
use crate::store::Store;
use crate::store::key::KeySpace;
use crate::submission::FoldedBatch;

impl Store {
    /// The texts of positions of a board in a layout, in the order of their fields; `None` for one
    /// that is not there, and for all if the key is of another type. A `TYPE`, then one round trip
    /// for each 1,000 fields: `HMGET`.
    pub async fn source_positions(
        &self,
        partition: PartitionNo,
        (board, layout_since): (BoardNo, u32),
        fields: &[String],
    ) -> Result<Vec<Option<String>>> {
        let key = self.keys().positions(partition, board, layout_since);
        let kinds = self.kinds(std::slice::from_ref(&key)).await?;
        if kinds != ["hash"] {
            return Ok(vec![None; fields.len()]);
        }
        let mut texts = Vec::with_capacity(fields.len());
        for chunk in fields.chunks(PAIRS_MAX) {
            let mut pipe = redis::pipe();
            pipe.cmd("HMGET").arg(&key).arg(chunk);
            let ((some,), _): ((Vec<Option<String>>,), _) = self.read(&pipe).await?;
            texts.extend(some);
        }
        Ok(texts)
    }

    /// The number of positions of a board in a layout. One round trip: `HLEN`.
    pub async fn source_positions_count(
        &self,
        partition: PartitionNo,
        (board, layout_since): (BoardNo, u32),
    ) -> Result<u64> {
        let key = self.keys().positions(partition, board, layout_since);
        let mut pipe = redis::pipe();
        pipe.cmd("HLEN").arg(&key).cmd("HEXISTS").arg(&key).arg(COUNT_FIELD);
        let ((fields, counts), _): ((u64, u64), _) = self.read(&pipe).await?;
        Ok(fields - counts)
    }
}

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
