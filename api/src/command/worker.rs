//! `laurel worker`: the background work, by itself.

use std::ffi::OsString;
use std::sync::Arc;

use anyhow::Result;
use engine::deployment::Deployment;
use engine::process::StopSignals;
use engine::settings::RetentionSettings;
use engine::settings::stores::Missing;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{WorkerArguments, connect, open};
use crate::background::daily_diff::Daily;
use crate::background::watch::Watch;
use crate::background::worker::{self, Signals};

/// Does the background work until a signal comes.
pub async fn work(arguments: WorkerArguments, environment: Vec<(String, OsString)>) -> Result<()> {
    let mut stop = StopSignals::catch()?;
    arguments.stores.log.start("info")?;
    let daily = Daily::new(&arguments.daily_diff, environment)?;
    let db = connect(&arguments.stores, Missing::Refuse).await?;
    let deployment = open(&arguments.stores, db).await?;
    let watch = Watch::start(&deployment);
    let working = Working::start(&deployment, &Arc::default(), daily, arguments.retention);
    stop.wait().await;
    working.stop().await;
    drop(watch);
    deployment.close().await;
    Ok(())
}

/// The background work, running.
pub struct Working {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Working {
    /// Starts it.
    pub fn start(
        deployment: &Deployment,
        signals: &Arc<Signals>,
        daily: Daily,
        retained: RetentionSettings,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (deployment, signals) = (deployment.clone(), signals.clone());
        let work = worker::work(deployment, signals, daily, retained, stopped);
        Self { stop, task: tokio::spawn(work) }
    }

    /// Stops it, and waits until it has ended.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the background work ended badly");
        }
    }
}
