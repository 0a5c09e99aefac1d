//! `laurel worker`: the background work, by itself.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use engine::deployment::Deployment;
use engine::process::StopSignals;
use engine::settings::stores::Missing;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{WorkerArguments, connect, open};
use crate::background::daily_diff::Daily;
use crate::background::mirror::Mirror;
use crate::background::watch::Watch;
use crate::background::webhooks::Delivery;
use crate::background::worker::{self, Plan, Signals};
use crate::health::Health;
use crate::traces::{Exporter, Traces};
use crate::webhook::receiver::Receivers;

/// The time that the rest of the log may take when the process stops, and the stores to close:
/// together less than the ten seconds after which supervisors kill.
const STOP_TIMEOUT: Duration = Duration::from_millis(7500);
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1500);

/// The time that a look-up may take; this process makes none for requests.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Does the background work until a signal comes.
pub async fn work(arguments: WorkerArguments, environment: Vec<(String, OsString)>) -> Result<()> {
    let mut stop = StopSignals::catch()?;
    let cleartext = &arguments.stores.settings.sql.cleartext;
    let traces = Traces::new(&arguments.traces, cleartext, "laurel-worker")?;
    arguments.stores.log.start_beside("info", traces.as_ref().map(Traces::layer))?;
    let receivers = Receivers::new(&arguments.webhooks, cleartext)?;
    let lake = &arguments.stores.settings.mirror;
    let mirror = Mirror::new(lake, &arguments.daily_diff, &environment)?;
    let plan = Plan {
        daily: Daily::new(&arguments.daily_diff, environment)?,
        mirror,
        retained: arguments.retention,
        delivery: Some(Delivery { receivers, settings: arguments.webhooks }),
    };
    let opening = Box::pin(async {
        let db = connect(&arguments.stores, Missing::Refuse).await?;
        open(&arguments.stores, db).await
    });
    let deployment = tokio::select! {
        opened = opening => opened?,
        _ = stop.wait() => {
            tracing::warn!("stopped before the stores answered");
            return Ok(());
        }
    };
    let exporter = traces.map(|traces| traces.export(&deployment.identity));
    let health = Health::start(&deployment, PROBE_TIMEOUT);
    let watch = Watch::start(&deployment);
    let working = Working::start(&deployment, &health, &Arc::default(), plan);
    stop.wait().await;
    stop_in_time((deployment, exporter), &health, watch, working.stop()).await;
    Ok(())
}

/// Waits until the work of a process has ended, then closes the stores and sends the last spans,
/// all as far as supervisors leave time.
pub(super) async fn stop_in_time(
    (deployment, exporter): (Deployment, Option<Exporter>),
    health: &Health,
    watch: Watch,
    ending: impl Future<Output = ()>,
) {
    if timeout(STOP_TIMEOUT, ending).await.is_err() {
        tracing::warn!("stopping: the rest of the log waits in Redis for the next start");
    }
    health.stop();
    drop(watch);
    // At once, as both may take all the time.
    let sending = async {
        if let Some(exporter) = exporter {
            exporter.stop(CLOSE_TIMEOUT).await;
        }
    };
    let closing = timeout(CLOSE_TIMEOUT, deployment.close());
    let (closed, ()) = tokio::join!(closing, sending);
    if closed.is_err() {
        tracing::warn!("stopping: the stores did not close in time");
    }
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
        health: &Arc<Health>,
        signals: &Arc<Signals>,
        plan: Plan,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (deployment, health, signals) = (deployment.clone(), health.clone(), signals.clone());
        let work = worker::work(deployment, health, signals, plan, stopped);
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
