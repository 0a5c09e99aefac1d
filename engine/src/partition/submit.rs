//! Submitting a batch of scores to a partition.

use ranking::submission::batch::Batch;
use ranking::submission::{FoldOutcome, Snapshot, Submission, Verdict};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use crate::roll::{self, Goal};
use crate::settings::traces::SPANS;
use entity::error::{Error, Result};

/// The most entries that one commit may touch, so that no script runs for long.
const TOUCHED_MAX: usize = 20_000;

/// A batch for one partition, with the keys that it needs and perhaps their snapshot.
#[derive(Debug)]
pub struct Prepared {
    batch: Batch,
    snapshot: Option<Snapshot>,
}

impl Prepared {
    /// Works out which keys the batch needs. `now_ms` is its time of acceptance; it has at most
    /// [`ranking::commit::COMMIT_EVENTS_MAX`] submissions.
    pub fn new(submissions: Vec<Submission>, now_ms: i64) -> Self {
        Self { batch: Batch::new(submissions, now_ms), snapshot: None }
    }

    /// Splits off the second half; `None` if there is only one submission.
    fn second_half(&mut self) -> Option<Self> {
        let submissions = self.batch.submissions();
        if submissions.len() < 2 {
            return None;
        }
        let (first, second) = submissions.split_at(submissions.len() / 2);
        let half =
            |submissions: &[Submission]| Self::new(submissions.to_vec(), self.batch.now_ms());
        let (first, second) = (half(first), half(second));
        *self = first;
        Some(second)
    }

    /// Reads the snapshot. If the read fails, the fold reads again.
    async fn read(&mut self, partition: Partition<'_>) {
        let snapshot = partition.snapshot(self.batch.wanted()).await;
        self.snapshot = snapshot.ok();
    }
}

/// The result of a batch.
#[derive(Debug)]
pub struct Submitted {
    /// One verdict for each submission, in their order.
    pub verdicts: Vec<Verdict>,
    /// The seq and id of the last commit; `None` if nothing was accepted. Only a batch that touches
    /// very many entries makes several commits.
    pub commit: Option<(u64, String)>,
}

impl Partition<'_> {
    /// Submits a batch to one partition, and tries until `deadline`: after a lost race, while the
    /// partition is not level, after a lost reply.
    ///
    /// The snapshot of the `following` batch is requested right behind the commit, on the same
    /// connection. The server reads it as soon as the commit is written, so the following batch
    /// needs one round trip only. A commit in between makes the snapshot stale, which the head
    /// reveals.
    ///
    /// A batch that is refused for its content is halved until the faulty submission is alone: that
    /// one is rejected, the others are applied. Nothing of a refused batch is written, so no
    /// submission is applied twice.
    ///
    /// # Errors
    /// `Unavailable` if nothing was written; `Unknown` if that could not be learned in time.
    pub async fn submit(
        self,
        prepared: Prepared,
        mut following: Option<&mut Prepared>,
        deadline: Instant,
    ) -> Result<Submitted> {
        let mut submitted = Submitted {
            verdicts: Vec::with_capacity(prepared.batch.submissions().len()),
            commit: None,
        };
        let mut left = vec![prepared];
        while let Some(mut prepared) = left.pop() {
            if prepared.batch.touched() > TOUCHED_MAX
                && let Some(second) = prepared.second_half()
            {
                left.extend([second, prepared]);
                continue;
            }
            let mut submitting = Submitting {
                prepared,
                following: if left.is_empty() { following.take() } else { None },
                deadline,
            };
            let error = match self.commit_with_retry(&mut submitting, deadline).await {
                Ok(done) => {
                    submitted.verdicts.extend(done.outcome);
                    submitted.commit = done.commit.or(submitted.commit);
                    continue;
                }
                Err(error) => error,
            };
            following = submitting.following.take().or(following);
            let mut prepared = submitting.prepared;
            match error {
                // Not for now, and nothing is written: one of the submissions is at fault.
                error if !error.is_transient() => match prepared.second_half() {
                    Some(second) => left.extend([second, prepared]),
                    None => submitted.verdicts.push(Verdict::Rejected(of_content(error))),
                },
                // Part of the batch is already written.
                _ if submitted.commit.is_some() => return Err(Error::Unknown),
                error => return Err(error),
            }
        }
        Ok(submitted)
    }
}

/// The reason why a submission is rejected, given the error of a batch that has no other.
fn of_content(error: Error) -> ranking::Error {
    match error {
        Error::Ranking(error) => error,
        error => ranking::Error::Corrupt(error.to_string()),
    }
}

struct Submitting<'a> {
    prepared: Prepared,
    following: Option<&'a mut Prepared>,
    deadline: Instant,
}

impl Change for Submitting<'_> {
    type Outcome = Vec<Verdict>;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<Self::Outcome>> {
        let Deployment { store, dedup, .. } = partition.deployment;
        let Prepared { batch, snapshot } = &mut self.prepared;
        let now_ms = batch.now_ms();
        let (snapshot, folded) = loop {
            let snapshot = match snapshot.take() {
                Some(snapshot) => snapshot,
                None => {
                    let span = tracing::info_span!(target: SPANS, "snapshot");
                    partition.snapshot(batch.wanted()).instrument(span).await?
                }
            };
            match batch.fold(&snapshot, rand::random())? {
                FoldOutcome::FoldedBatch(folded) => break (snapshot, folded),
                FoldOutcome::Again(again) => *batch = again,
                FoldOutcome::Roll(boards) => {
                    for board in boards {
                        let rolling = roll::roll_in(partition, &board, now_ms, Goal::Present);
                        let in_time = timeout_at(self.deadline, rolling).await;
                        in_time.map_err(|_| ranking::Error::NotRolled(board.no.0))??;
                    }
                }
            }
        };
        let writes = store.writes(partition.no, &folded, *dedup);
        Ok(Proposal {
            head: snapshot.head,
            log_len: snapshot.log_len,
            log_bytes: snapshot.log_bytes,
            commit: folded.commit.zip(Some(writes)),
            outcome: folded.verdicts,
        })
    }

    fn ranked(verdicts: &mut Vec<Verdict>, ranks: &[Option<u64>]) {
        for verdict in verdicts {
            if let Verdict::Accepted { effects, .. } = verdict {
                effects.iter_mut().for_each(|effect| effect.take_ranks(ranks, ranks.len() / 2));
            }
        }
    }

    async fn read_behind(&mut self, partition: Partition<'_>) {
        if let Some(following) = &mut self.following {
            following.read(partition).await;
        }
    }
}
