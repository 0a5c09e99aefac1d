//! A partition settled: its whole log in SQL, recovered first where that is needed.

use super::recovery::recover;
use crate::deployment::Deployment;
use crate::partition::persist::{Progress, persist};
use entity::error::{Error, Result};
use ranking::id::PartitionNo;

/// Persists a partition's log until SQL has all that the log had at the start. Recovers the
/// partition if it is not level. Returns the seq up to which SQL has it. It ends no matter how fast
/// others write.
pub async fn settle(deployment: &Deployment, partition: PartitionNo) -> Result<u64> {
    let mut goal = None;
    loop {
        match Box::pin(persist(deployment, partition)).await {
            Ok(Progress::Level { seq }) => return Ok(seq),
            Ok(Progress::Wrote { seq, head }) if seq >= *goal.get_or_insert(head) => {
                return Ok(seq);
            }
            Ok(Progress::Wrote { .. } | Progress::Beaten) => {}
            Err(Error::Ranking(ranking::Error::NotLevel(_))) => {
                goal = None;
                recover(deployment, partition).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// As [`settle`], and checks that SQL then has a seq of the partition.
///
/// # Errors
/// As [`settle`]; `Overtaken` if Redis lost that seq.
pub async fn settle_to(deployment: &Deployment, partition: PartitionNo, seq: u64) -> Result<()> {
    if settle(deployment, partition).await? < seq {
        return Err(Error::Overtaken(format!(
            "Redis lost commits of partition {partition} and was recovered"
        )));
    }
    Ok(())
}
