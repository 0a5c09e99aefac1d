//! A change of one partition: folded onto what is there, committed, and looked for where the reply was lost.

use std::time::Duration;

use ranking::commit::{Commit, Head};
use ranking::error::Error as RankingError;
use ranking::id::Partition;
use ranking::store::write::{Outcome, Writes};
use sea_orm::EntityTrait;
use tokio::time::{Instant, sleep};

use crate::deployment::Deployment;
use crate::partition::recovery;
use entity::error::{Error, Result};
use entity::history::commit;

/// What a change would do to a partition as it stands.
pub(crate) struct Proposal<T> {
    /// The head that it is folded onto.
    pub head: Head,
    /// How many commits of the partition wait for SQL.
    pub log_len: u64,
    /// The commit and its writes; `None` where there is nothing to write.
    pub commit: Option<(Commit, Writes)>,
    /// What it then came to.
    pub outcome: T,
}

/// Something that is folded onto a partition.
pub(crate) trait Change {
    /// What it came to.
    type Outcome: Send;

    /// Reads the partition and folds the change onto it; asked again where somebody else was first.
    fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> impl Future<Output = Result<Proposal<Self::Outcome>>> + Send;

    /// Reads for whoever comes next. It is asked right behind the commit, while that is under way.
    fn read_behind(
        &mut self,
        _deployment: &Deployment,
        _partition: Partition,
    ) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// What a change came to.
#[derive(Debug)]
pub(crate) struct Done<T> {
    /// As the fold said.
    pub outcome: T,
    /// The seq and id of its commit; `None` where nothing had to be written.
    pub commit: Option<(u64, String)>,
}

/// A commit that was sent without its reply being seen.
struct Sent<T> {
    seq: u64,
    id: String,
    outcome: T,
}

/// What one attempt came to.
enum Tried<T> {
    /// It is done.
    Done(Done<T>),
    /// Another process was first.
    Beaten,
    /// The stores will not take it now, for a reason that another attempt does not change.
    Refused(Error),
}

/// Carries a change out. Folds again when another process was first, recovers the partition when it is not level, and tries until
/// `deadline`.
///
/// A lost reply is no failure: before anything is committed again, the commits already sent are looked for in the log, and at or
/// below the cursor in SQL. One that arrives later still is refused, as the head has moved on, or is found the next time.
///
/// # Errors
/// `Unavailable` where nothing was written; `Unknown` where that could not be learnt in time; what the fold says.
pub(crate) async fn carry_out<C: Change + Send>(
    deployment: &Deployment,
    partition: Partition,
    change: &mut C,
    deadline: Instant,
) -> Result<Done<C::Outcome>> {
    let mut sent: Vec<Sent<C::Outcome>> = vec![];
    for attempt in 0.. {
        let tried = try_once(deployment, partition, change, &mut sent).await;
        let error = match tried {
            Ok(Tried::Done(done)) => return Ok(done),
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
                    return Err(if sent.is_empty() { error } else { Error::Unknown });
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
async fn try_once<C: Change>(
    deployment: &Deployment,
    partition: Partition,
    change: &mut C,
    sent: &mut Vec<Sent<C::Outcome>>,
) -> Result<Tried<C::Outcome>> {
    let Proposal { head, log_len, commit, outcome } = change.propose(deployment, partition).await?;
    for index in 0..sent.len() {
        if is_written(deployment, partition, &head, &sent[index]).await? {
            let Sent { seq, id, outcome } = sent.swap_remove(index);
            return Ok(Tried::Done(Done { outcome, commit: Some((seq, id)) }));
        }
    }
    let Some((commit, writes)) = commit else {
        return Ok(Tried::Done(Done { outcome, commit: None }));
    };
    if log_len >= deployment.log_commits_max {
        return Ok(Tried::Refused(RankingError::Unavailable(format!(
            "the log of partition {partition} is full with {log_len} commits that wait for the database; try again later"
        ))
        .into()));
    }
    let (seq, id) = (commit.seq, commit.id.clone());
    // In this order: what is asked first is sent first.
    let (committed, ()) = tokio::join!(
        biased;
        deployment
            .store
            .commit_writes(partition, &head, &commit, &writes),
        change.read_behind(deployment, partition),
    );
    match committed {
        Ok(Outcome::Done) => Ok(Tried::Done(Done { outcome, commit: Some((seq, id)) })),
        Ok(Outcome::Refused(error)) => Ok(Tried::Refused(error.into())),
        Ok(Outcome::Stale) => Ok(Tried::Beaten),
        Ok(Outcome::Restarted) => Err(RankingError::NotLevel(partition.0).into()),
        Err(error) => {
            sent.push(Sent { seq, id, outcome });
            Err(error.into())
        }
    }
}

/// Whether a commit is in the partition's history: in the log, or in SQL where the log no longer has that seq.
async fn is_written<T>(
    deployment: &Deployment,
    partition: Partition,
    head: &Head,
    sent: &Sent<T>,
) -> Result<bool> {
    if head.seq < sent.seq {
        return Ok(false);
    }
    let log = deployment.store.log_after(partition, sent.seq - 1, 1).await?;
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
