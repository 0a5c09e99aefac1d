//! The positions in sources: those of Redis compared with SQL, and put right by it.
//!
//! A commit moves both, so they are equal wherever SQL has the last commit of the partition. Redis
//! may have more of them, as old rows go from SQL.

use std::collections::BTreeMap;

use entity::error::Result;
use ranking::board::Board;
use ranking::position::Position;
use ranking::store::write::Writes;

use super::repair::{commit, proposal};
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};

/// Attempts at a comparison that a commit overtakes.
const ATTEMPTS_MAX: usize = 5;

/// A position in which Redis differs from SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionDifference {
    /// The field in Redis: the source partition and the source.
    pub field: String,
    /// The text of the position in SQL.
    pub sql: String,
    /// That in Redis.
    pub redis: Option<String>,
}

/// The positions of a board's present layout in which Redis differs from SQL, and the name of their
/// key. None are known of a partition that commits all the while.
///
/// # Errors
/// As [`Partition::settle`].
pub async fn position_differences(
    partition: Partition<'_>,
    board: &Board,
) -> Result<(String, Vec<PositionDifference>)> {
    let key = partition.store.keys().positions(partition.no, board.no, board.layout_since());
    for _ in 0..ATTEMPTS_MAX {
        let differing = differing(partition, board).await?;
        if differing.is_empty() {
            break;
        }
        // A position that SQL did not have yet is no difference.
        let seq = partition.settle().await?;
        let again = self::differing(partition, board).await?;
        let tail = partition.head(board.no, &[]).await?;
        if tail.board.check(board).is_err() {
            // It moves to another number of shards, where its positions have another key.
            break;
        }
        if tail.head.seq == seq {
            let difference = |(field, (position, redis)): (String, (Position, Option<String>))| {
                PositionDifference { field, sql: position.to_text(), redis }
            };
            return Ok((key, again.into_iter().map(difference).collect()));
        }
    }
    Ok((key, vec![]))
}

/// Sets the positions of Redis that differ from SQL, with one commit. Returns their number.
///
/// # Errors
/// As [`super::repair::mend_redis`].
pub async fn mend_positions(partition: Partition<'_>, board: &Board) -> Result<usize> {
    commit(partition, Setting { board }).await
}

struct Setting<'a> {
    board: &'a Board,
}

impl Change for Setting<'_> {
    type Outcome = usize;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<usize>> {
        let seq = partition.settle().await?;
        let tail = partition.head(self.board.no, &[]).await?;
        tail.board.check(self.board)?;
        let differing = match tail.head.seq == seq {
            true => differing(partition, self.board).await?,
            false => Differing::new(),
        };
        let mut writes = Writes::default();
        if !differing.is_empty() {
            let of_board = (self.board.no, self.board.layout_since());
            let missing = differing.values().filter(|(_, redis)| redis.is_none()).count() as u64;
            let known = partition.store.source_positions_count(partition.no, of_board).await?;
            let set: Vec<(&String, &Position)> =
                differing.iter().map(|(field, (position, _))| (field, position)).collect();
            partition.set_positions(&mut writes, self.board, &set);
            let keys = partition.store.keys();
            writes.count_positions(keys, partition.no, of_board, known + missing);
        }
        Ok(proposal(partition, &tail, writes, differing.len()))
    }
}

/// The positions in which Redis differs, by field: those of SQL, and the texts of Redis.
type Differing = BTreeMap<String, (Position, Option<String>)>;

async fn differing(partition: Partition<'_>, board: &Board) -> Result<Differing> {
    let in_sql = partition.moved_positions(board).await?;
    if in_sql.is_empty() {
        return Ok(Differing::new());
    }
    let fields: Vec<String> = in_sql.keys().cloned().collect();
    let of_board = (board.no, board.layout_since());
    let texts = partition.store.source_positions(partition.no, of_board, &fields).await?;
    let both = in_sql.into_iter().zip(texts);
    let differs = both.filter(|((_, position), text)| text.as_ref() != Some(&position.to_text()));
    Ok(differs.map(|((field, position), text)| (field, (position, text))).collect())
}
