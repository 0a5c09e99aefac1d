//! Holding a board in its partitions, with a commit each, and releasing it again.

use futures::FutureExt;
use ranking::board::mark::BoardMark;
use ranking::store::write::Writes;
use ranking::window::roll::Rolls;

use super::{Moving, at_once, taken_over};
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use entity::error::{Error, Result};

/// The number of attempts to mark a partition whose commits Redis keeps losing.
const MARKS_MAX: usize = 5;

impl Moving<'_> {
    /// Holds the board in all its partitions, old and new, and waits until SQL has all commits
    /// before that.
    pub(super) async fn hold(&self) -> Result<()> {
        self.mark_all(self.held()).await
    }

    /// Releases the board unchanged in all its partitions. Each gets a commit, which defeats any
    /// commit that would hold it and was folded onto an earlier head.
    pub(super) async fn let_go(&self) -> Result<()> {
        self.mark_all(BoardMark::Generation(self.board.generation)).await
    }

    /// Marks all partitions, and waits until SQL has the commits: from then on recovery knows of
    /// them.
    async fn mark_all(&self, mark: BoardMark) -> Result<()> {
        let marks = self.partitions.iter();
        let marks = marks.map(|&partition| self.mark_in_sql(partition, mark).boxed());
        at_once(marks.collect()).await
    }

    async fn mark_in_sql(&self, partition: Partition<'_>, mark: BoardMark) -> Result<()> {
        for _ in 0..MARKS_MAX {
            let place = self.mark(partition, mark).await?;
            if self.is_in_sql(partition, place).await? {
                return Ok(());
            }
        }
        Err(loses_commits(partition))
    }

    /// Makes sure that SQL has the commits that release partitions. A partition whose commit Redis
    /// lost is released again.
    pub(super) async fn confirm(&self, rolls: &Rolls) -> Result<()> {
        for &partition in &self.partitions {
            for attempt in 0.. {
                partition.settle().await?;
                let (mark, proposal) = partition.read_mark(self.board.no).await?;
                if mark == self.held() {
                    let keys = self.keys().await?.remove(&partition.no).unwrap_or_default();
                    self.release(partition, None, rolls, &keys).await?;
                    continue;
                }
                let head = proposal.head;
                if self.is_in_sql(partition, (head.seq, head.commit)).await? {
                    break;
                }
                if attempt >= MARKS_MAX {
                    return Err(loses_commits(partition));
                }
            }
        }
        Ok(())
    }

    /// A proposal for a partition that changes nothing.
    ///
    /// # Errors
    /// `Invalid` if another process took the move over; `BoardGone` if the partition has a later
    /// mark.
    pub(super) async fn look(&self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let (known, proposal) = partition.read_mark(self.board.no).await?;
        // Read after the head: a process that takes a move over changes the row first, and then
        // moves each head.
        self.check_still().await?;
        if known != self.held() && known.check(&self.board).is_err() {
            return Err(ranking::Error::BoardGone.into());
        }
        Ok(proposal)
    }

    /// Checks that no other process took the move over.
    pub(super) async fn check_still(&self) -> Result<()> {
        let is_still = self.reshard.is_still(&self.deployment.db, self.row.no);
        is_still.await?.then_some(()).ok_or_else(taken_over)
    }

    /// The mark that holds the board in a partition.
    pub(super) fn held(&self) -> BoardMark {
        BoardMark::Held(self.target.generation)
    }

    /// True if SQL has a commit, after the log was persisted.
    async fn is_in_sql(&self, partition: Partition<'_>, (seq, id): (u64, String)) -> Result<bool> {
        partition.settle().await?;
        let row = partition.commit(seq as i64).await?;
        Ok(row.is_some_and(|row| row.id == id))
    }

    /// Marks a partition, and returns the seq and id of the commit.
    async fn mark(&self, partition: Partition<'_>, mark: BoardMark) -> Result<(u64, String)> {
        let mut marking = Marking { moving: self, mark };
        let done = partition.commit_change(&mut marking).await?;
        Ok(done.commit.ok_or(ranking::Error::BoardGone)?)
    }
}

fn loses_commits(partition: Partition<'_>) -> Error {
    let reason = format!("Redis keeps losing commits of partition {partition}; try again later");
    ranking::Error::Unavailable(reason).into()
}

struct Marking<'a> {
    moving: &'a Moving<'a>,
    mark: BoardMark,
}

impl Change for Marking<'_> {
    type Outcome = ();

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let moving = self.moving;
        let proposal = moving.look(partition).await?;
        let mut writes = Writes::default();
        writes.mark_board(partition.store.keys(), partition.no, moving.board.no, self.mark);
        Ok(proposal.writing(writes, partition.clock.now_ms()))
    }
}
