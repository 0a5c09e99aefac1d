//! The background work. It persists the log of every partition, recovers partitions that are not
//! level, rolls windows, finishes interrupted work, deletes old rows, and runs the daily diff.

use std::sync::Arc;
use std::time::Duration;

use engine::deployment::Deployment;
use engine::job::{self, Begun};
use engine::settings::RetentionSettings;
use entity::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::persister;
use crate::background::checkpoints;
use crate::background::daily_diff::Daily;
use crate::background::retention;
use crate::health::Health;

/// The longest time of one round of upkeep. Each step of it goes on where it stopped.
const UPKEEP_TIMEOUT: Duration = Duration::from_secs(3600);

/// The longest time in which SQL tells what is to be done: on a silent connection all other upkeep
/// would wait.
const LIST_TIMEOUT: Duration = Duration::from_secs(600);

/// How long SQL may take to note that this process' jobs end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// How long upkeep pauses between two rounds.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How long after the deletion of a board upkeep purges the data that the deleting request left, in
/// milliseconds.
const PURGE_AFTER_MS: i64 = 20_000;

/// How long after a failed seal upkeep tries again, in milliseconds.
const SEAL_AGAIN_MS: i64 = 10_000;

/// Signals to the persister of this process.
#[derive(Debug, Default)]
pub struct Signals {
    /// A committer has committed.
    pub committed: Notify,
    /// A client waits until SQL has its commit.
    pub awaited: Notify,
}

/// Works until `stop` is set, then persists the rest of the logs, as far as the stores answer.
pub async fn work(
    deployment: Deployment,
    health: Arc<Health>,
    signals: Arc<Signals>,
    daily: Daily,
    retained: RetentionSettings,
    stop: watch::Receiver<bool>,
) {
    tokio::join!(
        daily.work(&deployment, stop.clone()),
        checkpoints::work(&deployment, stop.clone()),
        retention::work(&deployment, &retained, stop.clone()),
        persister::persist(&deployment, &health, &signals, stop.clone()),
        upkeep(&deployment, stop.clone(), |deployment| {
            finish_interrupted_work(deployment).boxed()
        }),
        upkeep(&deployment, stop, |deployment| roll(deployment).boxed()),
    );
    let now_ms = deployment.clock.now_ms();
    let ended = job::end_own(&deployment.db, "its server was stopped", now_ms);
    match timeout(END_TIMEOUT, ended).await {
        Ok(Ok(_)) => {}
        ended => tracing::warn!(
            ?ended,
            "jobs of this process could not be ended; they end once their heartbeats expire"
        ),
    }
}

/// Repeats `work`, with a pause of [`UPKEEP_INTERVAL`], until `stop` is set.
async fn upkeep(
    deployment: &Deployment,
    mut stop: watch::Receiver<bool>,
    work: impl for<'a> Fn(&'a Deployment) -> BoxFuture<'a, Result<()>>,
) {
    let mut well = true;
    while !*stop.borrow() {
        tokio::select! {
            finished = timeout(UPKEEP_TIMEOUT, work(deployment)) => {
                let late = || ranking::Error::Unavailable("it took too long".into()).into();
                let finished = finished.unwrap_or_else(|_| Err(late()));
                let was_well = std::mem::replace(&mut well, finished.is_ok());
                if let Err(error) = finished && was_well {
                    tracing::warn!(%error, "upkeep failed and is retried");
                }
            }
            _ = stop.changed() => return,
        }
        tokio::select! {
            () = sleep(UPKEEP_INTERVAL) => {}
            _ = stop.changed() => {}
        }
    }
}

async fn roll(deployment: &Deployment) -> Result<()> {
    engine::roll::roll(deployment, deployment.clock.now_ms()).await?;
    Ok(())
}

/// Finishes interrupted work: voids of events that SQL refused and Redis still counts, windows to
/// fill or drop, abandoned moves to another number of shards, due seals, dead jobs, and the data of
/// deleted boards.
async fn finish_interrupted_work(deployment: &Deployment) -> Result<()> {
    engine::amend::void_dead_letters(deployment).await?;
    // A board that fails must not stop the others.
    let mut failed = None;
    for board in in_time(engine::board::windows::unfinished(deployment)).await? {
        if let Err(error) = engine::board::windows::finish(deployment, &board).await {
            failed = Some(error);
        }
    }
    if let Err(error) = engine::reshard::look_after(deployment).await {
        failed = Some(error);
    }
    if let Err(error) = seal(deployment).await {
        failed = Some(error);
    }
    in_time(job::end_dead(&deployment.db, deployment.clock.now_ms())).await?;
    let before_ms = deployment.clock.now_ms() - PURGE_AFTER_MS;
    for board in in_time(engine::board::delete::left_over(deployment)).await? {
        if board.deleted_at_ms.is_some_and(|at_ms| at_ms < before_ms)
            && let Err(error) = engine::board::delete::purge(deployment, &board).await
        {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Waits until SQL tells what is to be done, up to [`LIST_TIMEOUT`].
async fn in_time<T>(told: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(LIST_TIMEOUT, told).await.unwrap_or_else(|_| {
        let silent = "the database took too long to tell what upkeep is due";
        Err(ranking::Error::Unavailable(silent.into()).into())
    })
}

/// Seals all due periods, as a job. Does nothing if another process runs that job, or if it failed
/// a moment ago.
async fn seal(deployment: &Deployment) -> Result<()> {
    let (db, now_ms) = (&deployment.db, deployment.clock.now_ms());
    if !in_time(engine::seal::is_due(deployment, now_ms)).await?
        || job::failed_since(db, entity::job::SEAL, None, now_ms - SEAL_AGAIN_MS).await?
    {
        return Ok(());
    }
    let Begun::Running(job) = job::begin(db, &deployment.clock, entity::job::SEAL, None).await?
    else {
        return Ok(());
    };
    let sealed = engine::seal::seal(deployment, now_ms).await;
    let outcome = match &sealed {
        Ok(sealing) => Ok(sealing.to_string()),
        Err(error) => Err(error.to_string()),
    };
    job.end(outcome.as_deref().map_err(String::as_str)).await?;
    sealed.map(drop)
}
