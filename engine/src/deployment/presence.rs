//! This process among those that have the deployment open: its heartbeat in SQL, and the others
//! that use another Redis.
//!
//! A private Redis is for the processes of one directory. Beside it, a process with another Redis
//! would commit what this one never sees, and each would recover the partitions away from the
//! other.

use std::path::Path;
use std::time::Duration;

use entity::deployment::process::{self, BEAT_MS, Model};
use entity::error::Result;
use sea_orm::DatabaseConnection;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::audit::host;
use crate::job::holder;

/// The longest time to take the row away when the process ends; it is ignored later anyway.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// The longest time of one heartbeat. A few that fail leave the process alive.
const BEAT_TIMEOUT: Duration = Duration::from_secs(4);

/// The presence of this process, renewed until it is dropped.
#[derive(Debug)]
pub struct Presence {
    db: DatabaseConnection,
    own: Model,
    beats: AbortHandle,
}

impl Presence {
    /// Registers this process, unless another one that is alive uses another Redis.
    ///
    /// # Errors
    /// `Invalid` if there is such a process.
    pub(crate) async fn begin(db: &DatabaseConnection, own: Model) -> Result<Self> {
        process::beat(db, &own).await?;
        let beats = tokio::spawn(beat(db.clone(), own.clone())).abort_handle();
        let presence = Self { db: db.clone(), own, beats };
        // Another process may have begun since the first look.
        if let Some(stranger) = presence.stranger().await? {
            presence.end().await;
            return Err(ranking::Error::Invalid(stranger).into());
        }
        Ok(presence)
    }

    /// The row of this process.
    pub(crate) fn own(&self) -> &Model {
        &self.own
    }

    /// A sentence about another living process that uses another Redis.
    pub(crate) async fn stranger(&self) -> Result<Option<String>> {
        let others = process::others_alive(&self.db, &self.own.id).await?;
        Ok(stranger_among(&self.own, &others))
    }

    /// Ends it: the others need not wait until its last heartbeat is old.
    pub(crate) async fn end(&self) {
        self.beats.abort();
        let _ = timeout(END_TIMEOUT, process::end(&self.db, &self.own.id)).await;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

/// The row of this process. `redis` is the identity of a private Redis, and `place` its directory
/// or the address in the URL.
pub(crate) fn own(database: Option<&Path>, redis: Option<String>, place: String) -> Model {
    let file = database.map(|file| file.canonicalize().unwrap_or_else(|_| file.to_owned()));
    Model {
        id: entity::random_id(),
        holder: holder::own().to_owned(),
        host: host(),
        pid: i32::try_from(std::process::id()).unwrap_or_default(),
        database: file.map(|file| file.display().to_string()).unwrap_or_default(),
        redis,
        place,
        // SQL sets both.
        started_at_ms: 0,
        heartbeat_at_ms: 0,
    }
}

/// Refuses a start beside a living process that uses another Redis, before anything is made.
///
/// `own` is called after the others are read: a process writes its row after the identity of its
/// private Redis, so the identity of a Redis that both share is there by then.
///
/// # Errors
/// `Invalid` if there is such a process.
pub(crate) async fn refuse_strangers(
    db: &DatabaseConnection,
    own: impl FnOnce() -> Model,
) -> Result<()> {
    let others = process::others_alive(db, "").await?;
    match stranger_among(&own(), &others) {
        Some(stranger) => Err(ranking::Error::Invalid(stranger).into()),
        None => Ok(()),
    }
}

fn stranger_among(own: &Model, others: &[Model]) -> Option<String> {
    let other = others.iter().find(|other| is_stranger(own, other))?;
    Some(format!(
        "process {} on {} serves this deployment with {}, and this process would with {}: expected one Redis for all, as each would lose what the other takes; set LAUREL_REDIS_URL to one Redis for all processes, or stop that process",
        other.pid,
        other.host,
        redis_of(other),
        redis_of(own)
    ))
}

/// True if another process shares the database but not the Redis, as far as both are private.
fn is_stranger(own: &Model, other: &Model) -> bool {
    other.database == own.database
        && (own.redis.is_some() || other.redis.is_some())
        && own.redis != other.redis
        && !holder::is_gone(&other.holder)
}

fn redis_of(process: &Model) -> String {
    match process.redis {
        Some(_) => format!("a private Redis in {}", process.place),
        None => format!("the Redis at {}", process.place),
    }
}

/// Renews a row until the task is aborted.
async fn beat(db: DatabaseConnection, own: Model) {
    loop {
        sleep(Duration::from_millis(BEAT_MS)).await;
        // A silent connection must not keep the next heartbeat back.
        match timeout(BEAT_TIMEOUT, process::beat(&db, &own)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "writing a heartbeat of this process failed"),
            Err(_) => tracing::debug!("writing a heartbeat of this process took too long"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_private_redis_makes_strangers_and_only_on_the_same_database() {
        let process = |database: &str, redis: Option<&str>| Model {
            database: database.to_owned(),
            holder: String::new(),
            ..own(None, redis.map(str::to_owned), "x".to_owned())
        };
        let here = process("", Some("a"));
        assert!(!is_stranger(&here, &process("", Some("a"))));
        assert!(is_stranger(&here, &process("", Some("b"))));
        assert!(is_stranger(&here, &process("", None)));
        assert!(is_stranger(&process("", None), &here));
        assert!(!is_stranger(&process("", None), &process("", None)));
        assert!(!is_stranger(&here, &process("/copy.sqlite", Some("b"))));
        let gone = Model { holder: format!("{}x", holder::own()), ..process("", Some("b")) };
        // Its start time is another one, so that process has ended.
        assert!(!is_stranger(&here, &gone));
    }
}
