//! Webhooks: the deliveries of this process over HTTP, and the bound on events that wait.

use std::time::Duration;

use engine::board::agenda::Agenda;
use engine::deployment::Deployment;
use engine::settings::WebhookSettings;
use engine::webhook::delivery::{Courier, Deliveries, Patience, Sent, Source};
use engine::webhook::message::Message;
use entity::Result;
use entity::webhook::{self, Model, State, outbox};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::metrics::METRICS;
use crate::webhook::receiver::{Receivers, is_feed};

/// The pause between two looks for webhooks that no process delivers to.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause between two counts of the events that wait.
const BOUND_INTERVAL: Duration = Duration::from_secs(60);

/// The longest time of one count. A silent connection must not end all of them.
const BOUND_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest pause after a failed attempt, in milliseconds.
const PAUSE_MS_MAX: u64 = 3_600_000;

/// The way to receivers, and how long it is tried.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) receivers: Receivers,
    pub(crate) settings: WebhookSettings,
}

impl Courier for Delivery {
    const TOGETHER_MAX: usize = 1;

    fn reaches(&self, webhook: &Model) -> bool {
        !is_feed(&webhook.url)
    }

    fn patience(&self) -> Patience {
        Patience {
            pause_ms: self.settings.webhook_retry_ms,
            pause_ms_max: PAUSE_MS_MAX,
            fail_ms: Some(self.settings.webhook_fail_seconds.saturating_mul(1000)),
        }
    }

    async fn send(&self, webhook: &Model, messages: &[Message], now_ms: i64) -> Sent {
        let secrets = webhook.secrets(now_ms);
        for (index, message) in messages.iter().enumerate() {
            match self.receivers.send(&webhook.url, &secrets, message, now_ms).await {
                Sent::All => METRICS.webhooks.taken.inc(),
                failed => {
                    METRICS.webhooks.refused.inc();
                    return match failed {
                        Sent::Failed(_, error) => Sent::Failed(index, error),
                        gone => gone,
                    };
                }
            };
        }
        Sent::All
    }
}

/// Delivers until `stop` is set.
pub(crate) async fn work(
    deployment: &Deployment,
    delivery: Option<&Delivery>,
    agenda: &Agenda,
    mut stop: watch::Receiver<bool>,
) {
    let Some(delivery) = delivery else { return };
    let source = Source::of(deployment);
    let mut deliveries = Deliveries::new(source, delivery.clone(), stop.clone());
    let (mut well, mut bounded_at) = (true, None);
    while !*stop.borrow() {
        let has_some = agenda.signs().webhooks > 0;
        let looked = match has_some {
            true => deliveries.look().await,
            false => Ok(vec![]),
        };
        let was_well = std::mem::replace(&mut well, looked.is_ok());
        match looked {
            Ok(rows) => {
                let failed = rows.iter().filter(|row| row.state == State::Failed).count();
                METRICS.webhooks.set_failed(failed);
            }
            Err(error) if was_well => tracing::warn!(%error, "webhooks wait"),
            Err(_) => {}
        }
        if has_some && bounded_at.is_none_or(|at: Instant| at.elapsed() >= BOUND_INTERVAL) {
            bounded_at = Some(Instant::now());
            if let Ok(Err(error)) = timeout(BOUND_TIMEOUT, bound(deployment)).await {
                tracing::debug!(%error, "the events that wait for webhooks were not counted");
            }
        }
        tokio::select! {
            () = sleep(LOOK_INTERVAL) => {}
            _ = stop.changed() => {}
        }
    }
    deliveries.end().await;
}

/// Drops the oldest events of the outbox where too many wait.
async fn bound(deployment: &Deployment) -> Result<()> {
    for webhook in webhook::list(&deployment.db).await? {
        let mut dropped = 0;
        loop {
            match outbox::drop_oldest(&deployment.db, &webhook.id).await? {
                0 => break,
                some => dropped += some,
            }
        }
        if dropped > 0 {
            let (webhook, name) = (webhook.id, webhook.name);
            tracing::error!(
                webhook,
                name,
                dropped,
                "the oldest events for a webhook are dropped, as too many wait"
            );
        }
    }
    Ok(())
}
