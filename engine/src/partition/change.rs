//! Committing a change to one partition: fold it onto the present state, commit, and resolve lost
//! replies.

use std::time::Duration;

use ranking::commit::{Commit, Head};
use ranking::error::Error as RankingError;
use ranking::store::log::Tail;
use ranking::store::write::{Outcome, Writes};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::Instrument;

use crate::partition::Partition;
use crate::settings::traces::SPANS;
use entity::error::{Error, Result};

/// The time limit of a commit of a job.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long SQL may take to say whether it has a commit whose reply was lost.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// A change folded onto a partition's present state.
pub(crate) struct Proposal<T> {
    /// The head that the change was folded onto.
    pub head: Head,
    /// The number of commits in the partition's log, also of those that SQL has.
    pub log_len: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// The commit and its writes; `None` if there is nothing to write.
    pub commit: Option<(Commit, Writes)>,
    /// The result of the change, once the commit is written.
    pub outcome: T,
}

impl<T> Proposal<T> {
    /// A proposal that changes nothing. The limit of the log does not bind it: rolls, seals and
    /// moves keep standings right, and their commits have no events.
    pub(crate) fn nothing(head: Head, outcome: T) -> Self {
        Self { head, log_len: 0, log_bytes: 0, commit: None, outcome }
    }

    /// A proposal onto the end of a log that SQL does not have yet, so far without writes.
    pub(crate) fn onto(tail: &Tail, outcome: T) -> Self {
        let log_len = tail.commits.len() as u64;
        Self { log_len, ..Self::nothing(tail.head.clone(), outcome) }
    }

    /// The proposal with a commit of these writes and no events.
    pub(crate) fn writing(self, writes: Writes, now_ms: i64) -> Self {
        self.writing_from(i64::MIN, writes, now_ms)
    }

    /// As [`Self::writing`], and moves the deployment's clock on to `clock_ms` unless it is later.
    pub(crate) fn writing_from(self, clock_ms: i64, writes: Writes, now_ms: i64) -> Self {
        let clock_ms = self.head.clock_ms.max(clock_ms);
        let commit = self.head.next_at(clock_ms, rand::random(), now_ms, vec![]);
        Self { commit: Some((commit, writes)), ..self }
    }
}

/// A change that can be folded onto a partition.
pub(crate) trait Change {
    /// The result of the change.
    type Outcome: Send;

    /// Reads the partition and folds the change onto it. Called again after another writer was
    /// first.
    fn propose(
        &mut self,
        partition: Partition<'_>,
    ) -> impl Future<Output = Result<Proposal<Self::Outcome>>> + Send;

    /// The outcome with the ranks that the commit has read; none if its reply was lost.
    fn ranked(_outcome: &mut Self::Outcome, _ranks: &[Option<u64>]) {}

    /// Reads ahead for the next change, while the commit is under way. The reads are sent right
    /// behind the commit.
    fn read_behind(&mut self, _partition: Partition<'_>) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A completed change.
#[derive(Debug)]
pub(crate) struct Done<T> {
    /// The result of the change.
    pub outcome: T,
    /// The seq and id of its commit; `None` if there was nothing to write.
    pub commit: Option<(u64, String)>,
}

/// A commit that was sent and has no reply.
struct Sent<T> {
    seq: u64,
    id: String,
    outcome: T,
}

/// The way of a change that was not sent while Redis does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// It tries on.
    Wait,
    /// It ends.
    GiveUp,
}

/// The result of one attempt.
enum Tried<T> {
    /// The change is complete.
    Done(Done<T>),
    /// Another writer committed first.
    Beaten,
    /// The stores refuse the commit, for a reason that another attempt does not change.
    Refused(Error),
}

impl Partition<'_> {
    /// Commits a change of a job, as [`Self::commit_with_retry`], and tries for 20 s, also while
    /// Redis does not answer.
    pub(crate) async fn commit_change<C: Change + Send>(
        self,
        change: &mut C,
    ) -> Result<Done<C::Outcome>> {
        let deadline = Instant::now() + COMMIT_TIMEOUT;
        self.commit_by(change, deadline, Silence::Wait).await
    }

    /// Commits a change, and tries until `deadline`. It folds again if another writer was first,
    /// and recovers the partition if it is not level. Before anything was sent, it gives up once
    /// the process knows that Redis does not answer.
    ///
    /// A lost reply is not a failure. Before another commit, the commits already sent are looked
    /// up: in the log, and at or below the cursor in SQL. A commit that arrives even later is
    /// refused because the head has moved on, or the next attempt finds it.
    ///
    /// # Errors
    /// `Unavailable` if nothing was written; `Unknown` if that could not be learned in time; any
    /// error of the fold.
    pub(crate) async fn commit_with_retry<C: Change + Send>(
        self,
        change: &mut C,
        deadline: Instant,
    ) -> Result<Done<C::Outcome>> {
        self.commit_by(change, deadline, Silence::GiveUp).await
    }

    async fn commit_by<C: Change + Send>(
        self,
        change: &mut C,
        deadline: Instant,
        silence: Silence,
    ) -> Result<Done<C::Outcome>> {
        let mut sent: Vec<Sent<C::Outcome>> = vec![];
        for attempt in 0.. {
            let tried = self.try_once(change, &mut sent, silence).await;
            let error = match tried {
                Ok(Tried::Done(done)) => return Ok(done),
                Ok(Tried::Refused(error)) if sent.is_empty() => return Err(error),
                Ok(Tried::Refused(error)) => Some(error),
                Ok(Tried::Beaten) => None,
                Err(error) if error.is_transient() => Some(error),
                Err(error) if sent.is_empty() => return Err(error),
                Err(error) => {
                    tracing::error!(partition = %self, %error, "a commit cannot be resolved");
                    return Err(Error::Unknown);
                }
            };
            if let Some(Error::Ranking(RankingError::NotLevel(_))) = error {
                match timeout_at(deadline, Box::pin(self.recover())).await {
                    Ok(Err(error)) if !error.is_transient() => {
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
                        RankingError::Unavailable("too many writers at once; try again".into())
                            .into()
                    }
                    _ => Error::Unknown,
                });
            }
            sleep(pause).await;
        }
        unreachable!("the loop ends by its deadline")
    }

    async fn try_once<C: Change>(
        self,
        change: &mut C,
        sent: &mut Vec<Sent<C::Outcome>>,
        silence: Silence,
    ) -> Result<Tried<C::Outcome>> {
        let gives_up = silence == Silence::GiveUp && sent.is_empty();
        let proposal = tokio::select! {
            // A silent server is asked by the probe alone.
            biased;
            () = self.redis_health.until_silent(self.no), if gives_up => {
                let error = RankingError::Unavailable("Redis does not answer".into());
                return Ok(Tried::Refused(error.into()));
            }
            proposal = change.propose(self) => proposal?,
        };
        let Proposal { head, log_len, log_bytes, commit, mut outcome } = proposal;
        for index in 0..sent.len() {
            if self.is_written(&head, &sent[index]).await? {
                let Sent { seq, id, mut outcome } = sent.swap_remove(index);
                C::ranked(&mut outcome, &[]);
                return Ok(Tried::Done(Done { outcome, commit: Some((seq, id)) }));
            }
        }
        let Some((commit, writes)) = commit else {
            return Ok(Tried::Done(Done { outcome, commit: None }));
        };
        if self.is_full(log_len, log_bytes) {
            return Ok(Tried::Refused(RankingError::Overloaded(format!(
            "the log of partition {self} is full: {log_len} commits of {log_bytes} bytes wait for the database; try again later"
        ))
        .into()));
        }
        let (seq, id) = (commit.seq, commit.id.clone());
        let span = tracing::info_span!(target: SPANS, "write", partition = self.no.0);
        // Biased: the commit is polled and therefore sent first.
        let (committed, ()) = tokio::join!(
            biased;
            self.deployment
                .store
                .commit_writes(self.no, &head, &commit, &writes)
                .instrument(span),
            change.read_behind(self),
        );
        match committed {
            Ok(Outcome::Done(ranks)) => {
                C::ranked(&mut outcome, &ranks);
                Ok(Tried::Done(Done { outcome, commit: Some((seq, id)) }))
            }
            Ok(Outcome::Refused(error)) => Ok(Tried::Refused(error.into())),
            Ok(Outcome::Stale) => Ok(Tried::Beaten),
            Ok(Outcome::Restarted) => Err(RankingError::NotLevel(self.no.0).into()),
            Err(error) => {
                sent.push(Sent { seq, id, outcome });
                Err(error.into())
            }
        }
    }

    /// True if a log of so many commits and bytes takes no submission.
    pub(crate) fn is_full(self, commits: u64, bytes: u64) -> bool {
        commits >= self.log_commits_max || bytes >= self.log_bytes_max
    }

    /// True if a commit is in the partition's history: in the log, or in SQL if the log no longer
    /// has that seq.
    async fn is_written<T>(self, head: &Head, sent: &Sent<T>) -> Result<bool> {
        if head.seq < sent.seq {
            return Ok(false);
        }
        let log = self.store.log_after(self.no, sent.seq - 1, 1).await?;
        if let Some(commit) = log.commits.first().filter(|commit| commit.seq == sent.seq) {
            return Ok(commit.id == sent.id);
        }
        let unavailable = |_| RankingError::Unavailable("SQL did not answer in time".into());
        let row = timeout(LOOK_UP_TIMEOUT, self.commit(sent.seq as i64)).await;
        let row = row.map_err(unavailable)??.ok_or_else(|| {
            RankingError::Unavailable(format!(
                "commit {} of partition {self} has left the log and is not yet in SQL",
                sent.seq
            ))
        })?;
        Ok(row.id == sent.id)
    }
}

/// A random pause of at most 1 ms, doubling to 64 ms, so that losers of a race do not race again.
fn pause(attempt: u32) -> Duration {
    let most = 1_u64 << attempt.min(6);
    Duration::from_micros(rand::random_range(0..=most * 1000))
}
