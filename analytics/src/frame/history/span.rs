//! The parts of a board's history in SQL, and their events page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result};
use engine::deployment::Deployment;
use entity::archive::archive_mark;
use entity::history::score_event;
use ranking::board::Board;
use ranking::commit::Head;
use ranking::id::{BoardNo, PartitionNo};
use sea_orm::{ColumnTrait, QueryFilter};

/// Rows that one SELECT reads.
const ROWS_MAX: u64 = 20_000;

/// A part of a board's history in one partition.
pub struct Span {
    pub(crate) partition: PartitionNo,
    pub(crate) board: BoardNo,
    /// The seq that it begins after, and the last one.
    pub(crate) seqs: (i64, i64),
    /// The generations of its events.
    pub(crate) generations: Range<u32>,
}

impl Span {
    /// All events of a partition after one seq, up to another.
    pub fn new(board: &Board, partition: PartitionNo, seqs: (i64, i64)) -> Self {
        Self { partition, board: board.no, seqs, generations: 0..i32::MAX as u32 }
    }
}

/// The spans that hold the history of some partitions' members, up to their heads. If the board had
/// other numbers of shards before, parts of it are in other partitions.
pub(crate) fn spans(
    deployment: &Deployment,
    board: &Board,
    heads: &BTreeMap<PartitionNo, Head>,
    marks: &BTreeMap<PartitionNo, archive_mark::Model>,
) -> Vec<Span> {
    let partitions = deployment.store.partitions();
    let of_partition = |&partition: &PartitionNo| partitions.homes(board, partition);
    let homes: BTreeSet<(usize, PartitionNo)> = heads.keys().flat_map(of_partition).collect();
    let span = |(layout, home): (usize, PartitionNo)| Span {
        generations: board.generations_of(layout),
        ..match heads.get(&home).filter(|_| layout == board.layout()) {
            Some(head) => {
                let after_seq = marks[&home].archived_seq;
                Span::new(board, home, (after_seq, head.seq as i64))
            }
            // Writers add nothing to it any more.
            None => Span::new(board, home, (0, i64::MAX)),
        }
    };
    homes.into_iter().map(span).collect()
}

/// Reads a span of a board's history page by page.
pub struct Pages<'a> {
    span: &'a Span,
    last: (i64, i32),
}

impl<'a> Pages<'a> {
    /// Begins with the first page.
    pub fn new(span: &'a Span) -> Self {
        Self { span, last: (span.seqs.0, i32::MAX) }
    }

    /// The next page; `None` at the end.
    pub async fn next(
        &mut self,
        deployment: &Deployment,
    ) -> Result<Option<Vec<score_event::Model>>> {
        use score_event::Column::{BoardNo as No, Generation, Seq};
        let Range { start, end } = self.span.generations;
        let rows = score_event::page_after(self.span.partition, self.last, ROWS_MAX)
            .filter(No.eq(self.span.board.0))
            .filter(Seq.lte(self.span.seqs.1))
            .filter(Generation.gte(start))
            .filter(Generation.lt(end))
            .all(&deployment.db)
            .await
            .context("the history cannot be read")?;
        Ok(rows.last().map(|row| (row.seq, row.event_index)).map(|last| {
            self.last = last;
            rows
        }))
    }
}
