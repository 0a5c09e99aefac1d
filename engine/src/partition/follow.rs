//! Following a partition's history from a cursor: first the events that SQL got since, then the
//! log.

use std::ops::ControlFlow;

use ranking::id::{BoardNo, MemberId};
use ranking::store::log::Tail;
use ranking::window::seal::SealName;

use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use crate::partition::persist::descends;
use entity::error::Result;
use entity::history::log_cursor;

/// The most commits of the log to read at once. If the log has more, SQL gets them first.
const TAIL_MAX: usize = 500;

/// The most reads of a history while the persister moves on.
pub(crate) const READS_MAX: usize = 20;

/// The marks that are read with the end of the log, as [`ranking::store::Store::tail`] takes them.
pub(crate) struct Marks {
    pub board: BoardNo,
    pub seals: Vec<SealName>,
    pub members: Vec<MemberId>,
    /// The buckets and fields of event ids.
    pub seen: Vec<(i64, String)>,
}

/// A reader of a partition's history that needs all of it, up to exactly the head.
pub(crate) trait Follower: Send {
    /// The result at the head.
    type Outcome: Send;

    /// The subject and verb of the error if others write faster.
    const IS_READ: &'static str = "a history is";

    /// The commit up to which the reader has the history; `None` if it must read SQL first.
    fn cursor(&self) -> Option<log_cursor::Model>;

    /// The marks to read with the end of the log.
    fn marks(&self, partition: Partition<'_>) -> Marks;

    /// Reads the history that SQL has: all of it, or the part since the cursor.
    fn read_sql(
        &mut self,
        partition: Partition<'_>,
    ) -> impl Future<Output = Result<ControlFlow<Self::Outcome>>> + Send;

    /// Takes the log from the cursor to the head. `read` counts the reads so far. The reader goes
    /// on if it must read again.
    fn take_tail(
        &mut self,
        partition: Partition<'_>,
        tail: Tail,
        read: usize,
    ) -> impl Future<Output = Result<ControlFlow<Self::Outcome>>> + Send;
}

/// A follower that makes a proposal at the head is a change.
impl<F: Follower<Outcome = Proposal<T>>, T: Send> Change for F {
    type Outcome = T;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<T>> {
        partition.read_to_head(self).await
    }
}

impl Partition<'_> {
    /// Reads the partition's history up to the head: SQL first, then the log, and again if the
    /// persister moved on in between.
    ///
    /// # Errors
    /// `Unavailable` if other writers are faster.
    pub(crate) async fn read_to_head<F: Follower>(self, follower: &mut F) -> Result<F::Outcome> {
        for read in 1..=READS_MAX {
            if follower.cursor().is_none()
                && let ControlFlow::Break(outcome) = follower.read_sql(self).await?
            {
                return Ok(outcome);
            }
            let Some(cursor) = follower.cursor() else { continue };
            let marks = follower.marks(self);
            let flow = match self.tail_to_head(&cursor, &marks).await? {
                Some(tail) => follower.take_tail(self, tail, read).await?,
                // The persister has moved on, or the log is too long: SQL has more now.
                None => follower.read_sql(self).await?,
            };
            if let ControlFlow::Break(outcome) = flow {
                return Ok(outcome);
            }
        }
        let is_read = F::IS_READ;
        Err(ranking::Error::Unavailable(format!(
            "others write faster than {is_read} read; try again"
        ))
        .into())
    }

    /// SQL's cursor of the partition, after the log was persisted.
    pub(crate) async fn settled_cursor(self) -> Result<log_cursor::Model> {
        self.settle().await?;
        Ok(self.cursor().await?.ok_or(ranking::Error::NotLevel(self.no.0))?)
    }

    /// The commits of the partition from a cursor to the head, with the marks. `None` if one read
    /// of the log does not lead from the cursor to the head.
    async fn tail_to_head(self, cursor: &log_cursor::Model, marks: &Marks) -> Result<Option<Tail>> {
        let (from, store) = (cursor.seq as u64, &self.store);
        let seen: Vec<(i64, &str)> =
            marks.seen.iter().map(|(bucket, field)| (*bucket, field.as_str())).collect();
        let asked = (marks.board, &marks.seals[..], &marks.members[..]);
        let tail = store.tail(self.no, from, TAIL_MAX, asked, &seen).await?;
        let end = tail
            .commits
            .last()
            .map_or((from, &cursor.commit_id), |commit| (commit.seq, &commit.id));
        let reaches = descends(cursor, &tail.commits) && end == (tail.head.seq, &tail.head.commit);
        Ok(reaches.then_some(tail))
    }

    /// SQL's cursor now, after the log was persisted. `None` if the history does not lead on from
    /// an earlier cursor.
    pub(crate) async fn advance_cursor(
        self,
        cursor: &log_cursor::Model,
    ) -> Result<Option<log_cursor::Model>> {
        let now = self.settled_cursor().await?;
        if now.seq < cursor.seq {
            return Ok(None);
        }
        if cursor.seq > 0 {
            let row = self.commit(cursor.seq).await?;
            if row.is_none_or(|row| row.id != cursor.commit_id) {
                return Ok(None);
            }
        }
        Ok(Some(now))
    }
}
