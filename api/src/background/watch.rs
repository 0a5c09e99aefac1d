//! The watch: every few seconds it looks for what is wrong with the stores though they answer, and
//! says so in the log, in the metrics and on `/readyz`.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::deployment::Deployment;
use engine::deployment::watch::{Check, Warning};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::metrics::METRICS;

/// The pause between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);

/// A running watch.
pub struct Watch(JoinHandle<()>);

impl Watch {
    /// Starts it.
    pub fn start(deployment: &Deployment) -> Self {
        Self(tokio::spawn(watch(deployment.clone())))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn watch(deployment: Deployment) {
    let mut told = BTreeMap::new();
    loop {
        deployment.look().await;
        let warnings = deployment.watch.warnings();
        METRICS.set_warnings(&warnings);
        told = tell(told, warnings);
        sleep(LOOK_INTERVAL).await;
    }
}

/// Logs the warnings that are new and those that are over. Returns the ones that hold.
fn tell(
    told: BTreeMap<(Check, String), Warning>,
    warnings: Vec<Warning>,
) -> BTreeMap<(Check, String), Warning> {
    let now: BTreeMap<_, _> = warnings
        .into_iter()
        .map(|warning| ((warning.check, warning.at.clone()), warning))
        .collect();
    for warning in now.iter().filter(|(key, _)| !told.contains_key(*key)).map(|(_, new)| new) {
        match warning.is_grave {
            true => tracing::error!(check = warning.check.name(), "{warning}"),
            false => tracing::warn!(check = warning.check.name(), "{warning}"),
        }
    }
    for (check, at) in told.keys().filter(|key| !now.contains_key(*key)) {
        tracing::info!(check = check.name(), at = at.as_str(), "what was wrong is right again");
    }
    now
}
