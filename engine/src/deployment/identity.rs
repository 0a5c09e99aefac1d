//! Which Redis a deployment has. SQL names the deployment and its Redis by random ids, and each
//! partition of that Redis carries both.
//!
//! A Redis of another deployment is refused. One without ids, or with those of an earlier Redis of
//! this deployment, is taken only once no process reaches the Redis that SQL names: all processes
//! that reach it write so into SQL every few seconds. Only a process that has reached that Redis
//! takes it back at once after it was emptied.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use entity::deployment as row;
use entity::deployment::clock::sql_now_ms;
use entity::error::Result;
use entity::history::log_cursor;
use ranking::id::PartitionNo;
use ranking::store::Store;
use ranking::store::owner::Owner;
use sea_orm::DatabaseConnection;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Deployment;

/// The partition whose owner names the Redis while no other one has an owner.
const FIRST: PartitionNo = PartitionNo(0);

/// The interval at which SQL learns that the Redis is reached.
const SEEN_INTERVAL: Duration = Duration::from_secs(2);

/// The longest time of one such note. After one that fails, the next one is still in time.
const SEEN_TIMEOUT: Duration = Duration::from_secs(2);

/// The time after which a Redis that no process reaches counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// The pause between two looks whether a process reaches the Redis, and after a failed note.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

impl Deployment {
    /// The row of the deployment.
    pub(crate) async fn row(&self) -> Result<row::Model> {
        let found = row::find(&self.db).await?;
        Ok(found
            .ok_or_else(|| ranking::Error::Corrupt("the deployment's row is missing".into()))?)
    }

    /// Checks that Redis is this deployment's, takes it if it may be taken, and returns its id.
    ///
    /// # Errors
    /// `Unavailable` if it is another deployment's, if another process reaches the Redis that SQL
    /// names, or if a store does not answer.
    pub(crate) async fn claim_redis(&self) -> Result<String> {
        loop {
            let known = self.row().await?.redis;
            let asked = self.store.owners().await?;
            let owners: Vec<&Owner> = asked.iter().flatten().flatten().collect();
            for owner in &owners {
                self.check_owner(owner)?;
            }
            if let Some(known) = &known
                && owners.iter().any(|owner| owner.redis == *known)
            {
                self.reached.note(known);
                return Ok(known.clone());
            }
            let here = owners.first().map(|owner| owner.redis.clone());
            // A partition that does not answer may name the Redis.
            if let Some(Err(error)) = asked.into_iter().find(std::result::Result::is_err) {
                return Err(error.into());
            }
            let has_reached = known.as_deref().is_some_and(|known| self.reached.is(known));
            let is_emptied = here.is_none() && has_reached && self.is_emptied().await?;
            if let Some(known) = &known
                && !is_emptied
                && let Err(error) = self.wait_until_gone(known).await
            {
                // Another process may have taken this one back meanwhile, as it was emptied.
                let now = self.store.owners().await?;
                if now.iter().flatten().flatten().any(|owner| owner.redis == *known) {
                    continue;
                }
                return Err(error);
            }
            match (known, here) {
                (known, Some(here)) => {
                    row::record_redis(&self.db, known.as_deref(), &here).await?;
                }
                (Some(known), None) if is_emptied => self.name_redis(known).await?,
                (_, None) => self.name_redis(entity::random_id()).await?,
            }
        }
    }

    /// Checks that a partition is this deployment's.
    ///
    /// # Errors
    /// `Unavailable` if it is another one's; the message names both.
    pub(crate) fn check_owner(&self, owner: &Owner) -> ranking::Result<()> {
        if owner.deployment == *self.identity {
            return Ok(());
        }
        Err(ranking::Error::Unavailable(format!(
            "Redis has the data of deployment {}, and the database is deployment {}: expected both of one; correct LAUREL_REDIS_URL, LAUREL_REDIS_PREFIX, LAUREL_DATABASE_URL or LAUREL_DATA_DIR, or join the two by `laurel adopt`, which shows first what would be lost",
            owner.deployment, self.identity
        )))
    }

    /// The error of a partition that has data and no owner.
    pub(crate) fn unowned(&self, key: &str) -> ranking::Error {
        ranking::Error::Unavailable(format!(
            "Redis has the key {key}, and no deployment that it belongs to: expected the Redis of deployment {}, or one without keys of this prefix; correct LAUREL_REDIS_URL or LAUREL_REDIS_PREFIX, remove those keys, or let `laurel adopt` do it, which shows first what would be lost",
            self.identity
        ))
    }

    /// Gives Redis an id, unless another process is first.
    async fn name_redis(&self, redis: String) -> Result<()> {
        if let Some(key) = self.store.key_with_data(FIRST).await? {
            // Another process may have named it since, and fill the partition.
            return match self.store.owners().await?.iter().flatten().flatten().next() {
                Some(_) => Ok(()),
                None => Err(self.unowned(&key).into()),
            };
        }
        let owner = Owner { deployment: self.identity.to_string(), redis };
        self.store.claim(FIRST, &owner).await?;
        Ok(())
    }

    /// True if a server is still in the run whose commits SQL accepts. Where this process has found
    /// the Redis that SQL names, it was emptied, and not replaced; elsewhere it may be the same
    /// server with another prefix or another database number.
    async fn is_emptied(&self) -> Result<bool> {
        for cursor in log_cursor::all(&self.db).await? {
            let Ok(no) = u16::try_from(cursor.partition) else { continue };
            if *self.store.run_id(PartitionNo(no)).await? == *cursor.run_id {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until it is certain that no process reaches the Redis that SQL names, or until SQL
    /// names another one. It looks for [`GONE_AFTER`], as the others may have been without SQL
    /// until now.
    ///
    /// # Errors
    /// `Unavailable` if a process reaches it.
    pub(super) async fn wait_until_gone(&self, redis: &str) -> Result<()> {
        loop {
            let row = self.row().await?;
            let Some(seen_ms) = row.redis_seen_at_ms else {
                return Ok(());
            };
            if row.redis.as_deref() != Some(redis) {
                return Ok(());
            }
            let Some(unseen) = self.reached.unseen_for(redis, seen_ms) else {
                return Err(ranking::Error::Unavailable(format!(
                    "this is not the Redis of deployment {}: another process uses the one that the database names, {redis}; give this process the same LAUREL_REDIS_URL and LAUREL_REDIS_PREFIX, or stop the other processes to let the deployment move to this Redis",
                    self.identity
                ))
                .into());
            };
            let seen_ago_ms = sql_now_ms(&self.db).await? - seen_ms;
            if unseen > GONE_AFTER && seen_ago_ms > GONE_AFTER.as_millis() as i64 {
                return Ok(());
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Lets SQL know that this process reaches the deployment's Redis, until the value is dropped.
    pub(crate) fn begin_redis_heartbeat(&self) -> RedisHeartbeat {
        let (db, store) = (self.db.clone(), self.store.clone());
        let task = tokio::spawn(async move {
            let mut pause = SEEN_INTERVAL;
            loop {
                sleep(pause).await;
                // A silent connection must not keep the next note back.
                pause = match timeout(SEEN_TIMEOUT, note(&db, &store)).await {
                    Ok(Ok(())) => SEEN_INTERVAL,
                    failed => {
                        tracing::debug!(?failed, "SQL did not learn that Redis is reached");
                        LOOK_INTERVAL
                    }
                };
            }
        });
        RedisHeartbeat(task.abort_handle())
    }
}

/// Lets SQL know that this process reaches the Redis that it names, if it does.
async fn note(db: &DatabaseConnection, store: &Store) -> Result<()> {
    let owners = store.owners().await?;
    let reached: BTreeSet<&str> =
        owners.iter().flatten().flatten().map(|owner| owner.redis.as_str()).collect();
    if !reached.is_empty() {
        row::record_redis_seen(db, &reached).await?;
    }
    Ok(())
}

/// The sights of this process: the Redis that it has found to be the one that SQL names, and the
/// one that it looks for in vain.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    found: Mutex<Option<String>>,
    unseen: Mutex<Option<Unseen>>,
}

/// A Redis that no process has reached while this one looked.
#[derive(Debug)]
struct Unseen {
    redis: String,
    seen_ms: i64,
    since: Instant,
    last_look: Instant,
}

impl Reached {
    fn note(&self, redis: &str) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.as_deref() != Some(redis) {
            *found = Some(redis.to_owned());
        }
    }

    fn is(&self, redis: &str) -> bool {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.as_deref() == Some(redis)
    }

    /// The time for which a Redis was last reached at `seen_ms`, as far as this process has looked
    /// without a long pause; `None` if it was reached since the last look.
    fn unseen_for(&self, redis: &str, seen_ms: i64) -> Option<Duration> {
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let former = unseen.take().filter(|former| {
            former.redis == redis && now.duration_since(former.last_look) <= GONE_AFTER
        });
        let since = match former {
            Some(former) if former.seen_ms != seen_ms => return None,
            Some(former) => former.since,
            None => now,
        };
        *unseen = Some(Unseen { redis: redis.to_owned(), seen_ms, since, last_look: now });
        Some(now.duration_since(since))
    }
}

/// Keeps SQL informed that this process reaches Redis, until it is dropped.
#[derive(Debug)]
pub(crate) struct RedisHeartbeat(AbortHandle);

impl RedisHeartbeat {
    /// Ends it.
    pub(crate) fn end(&self) {
        self.0.abort();
    }
}

impl Drop for RedisHeartbeat {
    fn drop(&mut self) {
        self.end();
    }
}
