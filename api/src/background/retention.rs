//! Retention: rows that only tell what happened are deleted once they are old, a few at a time.

use std::time::Duration;

use engine::deployment::Deployment;
use engine::settings::RetentionSettings;
use entity::Result;
use entity::deployment::clock::sql_now_ms;
use entity::sql::retention::{ROWS_MAX, Records, delete_old};
use sea_orm::DbErr;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::metrics::METRICS;

/// The pause between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(3600);

/// The pause between two statements, so that writers come in between.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest time of one statement. A silent connection must not end all of them.
const DELETE_TIMEOUT: Duration = Duration::from_secs(300);

/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// The days that rows of processes that ended without a word are kept.
const PROCESS_DAYS: u32 = 1;

/// Deletes old rows until `stop` is set.
pub async fn work(
    deployment: &Deployment,
    settings: &RetentionSettings,
    mut stop: watch::Receiver<bool>,
) {
    while !*stop.borrow() {
        tokio::select! {
            done = round(deployment, settings) => {
                if let Err(error) = done {
                    tracing::warn!(%error, "deleting old rows failed and is retried within an hour");
                }
            }
            _ = stop.changed() => return,
        }
        tokio::select! {
            () = sleep(ROUND_INTERVAL) => {}
            _ = stop.changed() => {}
        }
    }
}

async fn round(deployment: &Deployment, settings: &RetentionSettings) -> Result<()> {
    let kept = [
        (Records::Job, settings.job_retention_days),
        (Records::Finding, settings.finding_retention_days),
        (Records::Run, settings.finding_retention_days),
        (Records::DeadLetter, settings.dead_letter_retention_days),
        (Records::Process, PROCESS_DAYS),
        (Records::Audit, settings.audit_retention_days),
        (Records::Position, settings.position_retention_days),
    ];
    // The clock of SQL: it wrote the rows of processes, and one process whose clock is ahead must
    // not delete what the others still need.
    let now_ms = in_time(sql_now_ms(&deployment.db)).await?;
    for (records, days) in kept.into_iter().filter(|(_, days)| *days > 0) {
        let before_ms = now_ms - i64::from(days) * DAY_MS;
        let mut sum = 0;
        loop {
            let deleted = in_time(delete_old(&deployment.db, records, before_ms)).await?;
            METRICS.count_deleted(records, deleted);
            sum += deleted;
            if deleted < ROWS_MAX {
                break;
            }
            sleep(PAUSE).await;
        }
        if sum > 0 {
            tracing::info!(rows = sum, days, table = records.table(), "deleted old rows");
        }
    }
    Ok(())
}

async fn in_time<T>(statement: impl Future<Output = Result<T, DbErr>>) -> Result<T> {
    let done = timeout(DELETE_TIMEOUT, statement).await.map_err(|_| {
        ranking::Error::Unavailable("the database took too long to delete rows".into())
    })?;
    Ok(done?)
}
