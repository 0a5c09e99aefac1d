//! A partition settled: its whole log in SQL, recovered first where that is needed.

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::partition::Partition;
use crate::partition::persist::Progress;
use entity::error::{Error, Result};

impl Partition<'_> {
    /// Persists the partition's log until SQL has all that the log had at the start. Recovers the
    /// partition if it is not level. Returns the seq up to which SQL has it. It ends no matter how
    /// fast others write.
    pub async fn settle(self) -> Result<u64> {
        self.settle_by(|| self.persist().boxed()).await
    }

    /// As [`Self::settle`], by a caller's way to persist a part of the log, which may wait for its
    /// turn.
    pub async fn settle_by<'a>(
        self,
        persist: impl Fn() -> BoxFuture<'a, Result<Progress>>,
    ) -> Result<u64> {
        let mut goal = None;
        loop {
            match persist().await {
                Ok(Progress::Level { seq }) => return Ok(seq),
                Ok(Progress::Wrote { seq, head }) if seq >= *goal.get_or_insert(head) => {
                    return Ok(seq);
                }
                Ok(Progress::Wrote { .. } | Progress::Beaten) => {}
                Err(Error::Ranking(ranking::Error::NotLevel(_))) => {
                    goal = None;
                    self.recover().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`Self::settle`], and checks that SQL then has a seq of the partition.
    ///
    /// # Errors
    /// As [`Self::settle`]; `Overtaken` if Redis lost that seq.
    pub async fn settle_to(self, seq: u64) -> Result<()> {
        if self.settle().await? < seq {
            return Err(Error::Overtaken(format!(
                "Redis lost commits of partition {self} and was recovered"
            )));
        }
        Ok(())
    }
}
