//! A batch of scores into a partition: folded onto what is there, committed, and looked for where the reply was lost.

use std::time::Duration;

use ranking::commit::Head;
use ranking::error::Error as RankingError;
use ranking::id::Partition;
use ranking::store::write::Outcome;
use ranking::submission::{Batch, Submission, Verdict};
use sea_orm::EntityTrait;
use tokio::time::{Instant, sleep};

use crate::commit;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::recovery;

/// A commit that was sent without its reply being seen.
#[derive(Debug)]
struct Sent {
    seq: u64,
    id: String,
    verdicts: Vec<Verdict>,
}

/// What one attempt came to.
enum Tried {
    /// It is done.
    Submitted(Submitted),
    /// Another process was first.
    Beaten,
    /// The stores will not take it now, for a reason that another attempt does not change.
    Refused(Error),
}

/// What became of a batch.
#[derive(Debug)]
pub struct Submitted {
    /// In the order of the submissions.
    pub verdicts: Vec<Verdict>,
    /// The seq and id of its commit; `None` where nothing was accepted.
    pub commit: Option<(u64, String)>,
}

/// Submits a batch to one partition, at most [`ranking::commit::COMMIT_EVENTS_MAX`] at once. Folds again when another
/// process was first, recovers the partition when it is not level, and tries until `deadline`.
///
/// A lost reply is no failure: before anything is folded again, the commits already sent are looked for in the log, and at or
/// below the cursor in SQL. One that arrives later still is refused, as the head has moved on, or is found the next time.
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
    let batch = Batch::new(submissions, now_ms);
    let mut sent: Vec<Sent> = vec![];
    for attempt in 0.. {
        let tried = try_once(deployment, partition, &batch, now_ms, &mut sent).await;
        let error = match tried {
            Ok(Tried::Submitted(submitted)) => return Ok(submitted),
            Ok(Tried::Refused(error)) if sent.is_empty() => return Err(error),
            Ok(Tried::Refused(error)) => Some(error),
            Ok(Tried::Beaten) => None,
            Err(error) if error.is_for_now() => Some(error),
            Err(error) if sent.is_empty() => return Err(error),
            Err(error) => {
                tracing::error!(%partition, %error, "a commit cannot be resolved");
                return Err(Error::Unknown);
            }
        };
        if let Some(Error::Ranking(RankingError::NotLevel(_))) = error {
            match recovery::recover(deployment, partition).await {
                Err(error) if !error.is_for_now() => {
                    return Err(if sent.is_empty() {
                        error
                    } else {
                        Error::Unknown
                    });
                }
                _ => {}
            }
        }
        let pause = pause(attempt);
        if Instant::now() + pause >= deadline {
            return Err(match error {
                Some(error) if sent.is_empty() => error,
                None if sent.is_empty() => {
                    RankingError::Unavailable("too many writers at once; try again".into()).into()
                }
                _ => Error::Unknown,
            });
        }
        sleep(pause).await;
    }
    unreachable!("the loop ends by its deadline")
}

/// One attempt.
async fn try_once(
    deployment: &Deployment,
    partition: Partition,
    batch: &Batch,
    now_ms: i64,
    sent: &mut Vec<Sent>,
) -> Result<Tried> {
    let Deployment { store, dedup, .. } = deployment;
    let snapshot = store
        .snapshot(partition, batch.wanted(), *dedup, now_ms)
        .await?;
    for index in 0..sent.len() {
        if is_written(deployment, partition, &snapshot.head, &sent[index]).await? {
            let Sent { seq, id, verdicts } = sent.swap_remove(index);
            return Ok(Tried::Submitted(Submitted {
                verdicts,
                commit: Some((seq, id)),
            }));
        }
    }
    if snapshot.log_len >= deployment.log_commits_max {
        return Ok(Tried::Refused(RankingError::Unavailable(format!(
            "the log of partition {partition} is full with {} commits that wait for the database; try again later",
            snapshot.log_len
        ))
        .into()));
    }
    let folded = batch.fold(&snapshot, dedup.window_ms, &crate::random_id())?;
    let Some(commit) = &folded.commit else {
        return Ok(Tried::Submitted(Submitted {
            verdicts: folded.verdicts,
            commit: None,
        }));
    };
    let (seq, id) = (commit.seq, commit.id.clone());
    match store
        .commit(partition, &snapshot.head, &folded, *dedup)
        .await
    {
        Ok(Outcome::Done) => Ok(Tried::Submitted(Submitted {
            verdicts: folded.verdicts,
            commit: Some((seq, id)),
        })),
        Ok(Outcome::Refused(error)) => Ok(Tried::Refused(error.into())),
        Ok(Outcome::Stale) => Ok(Tried::Beaten),
        Ok(Outcome::Restarted) => Err(RankingError::NotLevel(partition.0).into()),
        Err(error) => {
            sent.push(Sent {
                seq,
                id,
                verdicts: folded.verdicts,
            });
            Err(error.into())
        }
    }
}

/// Whether a commit is in the partition's history: in the log, or in SQL where the log no longer has that seq.
async fn is_written(
    deployment: &Deployment,
    partition: Partition,
    head: &Head,
    sent: &Sent,
) -> Result<bool> {
    if head.seq < sent.seq {
        return Ok(false);
    }
    let log = deployment
        .store
        .log_after(partition, sent.seq - 1, 1)
        .await?;
    if let Some(commit) = log.commits.first().filter(|commit| commit.seq == sent.seq) {
        return Ok(commit.id == sent.id);
    }
    let row = commit::Entity::find_by_id((partition.0.into(), sent.seq as i64))
        .one(&deployment.db)
        .await?;
    let row = row.ok_or_else(|| {
        RankingError::Unavailable(format!(
            "commit {} of partition {partition} is on its way to SQL",
            sent.seq
        ))
    })?;
    Ok(row.id == sent.id)
}

/// Doubling from 1 ms to 64 ms, with jitter, so that losers of a race do not race again.
fn pause(attempt: u32) -> Duration {
    let most = 1_u64 << attempt.min(6);
    Duration::from_micros(rand::random_range(0..=most * 1000))
}
