//! Recovery: makes a partition level with SQL again after Redis restarted, failed over, was flushed
//! or came back from an old backup.
//!
//! Nothing that SQL has is lost. Commits that only Redis had are lost with it. Those that are still
//! in a log that leads on from SQL's cursor are written to SQL first. The head is set last: until
//! then writes are refused, and reads report that the partition waits.
//!
//! If SQL has gone back, and the log leads on from there, SQL gets from it what it lost. The
//! partition is then loaded, as Redis' marks, of seals and boards, are ahead of SQL.
//!
//! Entries of other programs in the log are passed over. If the log leads to the head without
//! them, all else in Redis is right, and the partition only begins a new log.
//!
//! A partition of another deployment, one of a Redis that was replaced, and one that knows of more
//! in SQL than SQL has are left as they are: an operator decides by `laurel adopt`.

use std::time::Duration;

use ranking::commit::Head;
use ranking::store::is_out_of_memory;
use ranking::store::owner::Owner;
use ranking::store::recovery::Recovery;
use tokio::time::{Instant, sleep, timeout};

use crate::partition::Partition;
use crate::partition::pasts::conflict;
use entity::error::{Error, Result};
use entity::history::log_cursor;

/// The run id in a head whose log took no commit, as another program has written to it.
const NO_RUN: &str = "-";

/// The interval at which the lease of a recovery is renewed.
const RENEWAL: Duration = Duration::from_secs(2);

/// The time after which adopting a partition gives up waiting for another process' recovery.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest time of one read or statement of SQL in a recovery. One on a silent connection would
/// keep the partition closed, as the lease is renewed meanwhile.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// The most partitions that a process loads at once.
pub(crate) const LOADS_MAX: usize = 4;

/// The longest time that a recovery waits for a turn to load its partition before it returns.
const TURN_WAIT: Duration = Duration::from_millis(500);

/// The longest time that a partition may take to be recovered.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(3600);

/// The answer to a Redis and an SQL of different pasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conflict {
    /// Leave both as they are, and say so.
    Refuse,
    /// Let SQL win.
    Adopt,
}

impl Partition<'_> {
    /// Makes the partition level with SQL; does nothing if it is level. If another process is
    /// recovering it, or this one loads [`LOADS_MAX`] others, waits a moment and returns: call it
    /// again.
    ///
    /// A caller that waits no longer does not end the recovery: a large partition takes longer than
    /// any request may.
    ///
    /// # Errors
    /// If a store fails. The partition then stays closed, and the next caller tries again.
    pub async fn recover(self) -> Result<()> {
        let (deployment, no) = (self.deployment.clone(), self.no);
        let recovering = tokio::spawn(async move { deployment.partition(no).recover_now().await });
        recovering.await.map_err(|error| {
            ranking::Error::Unavailable(format!("the recovery of partition {self} ended: {error}"))
        })?
    }

    /// As [`Self::recover`], as long as the caller waits.
    async fn recover_now(self) -> Result<()> {
        let token = entity::random_id();
        let recovery = match self.store.begin_recovery(self.no, &token).await {
            Ok(Some(recovery)) => recovery,
            Ok(None) => {
                sleep(Duration::from_millis(20)).await;
                return Ok(());
            }
            // Out of memory, Redis takes no token; a partition that has all it had needs none. A
            // Redis that refuses for another reason, as a replica does, must not become the one
            // that SQL accepts.
            Err(error) if is_out_of_memory(&error) => {
                return if self.renew_head().await? { Ok(()) } else { Err(error.into()) };
            }
            Err(error) => return Err(error.into()),
        };
        let recovered = async {
            in_time(self.take(&recovery)).await?;
            self.level(&recovery, Conflict::Refuse).await
        };
        under_lease(&recovery, recovered).await
    }

    /// Makes the partition level if it is this deployment's and its log leads from SQL's cursor to
    /// the head; nothing but the head is written. Returns false if it does not.
    async fn renew_head(self) -> Result<bool> {
        let redis = self.claim_redis().await?;
        let owner = self.store.owner(self.no).await.ok().flatten();
        if owner.is_none_or(|owner| owner.redis != redis) {
            return Ok(false);
        }
        let run_id = self.store.run_id(self.no).await?;
        self.give_back().await?;
        let cursor = self.cursor_or_root().await?;
        let Some(head) = self.whole_head(&cursor).await? else {
            return Ok(false);
        };
        let cursor = self.accept_run(&run_id, head.epoch).await?;
        // No persister of an earlier run writes from here on.
        let Some(head) = self.whole_head(&cursor).await? else {
            return Ok(false);
        };
        tracing::debug!(partition = %self, seq = head.seq, "Redis is out of memory and has all it had");
        let epoch = cursor.epoch.unsigned_abs();
        let renewed = Head { epoch, run_id: run_id.to_string(), ..head.clone() };
        Ok(self.store.renew_head(self.no, &head, &renewed).await?)
    }

    /// The head, if a log of no other entries leads to it from a cursor.
    async fn whole_head(self, cursor: &log_cursor::Model) -> Result<Option<Head>> {
        let seq = cursor.seq as u64;
        let found = self.store.find_log(self.no, seq, &cursor.commit_id).await?;
        let is_whole = found.leads_on(seq, &cursor.commit_id) && !found.has_others;
        let is_own = |head: &Head| head.deployment == *self.identity;
        Ok(found.head.filter(|head| is_whole && is_own(head) && head.run_id != NO_RUN))
    }

    /// Loads the partition from SQL, which has gone back behind the marks that Redis has.
    pub(crate) async fn reload(self) -> Result<()> {
        let recovery = self.wait_for_recovery().await?;
        let loaded = async {
            in_time(self.take(&recovery)).await?;
            let cursor = self.cursor_or_root().await?;
            in_time(self.check(&recovery, Conflict::Refuse)).await?;
            let found = recovery.find(cursor.seq as u64, &cursor.commit_id).await?;
            if let Some(why) = in_time(self.misfit(&found)).await? {
                return Err(ranking::Error::Unavailable(format!("partition {self}: {why}")).into());
            }
            self.load(&recovery, None, true).await
        };
        under_lease(&recovery, loaded).await
    }

    /// The right to recover the partition, as soon as other processes leave it.
    pub(super) async fn wait_for_recovery(self) -> Result<Recovery> {
        let token = entity::random_id();
        let deadline = Instant::now() + ADOPTION_TIMEOUT;
        loop {
            match self.store.begin_recovery(self.no, &token).await? {
                Some(recovery) => return Ok(recovery),
                None if Instant::now() < deadline => sleep(Duration::from_millis(20)).await,
                None => {
                    return Err(ranking::Error::Unavailable(format!(
                        "another process recovers partition {self}: stop all other processes of Laurel"
                    ))
                    .into());
                }
            }
        }
    }

    /// Makes the partition level with SQL, and this deployment's, whatever it holds: what does not
    /// lead on from SQL's cursor is lost.
    pub(crate) async fn adopt(self, owner: &Owner) -> Result<()> {
        let recovery = self.wait_for_recovery().await?;
        let adopted = async {
            let former = recovery.owner().await?;
            if former.is_none_or(|former| former.deployment != owner.deployment) {
                // Its log is of other boards, whatever their numbers.
                recovery.close().await?;
                recovery.clear().await?;
            }
            recovery.set_owner(owner).await?;
            self.level(&recovery, Conflict::Adopt).await
        };
        under_lease(&recovery, adopted).await
    }

    async fn level(self, recovery: &Recovery, conflict: Conflict) -> Result<()> {
        loop {
            let epoch = in_time(self.check(recovery, conflict)).await?;
            let cursor = in_time(self.accept_run(recovery.run_id(), epoch)).await?;
            let found = recovery.find(cursor.seq as u64, &cursor.commit_id).await?;
            let had_more = found.had_more(cursor.seq as u64);
            let leads_on = found.leads_on(cursor.seq as u64, &cursor.commit_id);
            let fits = !had_more || in_time(self.misfit(&found)).await?.is_none();
            let is_own = |head: &Head| head.deployment == *self.identity;
            let at_tip = found.head.filter(|head| leads_on && !had_more && is_own(head));
            match at_tip {
                Some(head) if !found.has_others && cursor.accepts(&head) => {
                    return Ok(recovery.abandon().await?);
                }
                // No writer can have moved a head of an earlier run. One of no run has a log that
                // took no commit.
                Some(head)
                    if !found.has_others
                        && head.run_id != NO_RUN
                        && head.run_id != recovery.run_id() =>
                {
                    tracing::debug!(partition = %self, seq = head.seq, "Redis restarted with all it had");
                    let (epoch, clock_ms) = (cursor.epoch.unsigned_abs(), head.clock_ms);
                    return Ok(recovery
                        .finish((head.seq, &head.commit), epoch, clock_ms, false)
                        .await?);
                }
                // Between the two reads a persister may have moved the cursor and trimmed the log.
                _ if in_time(self.accept_run(recovery.run_id(), epoch)).await? != cursor => {}
                at_tip => {
                    let Ok(_turn) = self.loads.try_acquire() else {
                        // Another process may have a turn left.
                        recovery.abandon().await?;
                        let _ = timeout(TURN_WAIT, self.loads.acquire()).await;
                        return Ok(());
                    };
                    return self.load(recovery, at_tip, fits).await;
                }
            }
        }
    }

    /// Checks that the partition is this deployment's, in the Redis that SQL names, and takes an
    /// empty one for it.
    pub(super) async fn take(self, recovery: &Recovery) -> Result<()> {
        let owner = recovery.owner().await?;
        match &owner {
            Some(owner) => self.check_owner(owner)?,
            None => {
                if let Some(key) = self.store.key_with_data(self.no).await? {
                    return Err(self.unowned(&key).into());
                }
            }
        }
        let redis = self.claim_redis().await?;
        let own = Owner { deployment: self.identity.to_string(), redis };
        if owner.as_ref() != Some(&own) {
            recovery.set_owner(&own).await?;
        }
        Ok(())
    }

    /// Checks that neither Redis nor SQL is a past state that the other one has left behind.
    /// Returns the epoch of the head, and 0 without one.
    async fn check(self, recovery: &Recovery, on_conflict: Conflict) -> Result<u64> {
        let mut cursor = self.cursor_or_root().await?;
        loop {
            let seq = cursor.seq as u64;
            let found = recovery.find(seq, &cursor.commit_id).await?;
            let epoch = found.head.as_ref().map_or(0, |head| head.epoch);
            // Without a head, the log should have all that SQL had.
            let leads_on = match &found.head {
                Some(_) => found.leads_on(seq, &cursor.commit_id),
                None => found.descendants.last().map_or(seq, |last| last.seq) >= found.settled,
            };
            let why = match on_conflict {
                Conflict::Adopt => None,
                Conflict::Refuse if !leads_on => {
                    conflict(&cursor, &found, epoch, recovery.run_id())
                }
                // The log gives back what SQL lost.
                Conflict::Refuse if found.had_more(seq) => self.misfit(&found).await?,
                Conflict::Refuse => None,
            };
            let Some(why) = why else {
                return Ok(epoch);
            };
            // A persister may have moved the cursor on and trimmed the log since the first read.
            let now = self.cursor_or_root().await?;
            if now == cursor {
                let why = format!("partition {self}: {why}");
                return Err(ranking::Error::Unavailable(why).into());
            }
            cursor = now;
        }
    }

    /// SQL's cursor, or the one from which a partition begins.
    pub(crate) async fn cursor_or_root(self) -> Result<log_cursor::Model> {
        Ok(self.cursor().await?.unwrap_or_else(|| log_cursor::Model::root(self.no)))
    }
}

/// Waits for an answer of SQL, up to [`SILENCE_MAX`].
///
/// # Errors
/// `Unavailable` if there is none by then; the error of the answer.
pub(super) async fn in_time<T, E>(answer: impl Future<Output = Result<T, E>>) -> Result<T>
where
    Error: From<E>,
{
    match timeout(SILENCE_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => {
            let seconds = SILENCE_MAX.as_secs();
            let silent = format!("the database did not answer a recovery in {seconds} s");
            Err(ranking::Error::Unavailable(silent).into())
        }
    }
}

/// Recovers while the lease is renewed, and gives it up after an error.
pub(super) async fn under_lease<T>(
    recovery: &Recovery,
    recovering: impl Future<Output = Result<T>>,
) -> Result<T> {
    let recovered = tokio::select! {
        recovered = recovering => recovered,
        lost = keep(recovery) => Err(lost),
        () = sleep(RECOVERY_TIMEOUT) => Err(ranking::Error::Unavailable(format!(
            "a recovery took over {} s",
            RECOVERY_TIMEOUT.as_secs()
        ))
        .into()),
    };
    if recovered.is_err() {
        // Then the next caller need not wait until the lease expires.
        let _ = recovery.abandon().await;
    }
    recovered
}

/// Renews the lease of a recovery while it runs. Returns the error that ended that.
async fn keep(recovery: &Recovery) -> Error {
    loop {
        sleep(RENEWAL).await;
        if let Err(error) = recovery.renew().await {
            return error.into();
        }
    }
}
