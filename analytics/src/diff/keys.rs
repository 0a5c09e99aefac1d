//! The keys in Redis that are named as standings are: the board that each belongs to, and foreign
//! keys.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use engine::deployment::Deployment;
use engine::integrity::look::is_sealing;
use engine::integrity::repair::ForeignKey;
use entity::board;
use entity::integrity::integrity_finding::Kind;
use ranking::board::Board;
use ranking::id::{BoardNo, PartitionNo};
use ranking::window::Window;
use sea_orm::EntityTrait;

use crate::diff::finding::{Finding, What};
use crate::frame::history::check_layouts;

/// The keys of boards.
pub(crate) struct Keys {
    by_part: BTreeMap<(BoardNo, PartitionNo), Vec<String>>,
    /// Keys that belong to no board.
    pub(crate) foreign: Vec<Finding>,
}

impl Keys {
    /// Lists the keys of some boards. Foreign keys are those of all boards, or of the one board if
    /// `is_one`.
    pub(crate) async fn list(
        deployment: &Deployment,
        boards: &[(board::Model, Board, Vec<PartitionNo>)],
        is_one: bool,
    ) -> Result<Self> {
        let only = boards.first().filter(|_| is_one).map(|(_, board, _)| board.no);
        let (mut by_board, mut foreign): (BTreeMap<BoardNo, Vec<(PartitionNo, String)>>, _) =
            Default::default();
        let count = deployment.store.partitions().count();
        for (partition, key) in deployment.store.all_standings_keys(only).await? {
            match deployment.store.keys().parse_standings(partition, &key) {
                Some(id) if partition.0 < count => {
                    by_board.entry(id.board).or_default().push((partition, key))
                }
                _ => foreign_key(
                    &mut foreign,
                    0,
                    partition,
                    key,
                    false,
                    "a key with a name that Laurel never writes",
                ),
            }
        }
        let mut keys = Self { by_part: BTreeMap::new(), foreign };
        // Fails if a board moved, since the keys that a move brings to other partitions would look
        // foreign.
        check_layouts(&deployment.db, boards.iter().map(|(_, board, _)| board)).await?;
        for (row, board, _) in boards {
            let of_board = by_board.remove(&board.no).unwrap_or_default();
            keys.take(deployment, row, board, of_board)?;
        }
        for (no, of_board) in by_board {
            let row = board::Entity::find_by_id(no.0).one(&deployment.db).await?;
            // The board was created after `boards` was read, or the purge of its keys is under way.
            let is_somebodys = row.is_some_and(|row| row.purged_at_ms.is_none());
            for (partition, key) in of_board.into_iter().filter(|_| !is_somebodys) {
                foreign_key(
                    &mut keys.foreign,
                    no.0,
                    partition,
                    key,
                    true,
                    "a key of a deleted board",
                );
            }
        }
        Ok(keys)
    }

    /// Takes the keys of a board's partition, in their order.
    pub(crate) fn of(&mut self, no: BoardNo, partition: PartitionNo) -> Vec<String> {
        self.by_part.remove(&(no, partition)).unwrap_or_default()
    }

    fn take(
        &mut self,
        deployment: &Deployment,
        row: &board::Model,
        board: &Board,
        of_board: Vec<(PartitionNo, String)>,
    ) -> Result<()> {
        let unfinished = unfinished_windows(row)?;
        let partitions: BTreeSet<PartitionNo> =
            super::part::partitions(deployment, board).into_iter().collect();
        for (partition, key) in of_board {
            let Some(id) = deployment.store.keys().parse_standings(partition, &key) else {
                continue;
            };
            // Skip windows that are newer than the rules to compare with.
            let is_known = id.generation <= row.generation.unsigned_abs()
                && !unfinished.contains(&(id.window, id.generation));
            if !is_known || is_sealing(board, &id) {
                continue;
            }
            if !partitions.contains(&partition) {
                foreign_key(
                    &mut self.foreign,
                    board.no.0,
                    partition,
                    key,
                    true,
                    "a key in a partition that holds no shard of its board",
                );
                continue;
            }
            self.by_part.entry((board.no, partition)).or_default().push(key);
        }
        Ok(())
    }
}

fn foreign_key(
    foreign: &mut Vec<Finding>,
    no: i64,
    partition: PartitionNo,
    key: String,
    is_gone: bool,
    note: &str,
) {
    let what = What::Key(ForeignKey { key, is_gone });
    foreign.push(Finding::of_no_member(Kind::Phantom, no, partition, what).noted(note));
}

/// The windows that are being filled or dropped, or have such seasons, with the generations that
/// introduced them. Readers do not see what is not filled.
fn unfinished_windows(row: &board::Model) -> Result<BTreeSet<(Window, u32)>> {
    let mut unfinished = BTreeSet::new();
    for window in row.window_rows()? {
        if !window.is_settled() {
            unfinished.insert((window.name.parse()?, window.since));
        }
    }
    Ok(unfinished)
}
