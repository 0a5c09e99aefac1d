//! A batch of scores into a partition.

use ranking::batch::Batch;
use ranking::id::Partition;
use ranking::submission::{Fold, Submission, Verdict};
use tokio::time::Instant;

use crate::change::{Change, Proposal, carry_out};
use crate::deployment::Deployment;
use crate::error::Result;
use crate::roll;

/// What became of a batch.
#[derive(Debug)]
pub struct Submitted {
    /// In the order of the submissions.
    pub verdicts: Vec<Verdict>,
    /// The seq and id of its commit; `None` where nothing was accepted.
    pub commit: Option<(u64, String)>,
}

/// Submits a batch to one partition, at most [`ranking::commit::COMMIT_EVENTS_MAX`] at once, whatever happens on the way: another writer
/// was first, the partition is not level, a reply is lost. Tries until `deadline`.
///
/// # Errors
/// `Unavailable` where nothing was written; `Unknown` where that could not be learnt in time.
pub async fn submit(
    deployment: &Deployment,
    partition: Partition,
    submissions: Vec<Submission>,
    now_ms: i64,
    deadline: Instant,
) -> Result<Submitted> {
    let mut submitting = Submitting {
        batch: Batch::new(submissions, now_ms),
        now_ms,
    };
    let done = carry_out(deployment, partition, &mut submitting, deadline).await?;
    Ok(Submitted {
        verdicts: done.outcome,
        commit: done.commit,
    })
}

struct Submitting {
    batch: Batch,
    now_ms: i64,
}

impl Change for Submitting {
    type Outcome = Vec<Verdict>;

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<Self::Outcome>> {
        let Deployment { store, dedup, .. } = deployment;
        let (snapshot, folded) = loop {
            let snapshot = store
                .snapshot(partition, self.batch.wanted(), *dedup, self.now_ms)
                .await?;
            let id = crate::random_id();
            match self.batch.fold(&snapshot, dedup.window_ms, &id)? {
                Fold::Folded(folded) => break (snapshot, folded),
                Fold::Again(batch) => self.batch = batch,
                Fold::Roll(boards) => {
                    for board in boards {
                        roll::roll_in(deployment, partition, &board, self.now_ms).await?;
                    }
                }
            }
        };
        let writes = store.writes(partition, &folded, *dedup);
        Ok(Proposal {
            head: snapshot.head,
            log_len: snapshot.log_len,
            commit: folded.commit.zip(Some(writes)),
            outcome: folded.verdicts,
        })
    }
}
