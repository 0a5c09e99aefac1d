//! The jobs that keep windows up to date: rolling them, and sealing their past periods.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use engine::deployment::Deployment;
use engine::seal::Sealing;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::job::Job;

/// The longest time that a job retries what other processes prevent.
const TRANSIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause before a retry.
const PAUSE: Duration = Duration::from_millis(200);

/// The outcome of `roll`.
#[derive(Serialize)]
pub struct Rolled {
    done: String,
}

impl fmt::Display for Rolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.done)
    }
}

/// Rolls every board's windows to the present.
pub async fn roll(deployment: &Deployment) -> Result<Rolled> {
    let job = Job::begin_in_turn(deployment, "ROLL").await?;
    let now_ms = deployment.clock.now_ms();
    let rolled = retry_while_transient(|| engine::roll::roll(deployment, now_ms)).await;
    let text = |boards| Rolled {
        done: format!("the rolling windows of {boards} boards are at the present"),
    };
    job.end(rolled.map(text).map_err(Into::into)).await
}

/// Seals the past periods of every board.
pub async fn seal(deployment: &Deployment) -> Result<Sealing> {
    let job = Job::begin_in_turn(deployment, "SEAL").await?;
    let now_ms = deployment.clock.now_ms();
    let sealed = retry_while_transient(|| engine::seal::seal(deployment, now_ms)).await;
    job.end(sealed.map_err(Into::into)).await
}

/// Retries a repeatable step until it succeeds: other processes may do the same step, or work on
/// the same boards.
async fn retry_while_transient<T, F>(again: impl Fn() -> F) -> entity::Result<T>
where
    F: Future<Output = entity::Result<T>>,
{
    let deadline = Instant::now() + TRANSIENT_TIMEOUT;
    loop {
        match again().await {
            Err(error) if error.is_transient() && Instant::now() < deadline => sleep(PAUSE).await,
            done => return done,
        }
    }
}
