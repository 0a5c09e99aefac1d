//! A batch of scores into a partition.

use ranking::batch::Batch;
use ranking::id::Partition;
use ranking::submission::{Fold, Submission, Verdict};
use tokio::time::{Instant, timeout_at};

use crate::change::{Change, Proposal, carry_out};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::roll;

/// How many entries one commit may touch: no script runs for long.
const TOUCHED_MAX: usize = 20_000;

/// What became of a batch.
#[derive(Debug)]
pub struct Submitted {
    /// In the order of the submissions.
    pub verdicts: Vec<Verdict>,
    /// The seq and id of its last commit; `None` where nothing was accepted. It is the only one, unless the batch touches very many entries.
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
    let mut submitted = Submitted {
        verdicts: Vec::with_capacity(submissions.len()),
        commit: None,
    };
    let mut left = vec![submissions];
    while let Some(mut submissions) = left.pop() {
        let batch = Batch::new(submissions.clone(), now_ms);
        if batch.touched() > TOUCHED_MAX && submissions.len() > 1 {
            left.push(submissions.split_off(submissions.len() / 2));
            left.push(submissions);
            continue;
        }
        let mut submitting = Submitting {
            batch,
            now_ms,
            deadline,
        };
        match carry_out(deployment, partition, &mut submitting, deadline).await {
            Ok(done) => {
                submitted.verdicts.extend(done.outcome);
                submitted.commit = done.commit.or(submitted.commit);
            }
            // A part of it is there.
            Err(_) if submitted.commit.is_some() => return Err(Error::Unknown),
            Err(error) => return Err(error),
        }
    }
    Ok(submitted)
}

struct Submitting {
    batch: Batch,
    now_ms: i64,
    deadline: Instant,
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
                        let rolling = roll::roll_in(deployment, partition, &board, self.now_ms);
                        let in_time = timeout_at(self.deadline, rolling).await;
                        in_time.map_err(|_| ranking::Error::NotRolled(board.no))??;
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
