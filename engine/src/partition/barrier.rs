//! Commits at both ends of a change to a board: marks that tell a partition of it, and the removal
//! of keys that are no longer read.

use ranking::board::Board;
use ranking::board::mark::BoardMark;
use ranking::id::BoardNo;
use ranking::store::write::Writes;

use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use entity::error::Result;

/// The most keys that one commit drops.
const KEYS_MAX: usize = 500;

impl Partition<'_> {
    /// Marks a board in the partition. After that commit, a writer that does not know of the change
    /// is refused.
    ///
    /// # Errors
    /// `BoardGone` if the partition has a later mark; `BoardHeld` if the board is held.
    pub(crate) async fn mark(self, no: BoardNo, mark: BoardMark) -> Result<()> {
        let mut marking = Marking { no, mark };
        self.commit_change(&mut marking).await?;
        Ok(())
    }

    /// Drops the keys of a board in the partition for which `is_meant` holds; no writer uses them
    /// any more. The keys are listed once, as that takes long if there are many.
    pub(crate) async fn drop_keys(
        self,
        board: &Board,
        is_meant: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<()> {
        let mut keys = self.store.board_keys(self.no, board.no).await?;
        keys.retain(|key| is_meant(key));
        self.drop_listed(board.no, &keys).await
    }

    /// Drops the listed keys of a board in the partition.
    pub(crate) async fn drop_listed(self, no: BoardNo, keys: &[String]) -> Result<()> {
        for keys in keys.chunks(KEYS_MAX) {
            let mut dropping = Dropping { no, keys };
            self.commit_change(&mut dropping).await?;
        }
        Ok(())
    }

    /// Makes a commit that changes nothing, so that every writer with an older snapshot must read
    /// again.
    pub(crate) async fn commit_barrier(self, no: BoardNo) -> Result<()> {
        let mut passing = Dropping { no, keys: &[] };
        self.commit_change(&mut passing).await?;
        Ok(())
    }

    /// The mark of a board in the partition, and a proposal that changes nothing.
    pub(crate) async fn read_mark(self, no: BoardNo) -> Result<(BoardMark, Proposal<()>)> {
        let tail = self.head(no, &[]).await?;
        Ok((tail.board, Proposal::nothing(tail.head, ())))
    }
}

struct Marking {
    no: BoardNo,
    mark: BoardMark,
}

impl Change for Marking {
    type Outcome = ();

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let (known, proposal) = partition.read_mark(self.no).await?;
        let is_later = match (known, self.mark) {
            (_, BoardMark::Deleted) => false,
            (BoardMark::Deleted, _) => true,
            (BoardMark::Generation(known), BoardMark::Generation(mark)) => known > mark,
            (BoardMark::Held(_), _) | (_, BoardMark::Held(_)) => {
                return Err(ranking::Error::BoardHeld.into());
            }
        };
        if is_later {
            return Err(ranking::Error::BoardGone.into());
        }
        let mut writes = Writes::default();
        writes.mark_board(partition.store.keys(), partition.no, self.no, self.mark);
        Ok(if known == self.mark {
            proposal
        } else {
            proposal.writing(writes, partition.clock.now_ms())
        })
    }
}

struct Dropping<'a> {
    no: BoardNo,
    keys: &'a [String],
}

impl Change for Dropping<'_> {
    type Outcome = ();

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let (_, proposal) = partition.read_mark(self.no).await?;
        let mut writes = Writes::default();
        for key in self.keys {
            writes.drop_key(key);
        }
        Ok(proposal.writing(writes, partition.clock.now_ms()))
    }
}
