//! The positions in sources, of a partition that is loaded from SQL or released after a move.

use std::collections::{BTreeMap, HashMap};

use entity::error::Result;
use entity::history::source_position::{self, Model, Rows};
use ranking::board::Board;
use ranking::id::BoardNo;
use ranking::position::{Position, position_field};
use ranking::store::recovery::Recovery;
use ranking::store::write::Writes;

use crate::partition::Partition;
use crate::partition::recovery::in_time;

/// The rows of one SELECT: a row may have some thousand places.
const ROWS_MAX: u64 = 1000;

/// The fields of one step: Redis does nothing else meanwhile.
const FIELDS_MAX: usize = 1000;

/// Positions by the field of their source partition.
pub(crate) type ByField = BTreeMap<String, Position>;

impl Partition<'_> {
    /// Restores the positions in sources.
    pub(super) async fn load_positions(
        self,
        recovery: &Recovery,
        boards: &HashMap<BoardNo, Board>,
    ) -> Result<()> {
        let mut positions: BTreeMap<BoardNo, ByField> = BTreeMap::new();
        let take = |row: &Model, field, position| {
            let board = boards.get(&BoardNo(row.board_no));
            // Those of a board that moved follow from all of its partitions.
            if let Some(board) = board.filter(|board| !board.has_moved()) {
                positions.entry(board.no).or_default().insert(field, position);
            }
        };
        self.each_position(Rows::OfPartition(self.no), take).await?;
        let known = in_time(source_position::boards(&self.db)).await?;
        let has_some = |board: &&Board| board.has_moved() && known.contains(&board.no.0);
        for board in boards.values().filter(has_some) {
            positions.insert(board.no, self.positions_of(board).await?);
        }
        for (no, positions) in &positions {
            let Some(board) = boards.get(no) else { continue };
            let fields: Vec<_> = positions.iter().collect();
            for chunk in fields.chunks(FIELDS_MAX) {
                let mut writes = Writes::default();
                self.set_positions(&mut writes, board, chunk);
                recovery.apply(&writes).await?;
            }
            let mut writes = Writes::default();
            self.count_positions(&mut writes, board, positions);
            recovery.apply(&writes).await?;
        }
        Ok(())
    }

    /// The positions of this partition's shard of a board that moved: those that it has moved in
    /// the present layout, and for all others what follows from the layout before.
    pub(crate) async fn positions_of(self, board: &Board) -> Result<ByField> {
        let mut rows: BTreeMap<(i32, i32), ByField> = BTreeMap::new();
        let take = |row: &Model, field, position| {
            let of_layout = rows.entry((row.layout_since, row.partition)).or_default();
            of_layout.insert(field, position);
        };
        self.each_position(Rows::OfBoard(board.no), take).await?;
        let partitions = self.store.partitions();
        let mut shards_before = 0;
        // The positions of each shard, layout by layout.
        let mut by_shard: Vec<ByField> = vec![];
        for (layout, shards) in board.shards_of_layouts().enumerate() {
            let since = board.generations_of(layout).start.max(1);
            let mut next = vec![];
            for shard in 0..shards {
                let mut positions = moved(&by_shard, shards_before, (shards, shard));
                let place = partitions.of_shard(board.no, shards, shard);
                positions.extend(rows.remove(&(since as i32, place.into())).unwrap_or_default());
                next.push(positions);
            }
            (by_shard, shards_before) = (next, shards);
        }
        let shards = 0..board.rules.shards;
        let own = shards.filter(|&shard| partitions.of(board, shard) == self.no);
        Ok(own.flat_map(|shard| std::mem::take(&mut by_shard[usize::from(shard)])).collect())
    }

    /// The positions that this partition has moved in the present layout of a board.
    pub(crate) async fn moved_positions(self, board: &Board) -> Result<ByField> {
        let mut positions = ByField::new();
        let rows = Rows::OfPart(board.no, board.layout_since(), self.no);
        let take = |_: &Model, field, position| drop(positions.insert(field, position));
        self.each_position(rows, take).await?;
        Ok(positions)
    }

    /// Takes the field and the position of each row that can be read.
    async fn each_position(
        self,
        rows: Rows,
        mut take: impl FnMut(&Model, String, Position),
    ) -> Result<()> {
        let mut last = None;
        loop {
            let page = source_position::page_after(&self.db, rows, last.as_ref(), ROWS_MAX);
            let page = in_time(page).await?;
            for row in &page {
                if let Some((field, position)) = read(row) {
                    take(row, field, position);
                }
            }
            let Some(end) = page.into_iter().next_back() else { return Ok(()) };
            last = Some(end);
        }
    }

    /// Sets positions of a board in its present layout.
    pub(crate) fn set_positions(
        self,
        writes: &mut Writes,
        board: &Board,
        positions: &[(&String, &Position)],
    ) {
        let of_board = (board.no, board.layout_since());
        let positions = positions.iter().map(|&(field, position)| (field.clone(), position));
        writes.set_positions(self.store.keys(), self.no, of_board, positions);
    }

    /// Sets the number of a board's positions in its present layout.
    pub(crate) fn count_positions(self, writes: &mut Writes, board: &Board, positions: &ByField) {
        let of_board = (board.no, board.layout_since());
        writes.count_positions(self.store.keys(), self.no, of_board, positions.len() as u64);
    }
}

/// The positions with which a shard of a new layout begins.
fn moved(former: &[ByField], former_shards: u16, (shards, shard): (u16, u16)) -> ByField {
    let mut fields: Vec<&String> = former.iter().flat_map(BTreeMap::keys).collect();
    fields.sort_unstable();
    fields.dedup();
    let mut moved = ByField::new();
    for field in fields {
        let of_shards = (0..).zip(former.iter().map(|positions| positions.get(field).cloned()));
        let position = Position::after_move(of_shards, former_shards, (shards, shard));
        if position != Position::default() {
            moved.insert(field.clone(), position);
        }
    }
    moved
}

/// The field and the position of a row. One that was edited by hand keeps no other one out.
fn read(row: &Model) -> Option<(String, Position)> {
    let read = row.source().and_then(|(source, source_partition)| {
        Ok((position_field(&source, source_partition), row.position()?))
    });
    match read {
        Ok(read) => Some(read),
        Err(error) => {
            tracing::error!(board = row.board_no, source = row.source, %error, "a row of source_position cannot be read, so what that source hands out again may count twice");
            None
        }
    }
}
