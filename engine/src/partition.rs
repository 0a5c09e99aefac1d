//! A partition: one serial history, from the commit in Redis to the rows in SQL.

pub mod all_time_rows;
pub mod append;
mod barrier;
pub mod change;
mod cursor;
pub mod follow;
pub mod home;
pub(crate) mod load;
pub(crate) mod members_history;
pub(crate) mod pasts;
pub mod persist;
pub(crate) mod recovery;
mod settle;
pub mod submit;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Deref;

use ranking::board::Board;
use ranking::id::{BoardNo, MemberId, PartitionNo};
use ranking::store::log::Tail;
use ranking::submission::{Snapshot, Wanted};
use ranking::window::roll::RollMark;
use ranking::window::seal::SealName;
use sea_orm::{DatabaseTransaction, EntityTrait};

use crate::deployment::Deployment;
use entity::archive::archive_mark;
use entity::error::Result;
use entity::history::{commit, log_cursor};

/// A partition of an open deployment. It derefs to the deployment, so `partition.store` and
/// `partition.db` are the deployment's stores.
#[derive(Debug, Clone, Copy)]
pub struct Partition<'a> {
    /// The deployment.
    pub deployment: &'a Deployment,
    /// The partition's number.
    pub no: PartitionNo,
}

/// A transaction that writes events of a partition; it locks the partition's cursor.
#[derive(Clone, Copy)]
pub(crate) struct HistoryTransaction<'a> {
    pub db: &'a DatabaseTransaction,
    pub partition: PartitionNo,
    /// The boards of the events, except deleted ones.
    pub boards: &'a HashMap<BoardNo, Board>,
    /// The time of the transaction, in Unix milliseconds.
    pub now_ms: i64,
}

impl Deployment {
    /// A partition of the deployment.
    pub fn partition(&self, no: PartitionNo) -> Partition<'_> {
        Partition { deployment: self, no }
    }

    /// All partitions.
    pub fn partitions(&self) -> impl Iterator<Item = Partition<'_>> {
        self.store.partitions().each().map(|no| self.partition(no))
    }

    /// The partitions that have shards of a board.
    pub fn partitions_of(&self, board: &Board) -> Vec<Partition<'_>> {
        let numbers = self.store.partitions().of_board(board).into_iter();
        numbers.map(|no| self.partition(no)).collect()
    }

    /// Things of some members of a board, by the partitions of these members.
    pub(crate) fn by_partition<T: Clone>(
        &self,
        board: &Board,
        all: &[T],
        member_of: impl Fn(&T) -> &MemberId,
    ) -> impl Iterator<Item = (Partition<'_>, Vec<T>)> {
        let mut by_partition: BTreeMap<PartitionNo, Vec<T>> = BTreeMap::new();
        for each in all {
            let no = self.store.partitions().of_member(board, member_of(each));
            by_partition.entry(no).or_default().push(each.clone());
        }
        by_partition.into_iter().map(|(no, each)| (self.partition(no), each))
    }
}

impl Partition<'_> {
    /// The head, with the marks of a board and of some seals.
    pub(crate) async fn head(self, board: BoardNo, seals: &[SealName]) -> Result<Tail> {
        Ok(self.store.head_and_marks(self.no, board, seals, &[]).await?)
    }

    /// The marks of a board's series.
    pub async fn rolls(self, board: BoardNo) -> Result<HashMap<String, RollMark>> {
        Ok(self.store.rolls(self.no, board).await?.1)
    }

    /// A snapshot of all that a fold wants.
    pub async fn snapshot(self, wanted: &Wanted) -> ranking::Result<Snapshot> {
        self.store.snapshot(self.no, wanted, self.dedup).await
    }

    /// SQL's cursor; `None` if SQL has never accepted a run of Redis.
    pub(crate) async fn cursor(self) -> Result<Option<log_cursor::Model>> {
        Ok(log_cursor::of(&self.db, self.no).await?)
    }

    /// A commit; `None` if SQL does not have it.
    pub async fn commit(self, seq: i64) -> Result<Option<commit::Model>> {
        let commit = commit::Entity::find_by_id((self.no.into(), seq));
        Ok(commit.one(&self.db).await?)
    }

    /// The archive mark of a board.
    pub async fn archive_mark(self, board: BoardNo) -> Result<archive_mark::Model> {
        Ok(archive_mark::of(&self.db, board, self.no).await?)
    }
}

impl Deref for Partition<'_> {
    type Target = Deployment;

    fn deref(&self) -> &Deployment {
        self.deployment
    }
}

impl fmt::Display for Partition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.no.fmt(f)
    }
}
