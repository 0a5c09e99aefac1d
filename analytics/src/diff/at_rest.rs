//! The boards to compare, at rest: none of them moves, and SQL has what their logs had.

use std::collections::BTreeSet;

use anyhow::Result;
use engine::deployment::Deployment;
use engine::reshard;
use entity::board;
use ranking::board::Board;
use ranking::id::PartitionNo;

use super::part;
use super::scope::Scope;

/// A board at rest, with its row and its partitions to compare.
pub(super) type AtRest = (board::Model, Board, Vec<PartitionNo>);

/// The boards that do not move, with their partitions to compare, whose logs were persisted.
pub(super) async fn boards_at_rest(
    deployment: &Deployment,
    rows: &[board::Model],
    scope: &Scope,
) -> Result<Vec<AtRest>> {
    // Read again, since a repair may take long.
    let numbers: Vec<i64> = rows.iter().map(|row| row.no).collect();
    let mut now = board::living_of_numbers(&deployment.db, &numbers).await?;
    let mut boards = vec![];
    for no in numbers {
        let row = match now.remove(&no) {
            Some(row) if row.reshard.is_some() => reshard::at_rest(deployment, no).await?,
            row => row,
        };
        let Some(row) = row else { continue };
        let board = row.to_ranking()?;
        let mut partitions = part::partitions(deployment, &board);
        partitions.retain(|&partition| scope.has(no, partition));
        boards.push((row, board, partitions));
    }
    let concerned = boards.iter().flat_map(|(_, _, partitions)| partitions).copied();
    for partition in concerned.collect::<BTreeSet<PartitionNo>>() {
        deployment.partition(partition).settle().await?;
    }
    Ok(boards)
}
