//! Webhooks: of all processes one at a time delivers to a webhook.
//!
//! Each partition's history is a lane, and so is the outbox. The events of a lane are delivered one
//! after the other, and lanes side by side. A lane moves on only once the receiver took its event,
//! so an event comes at least once, with the same id each time, and in the order of its lane. All
//! events of a member on a board are of one partition, until the board moves to another number of
//! shards.

mod lane;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::board::agenda::Agenda;
use engine::deployment::Deployment;
use engine::job::holder;
use engine::settings::WebhookSettings;
use entity::Result;
use entity::webhook::{self, HELD_MS, Model, State, lane as row, outbox};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::metrics::METRICS;
use crate::webhook::receiver::{ANSWER_TIMEOUT, Receivers};
use lane::Lane;

/// The pause between two looks for webhooks that no process delivers to.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause between two looks for events of a webhook.
const EVENTS_INTERVAL: Duration = Duration::from_millis(250);

/// The pause between two renewals of the hold on a webhook.
const HOLD_INTERVAL: Duration = Duration::from_secs(10);

/// The pause between two counts of the events that wait.
const BOUND_INTERVAL: Duration = Duration::from_secs(60);

/// The longest time of one look. A silent connection must not end all of them.
const EVENTS_LOOK_TIMEOUT: Duration = Duration::from_secs(20);

/// The lanes of a webhook that are delivered side by side.
const LANES_AT_ONCE: usize = 8;

/// The time that deliveries under way may take when the process stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The way to receivers, and how long it is tried.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) receivers: Receivers,
    pub(crate) settings: WebhookSettings,
}

/// A webhook as a lane sees it before each delivery; `None` once this process must deliver nothing
/// more.
type Present = Option<(Arc<Model>, Instant)>;

/// Delivers until `stop` is set.
pub(crate) async fn work(
    deployment: &Deployment,
    delivery: Option<&Delivery>,
    agenda: &Agenda,
    mut stop: watch::Receiver<bool>,
) {
    let Some(delivery) = delivery else { return };
    let mut webhooks: JoinSet<String> = JoinSet::new();
    let mut held: HashSet<String> = HashSet::new();
    let (mut well, mut bounded_at) = (true, None);
    while !*stop.borrow() {
        while let Some(ended) = webhooks.try_join_next() {
            match ended {
                Ok(id) => drop(held.remove(&id)),
                Err(error) => {
                    tracing::error!(%error, "the delivery to webhooks ended badly");
                    webhooks.abort_all();
                    held.clear();
                }
            }
        }
        let has_some = agenda.signs().webhooks > 0;
        let looked = match has_some {
            true => timeout(EVENTS_LOOK_TIMEOUT, look(deployment, &held)).await,
            false => {
                METRICS.webhooks.set_failed(0);
                Ok(Ok(vec![]))
            }
        };
        let looked = looked.unwrap_or_else(|_| Ok(vec![]));
        let was_well = std::mem::replace(&mut well, looked.is_ok());
        match looked {
            Ok(taken) => {
                for id in taken {
                    held.insert(id.clone());
                    let of = (deployment.clone(), delivery.clone());
                    webhooks.spawn(deliver(of, id, stop.clone()));
                }
            }
            Err(error) if was_well => tracing::warn!(%error, "webhooks wait"),
            Err(_) => {}
        }
        if has_some && bounded_at.is_none_or(|at: Instant| at.elapsed() >= BOUND_INTERVAL) {
            bounded_at = Some(Instant::now());
            if let Ok(Err(error)) = timeout(EVENTS_LOOK_TIMEOUT, bound(deployment)).await {
                tracing::debug!(%error, "the events that wait for webhooks were not counted");
            }
        }
        tokio::select! {
            () = sleep(LOOK_INTERVAL) => {}
            _ = stop.changed() => {}
        }
    }
    while webhooks.join_next().await.is_some() {}
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

/// Takes the active webhooks that no process delivers to.
async fn look(deployment: &Deployment, held: &HashSet<String>) -> Result<Vec<String>> {
    let db = &deployment.db;
    let rows = webhook::list(db).await?;
    let failed = rows.iter().filter(|row| row.state == State::Failed).count();
    METRICS.webhooks.set_failed(failed);
    let mut taken = vec![];
    for row in rows {
        if row.state != State::Active || held.contains(&row.id) {
            continue;
        }
        let gone = row.holder.as_deref().filter(|holder| holder::is_gone(holder));
        if webhook::hold(db, &row.id, holder::own(), gone).await? {
            taken.push(row.id);
        }
    }
    Ok(taken)
}

/// Delivers to a webhook that this process has taken, until it is another's, no longer active, or
/// `stop` is set. Returns its id.
async fn deliver(
    (deployment, delivery): (Deployment, Delivery),
    id: String,
    mut stop: watch::Receiver<bool>,
) -> String {
    let (present, _) = watch::channel(None);
    let mut delivering = Delivering {
        deployment,
        delivery,
        present,
        lanes: JoinSet::new(),
        busy: HashSet::new(),
        held_at: None,
    };
    while !*stop.borrow() {
        let looked = timeout(EVENTS_LOOK_TIMEOUT, delivering.look(&id)).await;
        match looked {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => break,
            Ok(Err(error)) => {
                tracing::debug!(webhook = id, %error, "events of a webhook wait");
                sleep(LOOK_INTERVAL).await;
            }
            Err(_) => {}
        }
        tokio::select! {
            () = sleep(EVENTS_INTERVAL) => {}
            Some(ended) = delivering.lanes.join_next() => delivering.end_lane(ended),
            _ = stop.changed() => {}
        }
    }
    delivering.present.send_replace(None);
    let ending = async { while delivering.lanes.join_next().await.is_some() {} };
    // An event that is cut short is delivered again.
    let _ = timeout(STOP_TIMEOUT, ending).await;
    delivering.lanes.shutdown().await;
    let letting_go = webhook::let_go(&delivering.deployment.db, &id, holder::own());
    let _ = timeout(STOP_TIMEOUT, letting_go).await;
    id
}

/// The lanes of a webhook that this process delivers.
struct Delivering {
    deployment: Deployment,
    delivery: Delivery,
    present: watch::Sender<Present>,
    lanes: JoinSet<i32>,
    /// The partitions of the lanes under way.
    busy: HashSet<i32>,
    held_at: Option<Instant>,
}

impl Delivering {
    /// Goes on holding the webhook, and begins the lanes that have events. Returns false once the
    /// webhook is not this process' to deliver to.
    async fn look(&mut self, id: &str) -> Result<bool> {
        let db = &self.deployment.db.clone();
        let now = Instant::now();
        if self.held_at.is_none_or(|at| now - at >= HOLD_INTERVAL) {
            if !webhook::hold(db, id, holder::own(), None).await? {
                return Ok(false);
            }
            self.held_at = Some(now);
        }
        let found = webhook::find(db, id).await?;
        let Some(webhook) = found.filter(|row| row.state == State::Active) else {
            return Ok(false);
        };
        let webhook = Arc::new(webhook);
        // A delivery that begins before this instant has ended while the webhook is still held.
        let held = Duration::from_millis(HELD_MS.unsigned_abs());
        let until = self.held_at.unwrap_or(now) + held - ANSWER_TIMEOUT * 2;
        self.present.send_replace(Some((webhook.clone(), until)));
        let now_ms = self.deployment.clock.now_ms();
        let lane = row::of_outbox(db, id).await?;
        if lane.retry_at_ms <= now_ms
            && !self.busy.contains(&row::OUTBOX)
            && !outbox::first(db, id, 1).await?.is_empty()
        {
            self.start_lane(lane, 0);
        }
        for (lane, end) in row::due(db, id, now_ms).await? {
            if self.busy.len() >= LANES_AT_ONCE {
                break;
            }
            if !self.busy.contains(&lane.partition) {
                self.start_lane(lane, end);
            }
        }
        Ok(true)
    }

    fn start_lane(&mut self, row: row::Model, end: i64) {
        let partition = row.partition;
        let lane = Lane {
            deployment: self.deployment.clone(),
            delivery: self.delivery.clone(),
            present: self.present.subscribe(),
            row,
            end,
            has_taken: false,
        };
        self.lanes.spawn(lane.run());
        self.busy.insert(partition);
    }

    fn end_lane(&mut self, ended: std::result::Result<i32, JoinError>) {
        match ended {
            Ok(partition) => drop(self.busy.remove(&partition)),
            Err(error) => {
                tracing::error!(%error, "the delivery of a webhook's lane ended badly");
                self.lanes.abort_all();
                self.busy.clear();
            }
        }
    }
}
